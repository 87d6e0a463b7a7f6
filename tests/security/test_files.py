"""Files, directories and sockets of turnout belong to its user alone, from their first instant."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.components import strace
from tests.harness import Cli, end_processes_of, user_environment, wait_until
from tests.security.doors import AGENT_SOCKET, HUB_SOCKET, LivingHub, living_hub
from turnout.errors import InvalidInput
from turnout.home import Home, is_private, private_dir, write_private

pytestmark = pytest.mark.xdist_group("security files")

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

#: Leaves files, directories, metrics and an artifact, and looks at its own directory.
BUSY = """
import os, turnout
turnout.log(loss=1.0)
turnout.params(lr=0.1)
os.makedirs("output/deep/er")
open("output/deep/er/file", "w").write("x" * 100000)
open("beside", "w").write("x")
turnout.artifact("beside")
"""


def open_to_others(path: str) -> str:
    """What is wrong with the mode of `path`; "" when nothing is. A link has no mode of its own."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    wrong = not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077
    return f"{stat.filemode(found.st_mode)} {path}" if wrong else ""


def everything_below(root: Path) -> list[str]:
    paths = [os.path.join(directory, name) for directory, dirs, files in os.walk(root) for name in (*dirs, *files)]
    return [path for path in paths if not is_of_the_run(path)]


def is_of_the_run(path: str) -> bool:
    """What a run makes itself has the modes of its submitter's umask, in a directory closed to all others."""
    folder, _, name = path.rpartition("work" + os.sep)
    return bool(folder) and (name == "beside" or name.startswith("output" + os.sep))


@pytest.fixture
def wide_open(cli: Cli) -> Iterator[Cli]:
    """A user who would let everybody read and write everything: umask 000."""
    (cli.cwd / "busy.py").write_text(BUSY)
    (cli.cwd / "data").mkdir()
    (cli.cwd / "data" / "large").write_bytes(os.urandom(200_000))
    before = os.umask(0)
    try:
        yield cli
    finally:
        os.umask(before)


class TestModes:
    """A23: database, token, sockets, node directories, spool and run directories under umask 000."""

    def test_nothing_is_ever_open_to_others(self, wide_open: Cli) -> None:
        """Looked at again and again while it all comes into being; the next test traces every single call."""
        cli, done, wrong = wide_open, threading.Event(), set[str]()
        runtime = cli.home.parent / "run"

        def watch() -> None:
            while not done.is_set():
                for path in (str(cli.home), *everything_below(cli.home), *everything_below(runtime)):
                    wrong.add(open_to_others(path))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            cli("run", "--wait", "busy.py")
            cli("run", "--wait", "--retry", "1", "sh", "-c", "test -e output/mark || { touch output/mark; exit 1; }")
            cli("run", "-d", "sleep", "60")
        finally:
            done.set()
            watcher.join()
        assert wrong <= {""}, wrong
        names = {Path(path).name for path in everything_below(cli.home)}
        assert {
            "turnout.db",
            "turnout.db-wal",
            "token",
            "hub.json",
            "hub.lock",
            "hub.log",
            "agent.log",
            "agent.json",
        } <= names
        assert {"hub.sock", "agent.sock"} <= {Path(path).name for path in everything_below(runtime)}
        assert "ctl" in names and "work" in names, "a run's directory was there to be looked at"

    def test_every_call_that_makes_something_makes_it_private(self, wide_open: Cli, tmp_path: Path) -> None:
        cli, trace = wide_open, tmp_path / "trace"
        calls = "trace=openat,mkdir,mkdirat,bind,umask,clone,clone3,fork,vfork,chmod,fchmodat"
        argv = [
            strace(),
            "-f",
            "-y",
            "-qq",
            "-s",
            "400",
            "-e",
            calls,
            "-o",
            str(trace),
            *cli.argv("run", "--wait", "busy.py"),
        ]
        traced = subprocess.Popen(
            argv, cwd=cli.cwd, env=user_environment(cli.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            subprocess_ended = end_when_done(cli, traced)
        finally:
            end_processes_of(cli.home)
            traced.wait(timeout=20)
        if "Operation not permitted" in subprocess_ended:
            pytest.skip("tracing is not permitted here")
        made = list(creations(trace.read_text(errors="replace")))
        places = (str(cli.home), str(cli.home.parent / "run"))
        ours = [(path, mode) for path, mode in made if path.startswith(places) and not is_of_the_run(path)]
        assert len(ours) > 20 and any(path.endswith("turnout.db-wal") for path, _ in ours)
        assert [f"{mode:o} {path}" for path, mode in ours if mode & 0o077] == []


def end_when_done(cli: Cli, traced: subprocess.Popen[bytes]) -> str:
    """Waits for the command itself; the hub it started is traced, too, and would keep strace waiting."""
    assert traced.stderr is not None
    wait_until(lambda: (cli.home / "hub.json").exists() or traced.poll() is not None, 60)
    cli("attach", "run1", check=False)
    end_processes_of(cli.home)
    return traced.stderr.read().decode()


def creations(trace: str) -> Iterator[tuple[str, int]]:
    """(path, mode it really got) of all that was made, with the umask of the process that made it."""
    umasks: dict[str, int] = {}
    for line in trace.splitlines():
        pid, _, call = line.partition(" ")
        call = call.strip()
        if found := re.match(r"umask\((0\d*)\)", call):
            umasks[pid] = int(found[1], 8)
        elif found := re.search(r"^(?:<\.\.\. )?(?:clone3?|v?fork)\b.* = (\d+)", call):
            umasks[found[1]] = umasks.get(pid, 0)
        elif found := re.match(
            r'(?:openat|mkdirat)\((?:AT_FDCWD(?:<[^>]*>)?|\d+<([^>]*)>), "([^"]*)", (?:([A-Z_|]+), )?(0\d+)\)? ',
            call + " ",
        ):
            directory, name, flags, mode = found.groups()
            if "= -1" not in call and (flags is None or "O_CREAT" in flags):
                yield os.path.join(directory or "", name), int(mode, 8) & ~umasks.get(pid, 0)
        elif found := re.match(r'mkdir\("([^"]*)", (0\d+)\)', call):
            if "= -1" not in call:
                yield found[1], int(found[2], 8) & ~umasks.get(pid, 0)
        elif found := re.match(r'(?:fchmodat\(AT_FDCWD[^,]*, |chmod\()"([^"]*)", (0\d+)', call):
            yield found[1], int(found[2], 8)
        elif found := re.match(r'bind\(\d+(?:<[^>]*>)?, \{sa_family=AF_UNIX, sun_path="([^"]*)"', call):
            yield found[1], 0o777 & ~umasks.get(pid, 0)


def as_other_user(attempt: Callable[[], object]) -> str:
    """Does something as another user of this machine; the name of the error it met, "" for none."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            attempt()
        except BaseException as error:
            os.write(write, type(error).__name__.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        met = answer.read().decode()
    os.waitpid(child, 0)
    return met


@as_root
class TestAnotherUserOfThisMachine:
    """A24: reads what it can, connects where it can, and puts its own things in our way."""

    @pytest.fixture(scope="class")
    @classmethod
    def hub(cls) -> Iterator[LivingHub]:
        with living_hub() as running:
            os.chmod(running.cli.home.parent, 0o755)
            yield running

    @pytest.mark.parametrize("door", [HUB_SOCKET, AGENT_SOCKET])
    def test_cannot_connect(self, hub: LivingHub, door: str) -> None:
        assert as_other_user(lambda: hub.connect(door).close()) == "PermissionError"

    def test_gets_nothing_through_the_port(self, hub: LivingHub) -> None:
        assert hub.ask("tcp", "GET", "/health").status == 200

        def ask() -> None:
            if hub.ask("tcp", "GET", "/api/hub").status == 200:
                raise AssertionError

        assert as_other_user(ask) == ""

    @pytest.mark.parametrize("name", ["token", "turnout.db", "hub.json", "logs/hub.log", "."])
    def test_cannot_read(self, hub: LivingHub, name: str) -> None:
        assert as_other_user(lambda: os.close(os.open(hub.cli.home / name, os.O_RDONLY))) == "PermissionError"
        assert as_other_user(lambda: os.listdir(hub.cli.home)) == "PermissionError"

    def test_its_directory_in_the_place_of_ours_is_refused(self, cli: Cli) -> None:
        cli.home.mkdir()
        os.chown(cli.home, NOBODY, NOBODY)
        for command in (("run", "true"), ("list", "runs"), ("hub", "start")):
            done = cli(*command, check=False)
            assert done.returncode == 2 and f"{cli.home} belongs to another user" in done.stderr, done
        assert list(cli.home.iterdir()) == [], "nothing was written there"
        os.chown(cli.home, 0, 0)

    def test_its_link_to_a_directory_of_ours_is_refused(self, tmp_path: Path) -> None:
        mine = private_dir(tmp_path / "mine")
        link = tmp_path / "link"
        link.symlink_to(mine)
        assert private_dir(link) == link
        os.lchown(link, NOBODY, NOBODY)
        with pytest.raises(InvalidInput, match="belongs to another user"):
            private_dir(link)

    def test_its_socket_in_the_place_of_ours_is_not_told_the_token(self, cli: Cli) -> None:
        """A hub that died leaves its address behind. Whoever can make a socket there must not be handed the token."""
        cli("hub", "start")
        sockets = next((cli.home.parent / "run" / "turnout").iterdir())
        end_processes_of(cli.home)
        heard: list[bytes] = []
        shutil.rmtree(sockets)
        sockets.mkdir()
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(sockets / "hub.sock"))
        listening.listen()
        listening.settimeout(0.2)
        for path in (sockets, sockets / "hub.sock"):
            os.chown(path, NOBODY, NOBODY)
        done = cli("list", "runs", check=False)
        try:
            heard.append(listening.accept()[0].recv(1000))
        except TimeoutError:
            pass
        assert heard == []
        assert done.returncode == 5 and str(sockets / "hub.sock") in done.stderr


class TestPrivateThings:
    """The tools that the above stands on."""

    def test_directories_above_a_new_one_are_private_too(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            private_dir(tmp_path / "a" / "b" / "c")
        finally:
            os.umask(before)
        assert not any(map(open_to_others, (str(tmp_path / "a"), str(tmp_path / "a/b"), str(tmp_path / "a/b/c"))))

    def test_a_directory_that_was_open_is_closed(self, tmp_path: Path) -> None:
        (tmp_path / "open").mkdir(mode=0o755)
        private_dir(tmp_path / "open")
        assert not open_to_others(str(tmp_path / "open"))

    @pytest.mark.parametrize("kind", ["file", "dangling link", "fifo"])
    def test_what_is_no_directory_is_refused(self, cli: Cli, kind: str) -> None:
        make: dict[str, Callable[[], object]] = {
            "file": lambda: cli.home.write_text("mine"),
            "dangling link": lambda: cli.home.symlink_to("nowhere"),
            "fifo": lambda: os.mkfifo(cli.home),
        }
        make[kind]()
        done = cli("list", "runs", check=False)
        assert done.returncode in (2, 6) and str(cli.home) in done.stderr and "TURNOUT_HOME" in done.stderr

    def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(self, tmp_path: Path) -> None:
        victim, link = tmp_path / "victim", tmp_path / "token"
        victim.write_text("precious")
        link.symlink_to(victim)
        write_private(link, "new")
        assert (victim.read_text(), link.read_text(), link.is_symlink()) == ("precious", "new", False)

    def test_a_file_that_cannot_be_written_whole_stays_as_it_was(self, tmp_path: Path) -> None:
        """Where a disk is full after a part, a single write succeeds for that part."""
        file = tmp_path / "targets.json"
        write_private(file, "old")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        try:
            with pytest.raises(OSError):
                write_private(file, "new" * 10)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]

    def test_a_link_in_the_place_of_the_lock_or_the_log_stops_the_hub(self, cli: Cli) -> None:
        victim = cli.home.parent / "victim"
        victim.write_text("precious")
        private_dir(cli.home / "logs")
        for name in ("logs/hub.log", "hub.lock"):
            (cli.home / name).symlink_to(victim)
            done = cli("list", "runs", check=False)
            assert done.returncode != 0 and "Traceback" not in done.stderr and victim.read_text() == "precious"
            (cli.home / name).unlink()

    def test_a_token_that_others_may_read_is_not_used(self, cli: Cli) -> None:
        private_dir(cli.home)
        (cli.home / "token").write_text("known to all")
        os.chmod(cli.home / "token", 0o644)
        done = cli("list", "runs", check=False)
        assert done.returncode != 0 and f"others may read {cli.home}/token" in done.stderr

    def test_sockets_fit_their_address_however_long_the_paths(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        long = tmp_path / ("x" * 120)
        long.mkdir(mode=0o700)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
        assert len(str(Home(long / "home").socket_dir / "agent.sock")) < 104

    def test_private_means_two_levels_up(self, tmp_path: Path) -> None:
        inner = private_dir(private_dir(tmp_path / "outer") / "inner")
        write_private(inner / "file", "x")
        assert is_private(inner / "file")
        for path in (inner / "file", inner, inner.parent):
            os.chmod(path, 0o777)
            assert not is_private(inner / "file")
            os.chmod(path, 0o700)
