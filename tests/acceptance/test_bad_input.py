"""What goes wrong is said in one shape: what it is, where, and what to type next; and then nothing was done."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, end_processes_of, processes_of, user_environment, wait_until
from turnout.client import Client, connect
from turnout.errors import HubUnreachable, InvalidInput
from turnout.home import Home, file_system

pytestmark = pytest.mark.xdist_group("bad input")

USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 2, 3, 4, 6


@pytest.fixture(scope="module", autouse=True)
def _a_run(user: Cli) -> None:
    user("run", "--wait", "echo", "the only run")


def refuses(cli: Cli, *args: str, code: int, **options: object) -> str:
    """What it says on stderr; AssertionError unless it fails with `code`, in the one shape, and no job was made."""
    done = cli(*args, check=False, **options)  # type: ignore[arg-type]
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert done.stderr.startswith("turnout: ") and "\n  " in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def jobs_of(cli: Cli) -> int:
    with closing(sqlite3.connect(f"file:{cli.home}/turnout.db?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM jobs").fetchone()[0])


class TestCommands:
    """Words on the command line."""

    @pytest.mark.parametrize(
        ("args", "code", "what", "next_step"),
        [
            (["run"], USAGE, "no command", "turnout run COMMAND"),
            (["run", "train.sh"], NOT_FOUND, "no script 'train.sh'", "check the name"),
            (["run", "train.py", "--lr", "1"], NOT_FOUND, "no script 'train.py'", "check the name"),
            (["run", "./bin/train"], NOT_FOUND, "no program './bin/train'", "check the path"),
            (["run", "no-such-program"], NOT_FOUND, "no command 'no-such-program'", "check the spelling"),
            (["run", "../train.sh"], USAGE, "../train.sh is outside", "run this in"),
            (["run", "train.bat"], USAGE, "train.bat is a Windows script", ".sh"),
            (["run", "--target", "moon", "true"], NOT_FOUND, "no target 'moon'", "known targets: local"),
            (["run", "--name", "a/b", "true"], USAGE, "run name 'a/b'", "letters, digits"),
            (["run", "--name", "a..b", "true"], USAGE, "run name 'a..b'", "no '..'"),
            (["run", "--name", "a\nb", "true"], USAGE, r"run name 'a\nb'", "letters, digits"),
            (["run", "--name", "", "true"], USAGE, "run name ''", "letters, digits"),
            (["run", "--name", "run7", "true"], USAGE, "run name 'run7'", "choose another"),
            (["run", "--experiment", "../x", "true"], USAGE, "experiment '../x'", "letters, digits"),
            (["run", "--workspace", "a b", "true"], USAGE, "workspace 'a b'", "letters, digits"),
            (["run", "--time", "soon", "true"], USAGE, "--time 'soon'", "15m"),
            (["run", "--time", "0", "true"], USAGE, "--time '0'", "leave --time out"),
            (["run", "--time", "-5", "true"], USAGE, "--time '-5'", "15m"),
            (["run", "--memory", "lots", "true"], USAGE, "--memory 'lots'", "500M"),
            (["run", "--memory", "0G", "true"], USAGE, "--memory '0G'", "leave --memory out"),
            (["run", "--retry", "often", "true"], USAGE, "--retry 'often'", "--retry 2"),
            (["run", "--retry", "-1", "true"], USAGE, "--retry '-1'", "--retry 2"),
            (["run", "--env", "=x", "true"], USAGE, "''", "--env NAME=VALUE"),
            (["run", "--env", "A B=x", "true"], USAGE, "'A B'", "--env NAME=VALUE"),
            (["run", "--env", "NOT_SET_HERE", "true"], USAGE, "NOT_SET_HERE", "--env NOT_SET_HERE=VALUE"),
            (["run", "--tag", "a b=c", "true"], USAGE, "tag 'a b'", "--tag key=value"),
            (["run", "--runs", "0", "true"], USAGE, "'--runs'", "turnout run --help"),
            (["run", "--runs", "many", "true"], USAGE, "'--runs'", "turnout run --help"),
            (["run", "--cpus", "0", "true"], USAGE, "'--cpus'", "turnout run --help"),
            (["run", "--gpus", "-1", "true"], USAGE, "'--gpus'", "turnout run --help"),
            (["run", "--concurrent", "0", "true"], USAGE, "'--concurrent'", "turnout run --help"),
            (["run", "--grace", "-1", "true"], USAGE, "'--grace'", "turnout run --help"),
            (["run", "--multi", "none.txt"], USAGE, "--multi none.txt: No such file", "one command per line"),
            (["run", "--nonsense", "true"], USAGE, "--nonsense", "turnout run --help"),
            (["list", "runs", "--filter", "state="], USAGE, "filter, column 7", "quotes"),
            (["list", "runs", "--filter", "colour=red"], USAGE, "no column 'colour'", "columns are name, job"),
            (["list", "runs", "--sort", "colour"], USAGE, "no column 'colour'", "columns are name, job"),
            (["list", "runs", "--columns", "colour"], USAGE, "no column 'colour'", "columns are name, job"),
            (["list", "runs", "--columns", "name:zz"], USAGE, "'zz' does not format name", ":.3f"),
            (["list", "runs", "-n", "0"], USAGE, "'--limit'", "turnout list runs --help"),
            (["list", "planets"], USAGE, "no command 'planets'", "turnout list --help"),
            (["shwo", "run1"], USAGE, "no command 'shwo'", "did you mean `turnout show`?"),
            (["cancel", "jbo", "job1"], USAGE, "no command 'jbo'", "did you mean `turnout cancel job`?"),
            (["show"], USAGE, "Missing argument", "turnout show --help"),
            (["cancel", "run", "run99"], NOT_FOUND, "no run 'run99'", "turnout list runs"),
            (["cancel", "job", "job99"], NOT_FOUND, "no job 'job99'", "turnout list jobs"),
            (["show", "job99"], NOT_FOUND, "no job 'job99'", "turnout list jobs"),
            (["logs", "run99"], NOT_FOUND, "no run 'run99'", "turnout list runs"),
            (["logs", "run1", "--attempt", "7"], NOT_FOUND, "run1 has no attempt 7", "it has had 1"),
            (["attach", "run99"], NOT_FOUND, "no run 'run99'", "turnout list runs"),
            (["why", "run99"], NOT_FOUND, "no run 'run99'", "turnout list runs"),
            (["events", "run1.1"], NOT_FOUND, "no run 'run1.1'", "turnout list runs"),
            (["metrics", "../../etc"], NOT_FOUND, "no run '../../etc'", "turnout list runs"),
            (["extract", "run99", "there"], NOT_FOUND, "no run 'run99'", "turnout list runs"),
            (["extract", "run1", "/proc/nowhere"], USAGE, "/proc/nowhere", "another directory"),
            (["hub", "start", "--listen", "0.0.0.0:80"], USAGE, "0.0.0.0:80", "127.0.0.1:PORT"),
            (["hub", "start", "--listen", "127.0.0.1:0"], CONFLICT, "runs already", "turnout hub stop"),
        ],
        ids=lambda part: " ".join(part)[:40] if isinstance(part, list) else None,
    )  # fmt: skip
    def test_wrong_words(self, user: Cli, project: Path, args: list[str], code: int, what: str, next_step: str) -> None:
        said = refuses(user, *args, code=code)
        assert what in said.splitlines()[0] and next_step in said
        assert not list(project.iterdir())

    @pytest.mark.parametrize(
        "wishes",
        [{"name": "a\0b"}, {"workspace": "\0"}, {"env": {"A": "\0"}}, {"tags": {"t": "\0"}}, {"command": ["ls", "\0"]}],
        ids=ascii,
    )  # fmt: skip
    def test_a_nul_byte_which_only_a_program_can_give(self, user: Cli, tmp_path: Path, wishes: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput) as refused:
            Client(user.home, start=False).submit_command(**{"command": ["true"], "cwd": tmp_path, **wishes})
        assert refused.value.message and refused.value.hint

    def test_after_all_that_there_is_still_one_run(self, user: Cli) -> None:
        assert [run["name"] for run in user.json("list", "runs")] == ["run1"]

    @pytest.mark.parametrize(
        "args", [["show", "run99"], ["run", "--runs", "0", "true"], ["shwo"], ["list", "runs", "--filter", "="]]
    )
    def test_the_same_as_json(self, user: Cli, args: list[str]) -> None:
        done = (
            user(*args[:-1], "--json", args[-1], check=False)
            if args[0] != "shwo"
            else user("shwo", "--json", check=False)
        )
        told = json.loads(done.stdout)
        assert done.returncode in (USAGE, NOT_FOUND) and done.stderr == ""
        assert set(told) == {"error", "message", "hint", "retryable"} and told["message"] and told["hint"]

    def test_a_file_of_commands_with_a_bad_line(self, user: Cli, project: Path) -> None:
        for content, what in {
            "echo 1\necho 'open\n": "lines.txt:2: no closing quotation",
            "echo 1\n\n# comment\nno-such-program 2\n": "lines.txt:4: no command 'no-such-program'",
            "echo 1\nmissing.py 3\n": "lines.txt:2: no script 'missing.py'",
            "echo a\0b\n": "lines.txt:1: a NUL byte",
            "# nothing\n\n": "lines.txt has no commands",
        }.items():
            (project / "lines.txt").write_text(content)
            assert what in refuses(
                user,
                "run",
                "--multi",
                "lines.txt",
                code=NOT_FOUND if "no command '" in what or "no script" in what else USAGE,
            )

    def test_repeats_of_many_commands(self, user: Cli, project: Path) -> None:
        (project / "lines.txt").write_text("echo 1\necho 2\n")
        assert "--runs and --multi" in user("run", "-d", "--multi", "lines.txt", "--runs", "3", check=False).stderr

    def test_a_script_that_is_no_text(self, user: Cli, project: Path) -> None:
        (project / "run.sh").write_bytes(b"echo \xff\n")
        assert "run.sh is not UTF-8 text" in refuses(user, "run", "run.sh", code=USAGE)

    def test_extracting_over_something(self, user: Cli, project: Path) -> None:
        (project / "full").mkdir()
        (project / "full" / "precious").write_text("mine")
        (project / "file").write_text("mine")
        assert "full is not empty" in refuses(user, "extract", "run1", "full", code=CONFLICT)
        refuses(user, "extract", "run1", "file", code=USAGE)
        assert sorted(path.name for path in project.rglob("*")) == ["file", "full", "precious"]

    def test_a_parameter_of_the_environment(self, user: Cli) -> None:
        for value in ("abc", "0", "-1", "nan", "inf"):
            assert "TURNOUT_LEASE" in refuses(user, "run", "true", code=USAGE, env={"TURNOUT_LEASE": value})


def a_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(path))


def a_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device is not permitted here")


def a_secret(path: Path) -> None:
    path.write_text("token = 'ghp" + "_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6'\n")


PIPELINE = "pipeline: {steps: {a: {command: cat odd}}}"
SEARCH = "{command: [sh, -c, cat odd], search: {space: {x: [1]}, sampler: grid}}"


class TestSnapshots:
    """Things in the working directory that cannot be frozen: all named at once, and none of them taken."""

    @pytest.mark.parametrize(
        ("make", "reason", "next_step"),
        [
            (a_socket, "neither a file, a directory nor a link", ".turnoutignore"),
            (a_device, "neither a file, a directory nor a link", ".turnoutignore"),
            (os.mkfifo, "neither a file, a directory nor a link", ".turnoutignore"),
            (lambda path: path.symlink_to("/etc/passwd"), "symlink out of the tree (to /etc/passwd)", ".turnoutignore"),
            (lambda path: path.symlink_to("../../x"), "symlink out of the tree (to ../../x)", ".turnoutignore"),
            (lambda path: path.write_bytes(b"x" * 5000), "4.9 KiB is over the cap of 1000 B", "max-file-size"),
            (a_secret, "looks like a GitHub token (line 1)", "--allow-secret"),
        ],
        ids=["socket", "device", "fifo", "absolute link", "relative link", "large file", "secret"],
    )  # fmt: skip
    def test_is_refused_until_it_is_ignored(
        self, user: Cli, project: Path, make: Callable[[Path], object], reason: str, next_step: str
    ) -> None:
        (project / "turnout.yaml").write_text("code: {max-file-size: 1000}\n")
        (project / "sub").mkdir()
        make(project / "sub" / "odd")
        before = jobs_of(user)
        said = refuses(user, "run", "-d", "true", code=USAGE)
        assert "sub/odd: " in said and reason in said and next_step in said
        assert jobs_of(user) == before
        (project / ".turnoutignore").write_text("odd\n")
        assert sorted(user.json("run", "--dry-run", "true")["files"]) == [".turnoutignore", "turnout.yaml"]

    def test_a_secret_by_its_name(self, user: Cli, project: Path) -> None:
        (project / ".env").write_text("A=1\n")
        assert ".env: looks like a file of secret settings" in refuses(user, "run", "true", code=USAGE)

    @pytest.mark.parametrize("content", [PIPELINE, SEARCH], ids=["pipeline", "search"])
    def test_what_is_said_about_a_secret_can_be_typed(self, user: Cli, project: Path, content: str) -> None:
        """Whatever is submitted."""
        a_secret(project / "odd")
        (project / "job.yaml").write_text(content)
        command = ("search" if content == SEARCH else "pipeline", "job.yaml")
        before = jobs_of(user)
        said = refuses(user, *command, code=USAGE)
        assert "--allow-secret PATH" in said and "--no-snapshot" in said and jobs_of(user) == before
        user(*command, "--dry-run", "--no-snapshot")
        user(*command, "--allow-secret", "odd")
        (run,) = user.json("list", "runs", "-n", "1")
        assert user("logs", run["name"]).stdout == (project / "odd").read_text()

    @pytest.mark.parametrize(("setting", "key"), [("max-size: 100", "max-size"), ("max-files: 2", "max-files")])
    def test_too_much_in_all(self, user: Cli, project: Path, setting: str, key: str) -> None:
        (project / "turnout.yaml").write_text(f"code: {{{setting}}}\n")
        for number in range(5):
            (project / f"file{number}").write_bytes(b"x" * 50)
        assert f"code: {key}" in refuses(user, "run", "true", code=USAGE)
        (project / "turnout.yaml").write_text(f"code: {{{key}: 100000}}\n")
        assert len(user.json("run", "--dry-run", "true")["files"]) == 6, "the hint names a setting that helps"

    def test_an_unreadable_file_or_directory(self, user: Cli, project: Path) -> None:
        """Root may read everything, so root does without that right here."""
        (project / "closed").write_text("x")
        (project / "shut").mkdir()
        (project / "shut" / "inside").write_text("x")
        os.chmod(project / "closed", 0)
        os.chmod(project / "shut", 0)
        powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        if powerless and shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed (it comes with util-linux)")
        try:
            argv, env = [*powerless, *user.argv("run", "true")], user_environment(user.home)
            done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True)
        finally:
            os.chmod(project / "shut", 0o700)
        assert done.returncode == USAGE, done.stderr
        assert (
            "closed: cannot be read" in done.stderr
            and "shut/: cannot be read" in done.stderr
            and "chmod" in done.stderr
        )

    def test_nothing_is_remembered_wrongly(self, user: Cli, project: Path) -> None:
        """A refused capture in between does not confuse the next one."""
        (project / "a.txt").write_text("one")
        user("run", "-d", "true")
        (project / "a.txt").write_text("two")
        (project / ".env").write_text("A=1\n")
        refuses(user, "run", "true", code=USAGE)
        (project / ".env").unlink()
        assert user("run", "--wait", "cat", "a.txt").stdout == "two"

    def test_in_a_directory_that_is_gone(self, user: Cli, tmp_path: Path) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        argv = ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *user.argv("run", "true")]
        done = subprocess.run(argv, cwd=gone, env=user_environment(user.home), capture_output=True, text=True)
        assert done.returncode != 0 and "Traceback" not in done.stderr and "turnout: " in done.stderr


class TestStateDirectory:
    """TURNOUT_HOME, and what may be wrong with it."""

    def test_it_cannot_be_made(self, cli: Cli) -> None:
        for home in ("/proc/nowhere", "/dev/null/x"):
            for command in (("run", "true"), ("list", "runs"), ("hub", "start")):
                said = refuses(cli, *command, code=UNAVAILABLE, env={"TURNOUT_HOME": home})
                assert home in said and "set TURNOUT_HOME" in said

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
    def test_it_belongs_to_another_user(self, cli: Cli) -> None:
        cli.home.mkdir()
        os.chown(cli.home, 65534, 65534)
        said = refuses(cli, "run", "true", code=USAGE)
        assert f"{cli.home} belongs to another user" in said and "TURNOUT_HOME" in said
        assert not list(cli.home.iterdir())
        doctor = cli("doctor", check=False)
        assert doctor.returncode == 1 and "belongs to another user" in doctor.stdout
        os.chown(cli.home, 0, 0)

    def test_its_settings_are_wrong(self, cli: Cli) -> None:
        cli.home.mkdir(mode=0o700)
        for content, what in {
            "general: [\n": "config.yaml:2: ",
            "genral: {}\n": "unknown section 'genral'",
            "hub: {lease: soon}\n": "hub.lease: expected a number",
        }.items():
            (cli.home / "config.yaml").write_text(content)
            done = cli("hub", "start", check=False)
            assert done.returncode in (USAGE, NOT_FOUND) and what in done.stderr, done.stderr
            wait_until(lambda: not processes_of(cli.home))
            assert not (cli.home / "hub.json").exists()

    def test_one_of_its_targets_cannot_be_used(self, cli: Cli) -> None:
        """Which is told, and costs the others nothing."""
        cli.home.mkdir(mode=0o700)
        (cli.home / "config.yaml").write_text("compute-targets: {big: {service: cray}}\n")
        assert "target big: it cannot be used: no compute provider 'cray'" in cli("hub", "start").stderr
        assert "no compute provider 'cray'" in refuses(cli, "run", "--target", "big", "true", code=NOT_FOUND)
        assert cli("run", "--wait", "echo", "well").stdout.endswith("well\n")
        said = cli("doctor", check=False).stdout
        assert "problem  target big: it cannot be used" in said and "ok       target big" not in said

    def test_its_database_is_none(self, cli: Cli) -> None:
        cli.home.mkdir(mode=0o700)
        (cli.home / "turnout.db").write_bytes(b"this is not a database, and nobody may overwrite it" * 100)
        before = (cli.home / "turnout.db").read_bytes()
        assert "turnout doctor" in refuses(cli, "list", "runs", code=UNAVAILABLE)
        assert (cli.home / "turnout.db").read_bytes() == before

    def test_its_database_is_of_a_newer_turnout(self, cli: Cli) -> None:
        cli("hub", "start")
        cli("hub", "stop")
        with closing(sqlite3.connect(cli.home / "turnout.db")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        done = cli("list", "runs", check=False)
        assert done.returncode == USAGE and "newer" in done.stderr and "Traceback" not in done.stderr

    def test_two_hubs_on_it(self, cli: Cli) -> None:
        first = cli.json("hub", "start")
        argv = [sys.executable, "-m", "turnout.hub"]
        done = subprocess.run(argv, env=user_environment(cli.home), capture_output=True, text=True, timeout=30)
        assert done.returncode == CONFLICT
        assert (
            f"a hub already runs on {cli.home} (pid {first['pid']}" in done.stderr and "turnout hub stop" in done.stderr
        )
        assert cli.json("hub", "status")["pid"] == first["pid"]

    def test_many_that_start_it_at_once_get_one_hub(self, cli: Cli) -> None:
        started = [cli.start("hub", "start", "--json") for _ in range(4)]
        pids = {json.loads(each.communicate(timeout=60)[0])["pid"] for each in started}
        assert len(pids) == 1

    def test_its_record_of_the_hub_is_damaged(self, cli: Cli) -> None:
        """While the hub runs it is found all the same; when none runs, one is started."""
        pid = cli.json("hub", "start")["pid"]
        for content in ("", "{", "[]", "{}", '{"socket": 5}', "\0\0\0", '{"socket": "/nowhere", "host": "x"}'):
            (cli.home / "hub.json").write_text(content)
            assert cli.json("hub", "status")["pid"] == pid
        cli("hub", "stop")
        (cli.home / "hub.json").write_text("{")
        assert cli.json("list", "runs") == []

    def test_its_hub_was_killed(self, cli: Cli) -> None:
        """The record and the sockets stay behind, and stand in nobody's way."""
        pid = cli.json("hub", "start")["pid"]
        record = json.loads((cli.home / "hub.json").read_text())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pid not in processes_of(cli.home))
        assert (cli.home / "hub.json").exists() and Path(record["socket"]).exists()
        assert cli.json("hub", "status")["running"] is False
        assert cli.json("hub", "stop") == {"stopped": False}
        assert cli.json("list", "runs") == []
        assert cli.json("hub", "status")["pid"] != pid

    def test_a_port_that_is_taken(self, cli: Cli) -> None:
        with closing(socket.socket()) as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = refuses(cli, "hub", "start", "--listen", f"127.0.0.1:{port}", code=UNAVAILABLE)
        assert str(port) in said and "another port" in said

    def test_a_hub_that_hangs_is_not_waited_for_without_end(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        pid = cli.json("hub", "start")["pid"]
        monkeypatch.setattr(connect, "_ANSWER_SECONDS", 0.3)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(HubUnreachable, match=rf"pid {pid}\) does not answer"):
                Client(cli.home).runs()
        finally:
            os.kill(pid, signal.SIGCONT)


class TestNetworkFileSystems:
    """A database does not work there: it goes to this machine's own disk, and other machines are told where to go."""

    MOUNTS = (
        "/dev/sda1 / ext4 rw 0 0\n"
        "server:/home /home nfs4 rw 0 0\n"
        "/dev/sdb1 /home/me/local xfs rw 0 0\n"
        "server:/odd /with\\040space nfs rw 0 0\n"
        "systemd-1 /auto autofs rw 0 0\n"
        "server:/auto /auto nfs rw 0 0\n"
        "lustre /scratch lustre rw 0 0\n"
    )

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/root/.turnout", "ext4"), ("/home/me/.turnout", "nfs4"), ("/home/me/local/x", "xfs"), ("/homely", "ext4"),
            ("/with space/x", "nfs"), ("/auto/me", "nfs"), ("/scratch", "lustre"),
        ],
    )  # fmt: skip
    def test_which_one_a_path_is_on(self, tmp_path: Path, path: str, kind: str) -> None:
        (tmp_path / "mounts").write_text(self.MOUNTS)
        assert file_system(Path(path), str(tmp_path / "mounts")) == kind

    @pytest.mark.parametrize("mounts", ["", "nonsense\n", "a b\n\n"])
    def test_a_list_that_cannot_be_read_tells_nothing(self, tmp_path: Path, mounts: str) -> None:
        (tmp_path / "mounts").write_text(mounts)
        assert file_system(tmp_path, str(tmp_path / "mounts")) == ""
        assert file_system(tmp_path, str(tmp_path / "absent")) == ""

    @pytest.fixture
    def on_nfs(self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
        """Every program here believes that TURNOUT_HOME is on NFS; whoever asks for a file system is told so."""
        (tmp_path / "lie").mkdir()
        lie = "import turnout.home\nturnout.home.file_system = lambda *_: 'nfs4'\n"
        (tmp_path / "lie" / "sitecustomize.py").write_text(lie)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lie"), prepend=os.pathsep)
        try:
            yield cli
        finally:
            end_processes_of(cli.home)
            shutil.rmtree(Path("/var/tmp") / f"turnout-{os.getuid()}" / Home(cli.home).key, ignore_errors=True)

    def test_the_database_is_on_this_machines_disk(self, on_nfs: Cli) -> None:
        cli = on_nfs
        assert cli("run", "--wait", "echo", "works").stdout == "works\n"
        database = Path("/var/tmp") / f"turnout-{os.getuid()}" / Home(cli.home).key / "turnout.db"
        assert database.exists() and not (cli.home / "turnout.db").exists()
        assert database.stat().st_mode & 0o077 == 0 and database.parent.stat().st_mode & 0o077 == 0
        told = cli("doctor").stdout
        assert "network file system (nfs4)" in told and str(database.parent) in told and "local disk" in told

    def test_another_machine_is_told_which_one_to_use(self, on_nfs: Cli) -> None:
        cli = on_nfs
        cli("hub", "start")
        record = json.loads((cli.home / "hub.json").read_text())
        end_processes_of(cli.home)
        Path(record["socket"]).unlink()
        (cli.home / "hub.json").write_text(json.dumps({**record, "host": "login2.cluster"}))
        said = refuses(cli, "list", "runs", code=UNAVAILABLE)
        assert "runs on login2.cluster" in said and "work there" in said and str(cli.home / "hub.json") in said


class TestStreamsAndPlaces:
    """What is around a command may be broken too."""

    @pytest.mark.parametrize(
        "command",
        ["list runs", "list boxes", "rerun run1", "upload --share s x", "config show", "config check", "run true"],
    )
    def test_a_working_directory_that_is_gone(self, user: Cli, tmp_path: Path, command: str) -> None:
        argv = shlex.join(user.argv(*command.split()))
        shell = f"cd {tmp_path} && mkdir gone && cd gone && rmdir ../gone && {argv}"
        done = subprocess.run(["sh", "-c", shell], env=user_environment(user.home), capture_output=True, text=True)
        assert "Traceback" not in done.stderr
        if not command.startswith("list"):
            assert done.returncode == NOT_FOUND and "the current directory is gone" in done.stderr

    def test_a_full_disk_behind_the_output(self, user: Cli) -> None:
        with open("/dev/full", "w") as full:
            argv, env = user.argv("list", "runs"), user_environment(user.home)
            done = subprocess.run(argv, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode not in (0, 1) and "Traceback" not in done.stderr
        assert "the output could not be written: No space left on device" in done.stderr

    def test_no_output_at_all(self, user: Cli) -> None:
        shell = shlex.join(user.argv("list", "runs")) + " >&-"
        done = subprocess.run(["sh", "-c", shell], env=user_environment(user.home), capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")

    def test_letters_that_the_terminal_does_not_have(self, user: Cli, project: Path) -> None:
        env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        name = user.json("run", "--wait", "--tag", "where=Zürich", "true")["name"]
        assert "Z\\xfcrich" in user("list", "runs", name, "--columns", "name,tags.where", env=env).stdout

    def test_names_and_texts_that_are_none(self, user: Cli) -> None:
        bad = os.fsdecode(b"\xff")
        assert user("show", bad, check=False).returncode == NOT_FOUND
        refused = user("run", "--notify", bad, "true", check=False)
        assert refused.returncode == USAGE and "not UTF-8" in refused.stderr


class TestOptionsThatExcludeEachOther:
    @pytest.mark.parametrize("options", [("-d", "--wait"), ("--no-snapshot", "--code-dir", ".")])
    def test_are_refused(self, user: Cli, project: Path, options: tuple[str, ...]) -> None:
        before = user.json("list", "runs", "--all")
        done = user("run", *options, "true", check=False)
        assert done.returncode == USAGE and "exclude each other" in done.stderr
        assert user.json("list", "runs", "--all") == before

    def test_a_held_job_can_be_waited_for(self, user: Cli, project: Path) -> None:
        waiting = user.start("run", "--held", "--wait", "--name", "held-one", "sh", "-c", "exit 3")
        wait_until(lambda: "held-one" in user("list", "runs").stdout)
        user("release", "held-one")
        waiting.communicate(timeout=30)
        assert waiting.returncode == 3


def test_who_waits_for_what_can_never_start_is_told(user: Cli, project: Path) -> None:
    waiting = user.start("run", "--gpus", "99", "true")
    assert waiting.stderr is not None
    name = waiting.stderr.readline().decode().strip()
    assert f"{name} waits. It can never start: it needs 99 GPUs".encode() in waiting.stderr.readline()
    user("cancel", "run", name)
    waiting.communicate(timeout=30)
