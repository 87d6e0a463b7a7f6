"""``turnout export`` and ``import``: a workspace in one file, and back, with nothing lost and nothing half done."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, end_processes_of, wait_until

pytestmark = pytest.mark.xdist_group("archive")

TELLING = """
import os, sys, turnout
turnout.params(lr=float(sys.argv[1]), name="ada")
for step in range(5):
    turnout.log(loss=1.0 / (step + 1), odd=float("nan") if step == 2 else step, step=step)
turnout.tag(kind="told")
os.makedirs("output", exist_ok=True)
open("output/weights.bin", "wb").write(bytes(range(256)) * 5000)
open("output/note.txt", "w").write("learnt at " + sys.argv[1])
sys.stdout.buffer.write(b"bytes \\xff\\x00\\x80 that are no text\\n")
"""
#: What a run has in every store, apart from its names there.
OTHERWISE = ("name", "job", "parent", "children", "origin", "workspace")


@pytest.fixture(scope="module")
def past(user: Cli) -> dict[str, str]:
    """A workspace with everything in it: told runs, a failure with two attempts, a parent with children."""
    (user.cwd / "tell.py").write_text(TELLING)
    lab = ("--workspace", "lab")
    names = {
        "told": user.json("run", "-d", *lab, "--experiment", "first", "--tag", "k=v", "tell.py", "0.1")["runs"][0],
        "parent": user.json("run", "-d", *lab, "--experiment", "second", "--repeat", "3", "echo", "hello")["runs"][0],
        "failed": user.json("run", "-d", *lab, "--retry", "1", "sh", "-c", "echo tried; exit 3")["runs"][0],
        "elsewhere": user.json("run", "-d", "--workspace", "other", "true")["runs"][0],
    }
    for name in names.values():
        wait_until(lambda: user.json("show", name)["ended"])  # noqa: B023
    (user.cwd / "tell.py").unlink()
    return names


@pytest.fixture
def archive(user: Cli, past: dict[str, str], tmp_path: Path) -> Path:
    file = tmp_path / "lab.turnout"
    user("export", "lab", str(file))
    return file


@pytest.fixture
def there(user: Cli) -> Iterator[Cli]:
    """The same user with another, new state directory."""
    home = user.home.parent / "there"
    yield Cli(home=home, cwd=user.cwd)
    end_processes_of(home)
    shutil.rmtree(home)


def everything(cli: Cli, workspace: str, folder: Path) -> list[dict[str, Any]]:
    """All that can be seen of all runs of a workspace, without the names that differ from store to store."""
    runs = sorted(cli.json("list", "runs", "--filter", f"workspace={workspace}", "--all"), key=lambda run: run["name"])
    order = {run["name"]: index for index, run in enumerate(runs)}
    seen = []
    for run in runs:
        name = run["name"]
        shown = cli.json("show", name)
        files = folder / workspace / name
        cli("extract", name, str(files))
        seen.append(
            {
                "run": {key: value for key, value in shown.items() if key not in OTHERWISE},
                "family": (order.get(shown["parent"]), [order[child] for child in shown["children"]]),
                "events": [
                    {**event, "data": {**event["data"], "child": order.get(event["data"].get("child"))}}
                    for event in cli.json("events", name)
                ],
                "metrics": cli.json("metrics", name),
                "output": [
                    hashlib.sha256(
                        cli("logs", name, "--attempt", str(attempt)).stdout.encode("utf-8", "surrogateescape")
                    ).hexdigest()
                    for attempt in range(1, shown["attempts"] + 1)
                ],
                "files": {
                    str(path.relative_to(files)): (path.stat().st_mode, path.read_bytes())
                    for path in sorted(files.rglob("*"))
                    if path.is_file()
                },
            }
        )
    return seen


class TestRoundTrip:
    def test_into_the_same_store(self, user: Cli, archive: Path, tmp_path: Path) -> None:
        done = user.json("import", str(archive), "--as", "copy")
        assert done["imported"] and done["workspace"] == "copy" and done["counts"]["rows.runs"] == 6
        (copy,) = (each for each in user.json("list", "workspaces") if each["name"] == "copy")
        assert done["runs"] == copy["runs"] == 5, "a parent is counted as its children, as everywhere"
        before, after = everything(user, "lab", tmp_path), everything(user, "copy", tmp_path)
        assert after == before and len(before) == 6
        user("delete", "workspace", "copy", "--yes")

    def test_into_another_store_and_out_again(
        self, user: Cli, there: Cli, archive: Path, past: dict[str, str], tmp_path: Path
    ) -> None:
        there("run", "--wait", "true")  # names are taken there, too
        told = there("import", str(archive)).stdout
        assert told == "imported 3 jobs and 5 runs: job2 to job4, run2 to run4 in workspace lab\n"
        assert everything(there, "lab", tmp_path / "b") == everything(user, "lab", tmp_path / "a")
        shown = there.json("show", "run2")
        assert there("list", "runs", "--names", "--filter", f"origin = {past['told']}").stdout == "run2\n"
        assert there("list", "jobs", "--columns", "name,origin", "--csv", "job2").stdout == "name,origin\njob2,job1\n"
        assert shown["origin"] == past["told"] and there.json("show", "job2")["origin"] == "job1"
        again = tmp_path / "again.turnout"
        there("export", "lab", str(again))
        assert _rows(again).keys() == _rows(archive).keys()
        for table, rows in _rows(archive).items():
            assert len(_rows(again)[table]) == len(rows), table

    def test_only_an_experiment_or_some_jobs(self, user: Cli, past: dict[str, str], tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        assert user.json("export", "lab", str(one), "--experiment", "second")["runs"] == 3
        assert user.json("export", "lab", str(two), "--jobs", "job1,job3")["jobs"] == 2
        assert {row["experiment"] for row in _rows(one)["runs"]} == {"second"}
        assert user.json("export", "lab", str(tmp_path / "three"), "--jobs", "job1-job2")["jobs"] == 2
        refused = user("export", "lab", str(tmp_path / "x"), "--jobs", "job3-job4", check=False)
        assert refused.returncode == 3 and "no job4 in workspace lab" in refused.stderr

    def test_prefix(self, user: Cli, past: dict[str, str], tmp_path: Path) -> None:
        file = tmp_path / "first"
        user("export", "lab", str(file), "--experiment", "first")
        done = user.json("import", str(file), "--as", "pre", "--prefix", "ada-")
        assert user.json("show", done["first_run"])["experiment"] == "ada-first"
        user("delete", "workspace", "pre", "--yes")

    def test_without_files(self, user: Cli, there: Cli, past: dict[str, str], tmp_path: Path) -> None:
        file = tmp_path / "bare"
        done = user.json("export", "lab", str(file), "--no-files")
        assert "blobs" not in done["counts"]
        there("import", str(file))
        assert there.json("metrics", "run1")["loss"] and there("logs", "run1").stdout
        refused = there("rerun", "run1", check=False)
        assert refused.returncode == 4 and "it was imported without them" in refused.stderr

    def test_other_tools_can_read_it(self, archive: Path) -> None:
        listing = subprocess.run(["tar", "tf", str(archive)], capture_output=True, text=True, check=True).stdout.split()
        assert listing[0] == "turnout-archive.json" and listing[-1] == "manifest.json"
        runs = _rows(archive)["runs"]
        assert {run["state"] for run in runs} == {"completed", "failed"}


class TestWhatIsNotExported:
    def test_values_of_the_environment(self, user: Cli, past: dict[str, str], tmp_path: Path) -> None:
        env = {"MY_PASSWORD": "hunter2-hunter2"}
        user("run", "--wait", "--workspace", "hush", "--env", "MY_PASSWORD", "true", env=env)
        file = tmp_path / "hush"
        user("export", "hush", str(file))
        content = b"".join(_members(file).values()) + json.dumps(_rows(file)).encode()
        assert b"hunter2" not in content and b"MY_PASSWORD" in content

    def test_what_is_not_over(self, user: Cli, past: dict[str, str], tmp_path: Path) -> None:
        going = user.json("run", "-d", "--workspace", "busy", "sleep", "100")
        user("run", "--wait", "--workspace", "busy", "true")
        refused = user("export", "busy", str(tmp_path / "busy"), check=False)
        assert refused.returncode == 4 and f"turnout cancel job {going['job']}" in refused.stderr
        assert f"a run is not over, of {going['job']}" in refused.stderr
        assert not (tmp_path / "busy").exists()
        assert user.json("export", "busy", str(tmp_path / "busy"), "--finished")["runs"] == 1
        user("cancel", "job", going["job"])


class TestTwice:
    def test_it_is_refused_and_again_changes_nothing(self, user: Cli, archive: Path) -> None:
        first = user.json("import", str(archive), "--as", "twice")
        refused = user("import", str(archive), "--as", "twice", check=False)
        assert refused.returncode == 4 and first["first_job"] in refused.stderr and "--again" in refused.stderr
        again = user.json("import", str(archive), "--as", "twice", "--again")
        assert not again["imported"] and again["first_job"] == first["first_job"]
        user("delete", "workspace", "twice", "--yes")
        assert user.json("import", str(archive), "--as", "twice")["imported"], "what was deleted may come again"
        user("delete", "workspace", "twice", "--yes")

    def test_another_workspace_gets_a_copy_of_its_own(self, user: Cli, archive: Path) -> None:
        first, second = (user.json("import", str(archive), "--as", name) for name in ("one", "two"))
        assert first["imported"] and second["imported"]
        assert int(first["last_job"][3:]) < int(second["first_job"][3:])
        assert {each["name"]: each["runs"] for each in user.json("list", "workspaces")}["two"] == second["runs"]
        for name in ("one", "two"):
            user("delete", "workspace", name, "--yes")

    def test_the_hint_spares_the_originals(self, user: Cli, archive: Path, past: dict[str, str]) -> None:
        """What was imported into the workspace it came from goes by name, and nothing else there does."""
        before = user.json("list", "jobs", "--filter", "workspace=lab")
        user("import", str(archive))
        refused = user("import", str(archive), check=False).stderr
        (command,) = re.findall(r"`turnout (delete job [^`]+)`", refused)
        assert "delete workspace" not in refused and "--as OTHER" in refused
        assert "deleted 5 runs and 3 jobs" in user(*command.split(), "--yes").stdout
        assert user.json("list", "jobs", "--filter", "workspace=lab") == before


class TestBadInput:
    @pytest.mark.parametrize("command", [("export", "nothing"), ("export", "lab", "--experiment", "nothing")])
    def test_what_is_not_there(self, user: Cli, past: dict[str, str], tmp_path: Path, command: tuple[str, ...]) -> None:
        refused = user(*command[:2], str(tmp_path / "x"), *command[2:], check=False)
        assert refused.returncode == 3 and "nothing" in refused.stderr and "turnout list" in refused.stderr
        assert not list(tmp_path.iterdir())

    def test_a_file_that_is_there_is_left_alone(self, user: Cli, archive: Path) -> None:
        before = archive.read_bytes()
        assert user("export", "lab", str(archive), check=False).returncode == 4
        assert archive.read_bytes() == before

    def test_cut_short_anywhere(self, user: Cli, archive: Path, tmp_path: Path) -> None:
        whole = archive.read_bytes()
        for part in (10, 100, 512, len(whole) // 3, len(whole) - 1024, len(whole) - 1):
            self.refuse(user, tmp_path, whole[:part], "cut short")

    def test_a_flipped_byte_anywhere(self, user: Cli, archive: Path, tmp_path: Path) -> None:
        whole = archive.read_bytes()
        for place in range(700, len(whole) - 2048, len(whole) // 6):
            self.refuse(user, tmp_path, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :], "")

    def test_another_version(self, user: Cli, archive: Path, tmp_path: Path) -> None:
        changed = archive.read_bytes().replace(b'"format": 1', b'"format": 2', 1)
        self.refuse(user, tmp_path, changed, "format 2, of turnout ")
        refused = user("import", str(tmp_path / "bad"), check=False).stderr
        assert "this one reads format 1" in refused and "or a newer one" in refused and "copy it" not in refused

    def test_no_archive_at_all(self, user: Cli, tmp_path: Path, past: dict[str, str]) -> None:
        for content in (b"hello " * 1000, b"print()", b"", b"\0" * 2000):
            self.refuse(user, tmp_path, content, "bad: this is not an archive of turnout")
        assert "turnout export WORKSPACE FILE" in user("import", str(tmp_path / "bad"), check=False).stderr
        assert user("import", str(tmp_path / "absent"), check=False).returncode == 2

    @pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "blobs/../../x", "rows/runs.sql"])
    def test_a_path_that_escapes(self, user: Cli, archive: Path, tmp_path: Path, name: str) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for each, content in [*list(_members(archive).items())[:1], (name, b"x")]:
                member = tarfile.TarInfo(each)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        self.refuse(user, tmp_path, made.getvalue(), "is not a part of an archive")

    def test_a_workspace_nobody_can_have(self, user: Cli, archive: Path) -> None:
        assert user("import", str(archive), "--as", "../x", check=False).returncode == 2
        assert user("import", str(archive), "--prefix", "/", check=False).returncode == 2

    def refuse(self, user: Cli, folder: Path, content: bytes, message: str) -> None:
        jobs = user.json("list", "jobs")
        file = folder / "bad"
        file.write_bytes(content)
        refused = user("import", str(file), check=False)
        assert refused.returncode == 2 and message in refused.stderr and "nothing was imported" in refused.stderr
        assert user.json("list", "jobs") == jobs


class TestKilled:
    @pytest.fixture
    def going(self, user: Cli, past: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
        """An export that was stopped in the middle of a large file."""
        with open(user.home.parent / "large.bin", "wb") as large:
            for _ in range(200):
                large.write(os.urandom(1 << 20))
        user("upload", large.name, "--share", "heavy")
        job = user.json("run", "--held", "--workspace", "heavy", "--data", "heavy", "true")["job"]
        user("cancel", "job", job)
        going = user.start("export", "heavy", str(tmp_path / "heavy.turnout"))
        wait_until(lambda: self.written(going.pid, tmp_path) > 1 << 20)
        going.send_signal(signal.SIGSTOP)
        assert going.poll() is None and self.written(going.pid, tmp_path) < 200 << 20
        yield going
        going.kill()
        going.wait()
        user("delete", "workspace", "heavy", "--yes")
        user("delete", "share", "heavy")
        Path(large.name).unlink()

    def written(self, pid: int, folder: Path) -> int:
        """How much is in the nameless file that the process has open in that directory."""
        sizes = [0]
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{number}").startswith(str(folder)):
                    sizes.append(os.stat(f"/proc/{pid}/fd/{number}").st_size)
            except OSError:
                continue
        return max(sizes)

    def test_an_export_that_is_killed_leaves_nothing(self, going: subprocess.Popen[bytes], tmp_path: Path) -> None:
        going.kill()
        going.wait()
        assert os.listdir(tmp_path) == []

    def test_the_hub_is_killed_in_the_middle_of_an_export(
        self, user: Cli, going: subprocess.Popen[bytes], tmp_path: Path
    ) -> None:
        os.kill(user.json("hub", "status")["pid"], signal.SIGKILL)
        going.send_signal(signal.SIGCONT)
        said = going.communicate(timeout=60)[1].decode()
        assert "the hub went away in the middle of the export" in said and "try again" in said, said
        assert "Error" not in said and "Incomplete" not in said and os.listdir(tmp_path) == []

    @pytest.mark.parametrize("moment", range(4))
    def test_the_hub_is_killed_in_the_middle_of_an_import(self, there: Cli, archive: Path, moment: int) -> None:
        """Wherever it is killed, all of the archive is here afterwards, or nothing is."""
        pid = there.json("hub", "start")["pid"]
        going = there.start("import", str(archive), "--json")
        for _ in range(moment):
            there("hub", "status")
        os.kill(pid, signal.SIGKILL)
        going.communicate(timeout=60)
        runs = there.json("list", "runs", "--all")
        assert len(runs) in (0, 6)
        there("import", str(archive), "--again")
        assert len(there.json("list", "runs", "--all")) == 6
        there("hub", "stop")
        with sqlite3.connect(there.home / "turnout.db") as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def _rows(file: Path) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, content in _members(file).items():
        if name.startswith("rows/"):
            table = name.removeprefix("rows/").rpartition("-")[0]
            rows.setdefault(table, []).extend(map(json.loads, gzip.decompress(content).splitlines()))
    return rows
