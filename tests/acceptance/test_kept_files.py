"""What was frozen and what runs left: damage is found and named, and what nobody needs goes by itself."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, user_environment, wait_until
from turnout.client import Client

LARGE = b"large" * 40_000


def doctor(cli: Cli, *options: str) -> tuple[int, list[dict[str, Any]]]:
    done = cli("doctor", "--json", *options, check=False)
    return done.returncode, json.loads(done.stdout)


def problems(found: list[dict[str, Any]]) -> str:
    return "\n".join(each["what"] for each in found if each["level"] == "problem")


@pytest.fixture
def project(cli: Cli) -> Path:
    """Submitted once, as job1, whose run1 left a file."""
    (cli.cwd / "train.py").write_text("open('output/model.txt', 'w').write('the model')")
    (cli.cwd / "data.bin").write_bytes(LARGE)
    cli("run", "--wait", "train.py")
    return cli.cwd


class TestDoctor:
    def test_all_is_well(self, cli: Cli, project: Path) -> None:
        for options in ((), ("--deep",)):
            code, found = doctor(cli, *options)
            assert code == 0 and not problems(found)
            assert any("5 blobs" in each["what"] and "0 damaged" in each["what"] for each in found)

    @pytest.mark.parametrize("options", [(), ("--deep",)])
    def test_damage_is_named_and_healed_by_submitting_again(
        self, cli: Cli, project: Path, options: tuple[str, ...]
    ) -> None:
        (pack,) = (cli.home / "blobs" / "packs").iterdir()
        content = bytearray(pack.read_bytes())
        content[content.index(b"output/model.txt")] ^= 1
        pack.write_bytes(content)
        (cli.home / "blobs" / "files" / hashlib.sha256(LARGE).hexdigest()).unlink()

        code, found = doctor(cli, *options)

        assert code == 1
        damaged = hashlib.sha256((project / "train.py").read_bytes()).hexdigest()
        assert f"blob {damaged} is damaged" in problems(found)
        assert "job1 lacks data.bin, train.py of what it was given" in problems(found)
        assert any("submit again" in each["hint"] for each in found)
        shown = cli("doctor", check=False)
        assert shown.returncode == 1 and "data.bin, train.py" in shown.stdout

        cli("run", "--wait", "train.py")
        code, found = doctor(cli, "--deep")
        assert code == 0, problems(found)

    def test_a_lost_list_of_files_is_named_too(self, cli: Cli, project: Path) -> None:
        (pack,) = (cli.home / "blobs" / "packs").iterdir()
        content = bytearray(pack.read_bytes())
        content[content.rindex(b'"output/model.txt"')] ^= 1
        pack.write_bytes(content)
        code, found = doctor(cli)
        assert code == 1 and "run1 lacks the list of files of what it left behind" in problems(found)


def test_an_upload_that_nobody_used_goes_after_a_day(cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in user_environment(cli.home).items():
        monkeypatch.setenv(name, value)
    client = Client()
    unused = hashlib.sha256(LARGE + b"unused").hexdigest()
    client.put_stream(unused, [LARGE, b"unused"])
    client.close()
    cli("hub", "stop")
    blobs = cli.home / "blobs"
    assert (blobs / "files" / unused).exists()
    (blobs / "unwanted").write_text(json.dumps({unused: time.time() - 90_000}))  # found so 25 hours ago
    (blobs / "swept").write_text(str(time.time() - 90_000))

    cli("hub", "start")

    wait_until(lambda: not (blobs / "files" / unused).exists(), 30.0, "the unused blob is gone")
    assert doctor(cli, "--deep")[0] == 0
    (cli.cwd / "train.py").unlink()
    cli("extract", "run1", "back")
    assert (cli.cwd / "back" / "before" / "data.bin").read_bytes() == LARGE
    assert (cli.cwd / "back" / "after" / "output" / "model.txt").read_text() == "the model"
