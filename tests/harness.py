"""What tests use to act as a user: the command line with a home of its own, waiting, and cleaning up afterwards."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.warm import Warm, is_for_warm

T = TypeVar("T")
_SHORT = 24

#: Commands of two words: an option for them comes after the second.
TWO_WORDS = frozenset({"box", "clear", "set", "cancel", "config", "secret", "delete", "hub", "list", "provider"})


def wait_until(predicate: Callable[[], T], timeout: float = 20.0, what: str = "") -> T:
    """The first true value of `predicate`, asked every 20 ms; AssertionError after `timeout` seconds without one."""
    deadline = time.monotonic() + timeout
    while True:
        if value := predicate():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"did not become true within {timeout} s: {what or predicate}")
        time.sleep(0.02)


def user_environment(home: Path) -> dict[str, str]:
    """This process's environment as of a user whose turnout lives in `home`, sockets and settings beside it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TURNOUT_", "XT_"))}
    return {
        **inherited,
        "TURNOUT_HOME": str(home),
        "TURNOUT_LEASE": "2",
        "XDG_RUNTIME_DIR": str(home.parent / "run"),
        "XDG_CONFIG_HOME": str(home.parent / "config"),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }


@dataclass(frozen=True)
class Cli:
    """``turnout`` as a user types it, in the directory `cwd` (which a run would freeze)."""

    home: Path
    cwd: Path

    def __call__(
        self,
        *args: str,
        check: bool = True,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end. With `check`, an exit other than 0 is an AssertionError that shows all it printed.

        Bytes that are no UTF-8 arrive as surrogate escapes, so the exact bytes can be had back.
        """
        environment = {**user_environment(self.home), **(env or {})}
        if is_for_warm(environment):
            done = _warm().run(args, cwd=cwd or self.cwd, env=environment, input=input, timeout=timeout)
        else:
            done = subprocess.run(
                self.argv(*args), cwd=cwd or self.cwd, env=environment, input=input,
                stdin=subprocess.DEVNULL if input is None else None, capture_output=True, encoding="utf-8",
                errors="surrogateescape", timeout=timeout,
            )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"turnout {' '.join(args)} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 60.0) -> Any:
        """What the command answers under ``--json``."""
        words = 2 if args[0] in TWO_WORDS else 1
        return json.loads(self(*args[:words], "--json", *args[words:], env=env, timeout=timeout).stdout)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start it and leave it running; stdin, stdout and stderr are pipes."""
        pipe = subprocess.PIPE
        merged = {**user_environment(self.home), **(env or {})}
        return subprocess.Popen(self.argv(*args), cwd=self.cwd, env=merged, stdin=pipe, stdout=pipe, stderr=pipe)

    @staticmethod
    def argv(*args: str) -> list[str]:
        return [sys.executable, "-m", "turnout.cli", *args]


@functools.lru_cache(maxsize=1)
def _warm() -> Warm:
    return Warm()


def run_example(user: Cli, *words: str, check: bool = True) -> str:
    """What ``examples/functions/pi.py`` prints when this user runs it; a copy of it, in the user's directory. Unless it
    is to be well (`check`), its errors."""
    shutil.copytree(Path(__file__).parents[1] / "examples" / "functions", user.cwd, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "pi.py", *words], cwd=user.cwd, env=user_environment(user.home), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=100.0,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


def at_terminal(user: Cli, answer: str, *args: str, columns: int = 200, interrupt_at: Sequence[str] = ()) -> str:
    """What the command shows when it is typed at a terminal so wide, and `answer` typed to it; before that, Ctrl-C is
    pressed when each of these texts has been shown."""
    control, terminal = pty.openpty()
    environment = {**user_environment(user.home), "COLUMNS": str(columns)}
    process = subprocess.Popen(
        user.argv(*args), cwd=user.cwd, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    try:
        for text in interrupt_at:
            while text.encode() not in shown:
                shown += os.read(control, 4096)
            process.send_signal(signal.SIGINT)
        os.write(control, answer.encode())
        while piece := os.read(control, 4096):
            shown += piece
    except OSError:
        pass  # the terminal is closed when its last program ended
    process.wait(20)
    os.close(control)
    return shown.decode()


def install_provider(folder: Path, name: str) -> dict[str, str]:
    """Variables with which turnout finds a package that has a compute provider of that name, which takes any keys."""
    about = folder / "far-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[turnout.providers]\n{name} = far:Far\n")
    (folder / "far.py").write_text(
        "from turnout.providers.local import LocalProvider\nclass Far(LocalProvider):\n    Settings = None\n"
    )
    return {"PYTHONPATH": str(folder)}


def processes_of(home: Path) -> list[int]:
    """Every live process that was started with this TURNOUT_HOME, ourselves excepted."""
    mark = f"TURNOUT_HOME={home}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()  # empty for a zombie, which needs no end
        except OSError:
            continue  # ended meanwhile, or not ours to see
        if mark in environ.split(b"\0") and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def short_folder() -> Path:
    """A fresh one whose path is short: the name of a socket has 107 bytes."""
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="to-", dir=usual if len(usual) <= _SHORT else "/tmp"))


@contextlib.contextmanager
def fresh_user() -> Iterator[Cli]:
    """One whose turnout nobody has used: its home does not exist yet, the working directory is empty. Whatever was
    started with that home is ended afterwards, and nothing of it is left behind."""
    base = short_folder()
    for name in ("run", "work"):
        (base / name).mkdir(mode=0o700)
    user = Cli(home=base / "home", cwd=base / "work")
    try:
        yield user
    finally:
        end_processes_of(user.home)
        shutil.rmtree(base)


@contextlib.contextmanager
def as_a_user() -> Iterator[None]:
    """This process is one of a `fresh_user`."""
    with fresh_user() as user, pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(user.home).items():
            patch.setenv(name, value)
        patch.chdir(user.cwd)
        yield


def end_processes_of(home: Path) -> None:
    """Kill them all, and those they start meanwhile; AssertionError when some are left after ten seconds."""

    def none_left() -> bool:
        left = processes_of(home)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not left

    wait_until(none_left, 10.0, f"all processes of {home} are gone")
