"""A12: names, tags, values and arguments that a shell would act upon arrive as they were written; no more happens."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, user_environment
from tests.security.doors import LivingHub, living_hub

pytestmark = pytest.mark.xdist_group("security literal")

HOSTILE = [
    b"$(touch pwn)", b"`touch pwn`", b"'; touch pwn #", b'"; touch pwn #', b"a\ntouch pwn", b"&& touch pwn", b"> pwn",
    b"a\n#SBATCH --wrap=touch pwn", b"-oProxyCommand=touch pwn", b"| touch pwn", b"--help", b"-", b"--", b"", b" ",
    b"*", b"~",
    b"$HOME", b"$RUN_ARGS$", b"${IFS}x", b"\\", b"a\\nb", b"!!", b"%s%n", b"\xff\xfe", b"\x01\x1b[31m\x7f",
    "ünïcode →".encode(), b"x" * 5000,
]  # fmt: skip

#: Prints argv and environment of the process it is, as JSON of base64.
TELL = """
import base64, json, os, sys
told = {"argv": [base64.b64encode(os.fsencode(a)).decode() for a in sys.argv[1:]],
        "env": {k.decode("latin-1"): base64.b64encode(v).decode() for k, v in os.environb.items()}}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[LivingHub]:
    with living_hub(listen=False) as running:
        (running.cli.cwd / "tell.py").write_text(TELL)
        (running.cli.cwd / "tell.sh").write_text(f"{sys.executable} tell.py $RUN_ARGS$\n")
        (running.cli.cwd / "quoted.sh").write_text(f'{sys.executable} tell.py "$RUN_ARGS$"\n')
        yield running


def run(cli: Cli, *args: bytes) -> Any:
    """``turnout run --wait`` with these very bytes; what the run told."""
    argv = [os.fsencode(arg) for arg in cli.argv("run", "--wait")]
    done = subprocess.run([*argv, *args], cwd=cli.cwd, env=user_environment(cli.home), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nothing_happened(hub: LivingHub) -> bool:
    return (
        "pwn" not in [name for _, dirs, files in os.walk(hub.cli.home.parent) for name in (*dirs, *files)]
        and not Path("pwn").exists()
    )


@pytest.mark.parametrize(
    "command",
    [[sys.executable.encode(), b"tell.py"], [b"tell.sh"], [b"quoted.sh"], [b"tell.py"]],
    ids=["command", "script", "script with quotes", "python"],
)
def test_arguments_are_the_same_bytes(hub: LivingHub, command: list[bytes]) -> None:
    told = run(hub.cli, *command, *HOSTILE)
    assert [base64.b64decode(arg) for arg in told["argv"]] == HOSTILE
    assert nothing_happened(hub)


def test_environment_values_are_the_same_bytes(hub: LivingHub) -> None:
    options = [part for at, value in enumerate(HOSTILE) for part in (b"--env", b"V%d=%s" % (at, value))]
    told = run(hub.cli, *options, b"tell.sh")
    assert [base64.b64decode(told["env"][f"V{at}"]) for at in range(len(HOSTILE))] == HOSTILE
    assert nothing_happened(hub)


def test_lines_of_a_file_are_split_and_nothing_more(hub: LivingHub) -> None:
    (hub.cli.cwd / "lines.txt").write_text(
        "python tell.py '$(touch pwn)' \"a; touch pwn\"\npython tell.py `touch pwn` $HOME;touch pwn\n"
    )
    job = hub.cli.json("run", "-d", "--multi", "lines.txt")
    for name, expected in zip(
        job["runs"], (["$(touch pwn)", "a; touch pwn"], ["`touch", "pwn`", "$HOME;touch", "pwn"]), strict=True
    ):
        hub.cli("attach", name)
        told = json.loads(hub.cli("logs", name).stdout)
        assert [base64.b64decode(arg).decode() for arg in told["argv"]] == expected
    assert nothing_happened(hub)


def test_tags_are_kept_as_they_were_written(hub: LivingHub) -> None:
    tags = {f"k{at}": text.decode() for at, text in enumerate(HOSTILE) if b"\xff" not in text}
    options = [part for key, value in tags.items() for part in ("--tag", f"{key}={value}")]
    name = hub.cli.json("run", "-d", *options, "true")["runs"][0]
    assert hub.cli.json("show", name)["tags"] == tags
    assert nothing_happened(hub)


@pytest.mark.parametrize(
    "value", ["$(touch pwn)", "`touch pwn`", "'; touch pwn #", "a\nb", "-oProxyCommand=touch pwn"], ids=ascii
)
@pytest.mark.parametrize("option", ["--name", "--target"])
def test_names_that_could_be_more_than_names_are_refused(hub: LivingHub, value: str, option: str) -> None:
    done = hub.cli("run", f"{option}={value}", "true", check=False)
    assert done.returncode == 2 and ascii(value)[1:-1] in done.stderr.replace('"', "'")
    assert nothing_happened(hub)


@pytest.mark.parametrize(
    "name",
    ["$(touch pwn).sh", "`touch pwn`.py", "; touch pwn #.sh", "a b.py", "-x.sh", "'q'.py", "new\nline.sh"],
    ids=ascii,
)
def test_a_script_may_be_called_anything(hub: LivingHub, name: str) -> None:
    script = hub.cli.cwd / name
    script.write_text(f"print({name!r})" if name.endswith("py") else "printf '%s\\n' ran")
    try:
        done = hub.cli("run", "--wait", "--", f"./{name}")
    finally:
        script.unlink()
    assert done.stdout == (f"{name}\n" if name.endswith("py") else "ran\n")
    assert nothing_happened(hub)


@pytest.mark.parametrize("branch", ["$(touch${IFS}pwn)", "a;touch"], ids=ascii)
def test_a_branch_may_be_called_anything(hub: LivingHub, tmp_path: Path, branch: str) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*git, "init", "-q", "-b", branch], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "$(touch pwn)"], check=True)
    done = hub.cli("run", "-d", "--json", "true", cwd=tmp_path)
    job = json.loads(done.stdout)["job"]
    assert hub.cli.json("show", job)["git"]["branch"] == branch
    assert nothing_happened(hub) and not (tmp_path / "pwn").exists()
