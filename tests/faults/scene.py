"""A user's turnout with all its processes in reach: to be killed, stopped and woken, and asked what became of runs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import Cli, wait_until
from turnout.agent import record
from turnout.client import Client
from turnout.errors import TurnoutError

OVER = frozenset({"completed", "failed", "cancelled", "stopped"})


def is_alive(pid: int) -> bool:
    """Whether there is such a process; a zombie is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """The children that its main thread made."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; after SIGKILL, wait until the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    if number == signal.SIGKILL:
        wait_until(lambda: not is_alive(pid), 10.0, f"process {pid} is gone")


def fill(path: Path, *, leave: int = 0) -> None:
    """Until not one more byte goes on that disk, but for `leave`."""
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * (1 << 20))
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0")
    os.truncate(path, max(0, path.stat().st_size - leave))


@dataclass(frozen=True)
class Scene:
    cli: Cli
    client: Client
    side: Path
    """a directory outside of turnout, where runs leave traces and find what the test tells them"""

    # --- submitting and asking ---

    def submit(self, *args: str) -> str:
        """``turnout run -d`` with these arguments; the name of its (first) run."""
        return str(self.cli.json("run", "-d", "--no-snapshot", *args)["runs"][0])

    def script(self, name: str, text: str) -> str:
        path = self.side / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def show(self, run: str) -> dict[str, Any]:
        return self.client.run(run)

    def wait_for(self, run: str, *states: str, timeout: float = 30.0) -> dict[str, Any]:
        """The run once it is in one of these states (over, when none are given)."""
        wanted = frozenset(states) or OVER
        view: dict[str, Any] | None = None

        def is_there() -> bool:
            nonlocal view
            view = self.ask(run)
            return view is not None and view["state"] in wanted

        try:
            wait_until(is_there, timeout)
        except AssertionError:
            raise AssertionError(f"{run} did not become {' or '.join(sorted(wanted))}; it is {view}") from None
        assert view is not None
        return view

    def ask(self, run: str) -> dict[str, Any] | None:
        try:
            return self.show(run)
        except TurnoutError:
            return None

    def children(self, run: str) -> list[dict[str, Any]]:
        found = self.client.runs([f"parent={run}"], limit=10_000)
        return sorted(found, key=lambda view: int(view["name"].partition(".")[2]))

    def output(self, run: str, **options: Any) -> bytes:
        return b"".join(self.client.output(run, **options))

    def events(self, run: str) -> list[str]:
        return [event["event"] for event in self.client.events(run)]

    # --- the processes ---

    def hub(self) -> int:
        """The pid of the hub; one is started if there is none."""
        return int(self.client.hub()["pid"])

    def start_hub(self) -> int:
        self.cli("hub", "start")
        return self.hub()

    def kill_hub(self) -> None:
        kill(self.hub())
        self.client.close()

    def agents(self) -> list[int]:
        return [agent["pid"] for agent in self.client.hub()["agents"] if is_alive(agent["pid"])]

    def agent(self) -> int:
        """The pid of the agent, waited for."""
        return wait_until(self.agents, 20.0, "there is an agent")[0]

    def run_directories(self) -> list[Path]:
        return sorted((self.cli.home / "nodes").glob("*/runs/*"))

    def supervisors(self) -> list[int]:
        """The pids of those that have a command."""
        found = []
        for directory in self.run_directories():
            with contextlib.suppress(KeyError):
                told = record.read(str(directory / "ctl"))
                if "exit" not in told:
                    found.append(int(told["supervisor"]["pid"]))
        return [pid for pid in found if is_alive(pid)]

    def processes_of(self, run: str) -> list[int]:
        """Everything alive that was started in this run and kept its environment."""
        marks = {f"TURNOUT_RUN_NAME={run}".encode(), f"TURNOUT_HOME={self.cli.home}".encode()}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marks <= set((entry / "environ").read_bytes().split(b"\0")) and is_alive(int(entry.name)):
                    found.append(int(entry.name))
        return found

    # --- what the runs and the test tell each other ---

    def lines(self, name: str) -> list[str]:
        path = self.side / name
        return path.read_text().splitlines() if path.exists() else []

    def pids(self, name: str = "pids") -> list[int]:
        return [int(line) for line in self.lines(name)]

    def allow(self, name: str) -> None:
        """What a run waits for with ``[ -e … ]``."""
        (self.side / name).touch()

    @contextlib.contextmanager
    def timed(self, most: float) -> Iterator[None]:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        assert took <= most, f"it took {took:.2f} s, {most} s were allowed"
