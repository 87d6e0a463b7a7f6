"""A node directory with a launcher, as the agent has them: for the tests of supervisors."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import wait_until
from turnout.agent import launcher, record, tree
from turnout.agent.launcher import Answer, Ended, Failed, Launcher, Started
from turnout.agent.record import Exit, Running
from turnout.agent.supervisor import Order

JOB = 7
KEY = "1.1"


class Node:
    """Starts commands under supervisors and waits for what becomes of them. All it starts carries `marker`."""

    def __init__(self, root: Path, keep: int = 0) -> None:
        self.root = root
        self.marker = f"TURNOUT_TEST={uuid.uuid4().hex}"
        self.launcher: Launcher = launcher.start(keep)
        self._answers: list[Answer] = []
        self.define({"PATH": os.environ["PATH"]})

    def define(self, env: dict[str, str]) -> None:
        name, value = self.marker.split("=")
        self.launcher.define(JOB, {**env, name: value})

    def directory(self, key: str = KEY) -> Path:
        return self.root / "runs" / key

    def ctl(self, key: str = KEY) -> Path:
        return self.directory(key) / "ctl"

    def order(self, *argv: str, key: str = KEY, **options: Any) -> Order:
        """An order whose directory is there, as after staging."""
        self.ctl(key).mkdir(parents=True, mode=0o700, exist_ok=True)
        (self.directory(key) / "work" / "output").mkdir(parents=True, exist_ok=True)
        record.tell(str(self.ctl(key)), {"grant": {}, "after": []})
        options.setdefault("grace", 0.5)
        return Order(key=key, dir=str(self.directory(key)), argv=list(argv), job=JOB, **options)

    def start(self, *argv: str, key: str = KEY, **options: Any) -> Started:
        """Start a command; its supervisor exists when this returns."""
        self.launcher.start(self.order(*argv, key=key, **options))
        answer = self.answer(key, Started, Failed)
        assert isinstance(answer, Started), answer
        return answer

    def answer(self, key: str, *kinds: type) -> Answer:
        """The next answer of these kinds for this key, waited for and taken."""
        answer = wait_until(lambda: self._take(key, kinds), 20.0, f"{kinds} for {key}")
        assert answer is not None
        return answer

    def has_ended(self, key: str) -> bool:
        """Whether the launcher has said so."""
        return self._take(key, (Ended,)) is not None

    def _take(self, key: str, kinds: tuple[type, ...]) -> Answer | None:
        self._answers += self.launcher.read()
        match = next((a for a in self._answers if a.key == key and isinstance(a, kinds)), None)
        if match is not None:
            self._answers.remove(match)
        return match

    def finish(self, key: str = KEY) -> Exit:
        """Wait until the launcher says that the attempt ended; what its record says."""
        self.answer(key, Ended)
        ended = record.examine(str(self.directory(key)))
        assert isinstance(ended, Exit), ended
        return ended

    def run(self, *argv: str, key: str = KEY, **options: Any) -> Exit:
        """Start a command and wait for its end."""
        self.start(*argv, key=key, **options)
        return self.finish(key)

    def shell(self, script: str, key: str = KEY, **options: Any) -> Exit:
        return self.run("bash", "-c", script, key=key, **options)

    def python(self, script: str, key: str = KEY, **options: Any) -> Exit:
        return self.run(sys.executable, "-c", script, key=key, **options)

    def stop(self, started: Started, cause: str = "cancelled", grace: float | None = None, key: str = KEY) -> None:
        """As the agent does it."""
        record.write_stop(str(self.ctl(key)), cause, grace)
        tree.signal_process(started.process, signal.SIGTERM)

    def wait_for_file(self, name: str, key: str = KEY) -> str:
        """The content of a file in the run's directory, once a line is in it."""
        path = self.directory(key) / "work" / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), what=name)
        return path.read_text()

    def wait_for_child(self, key: str = KEY) -> Running:
        """The record of a running attempt, once its command is in it."""

        def found() -> Running | None:
            running = record.read_running(str(self.ctl(key)))
            return running if running is not None and running.child is not None else None

        running = wait_until(found, what="the command's process")
        assert running is not None
        return running

    def wait_for_record(self, key: str = KEY) -> Exit:
        """The exit record, found in the directory without a word from the launcher."""
        ended = wait_until(lambda: record.read_exit(str(self.ctl(key))), what="the exit record")
        assert ended is not None
        return ended

    def output(self, key: str = KEY) -> bytes:
        return (self.ctl(key) / "output").read_bytes()

    def processes(self) -> list[tree.ProcessId]:
        """All that was started here and lives."""
        return tree.find_marked(self.marker)

    def close(self) -> None:
        self.launcher.close()
        assert tree.end_orphans(None, self.marker, seconds=10.0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose supervisors end with their attempt."""
    made = Node(tmp_path)
    yield made
    made.close()


@pytest.fixture
def thrifty_node(tmp_path: Path) -> Iterator[Node]:
    """A node that keeps supervisors for the next attempt."""
    made = Node(tmp_path, keep=2)
    yield made
    made.close()


class Stopwatch:
    """``with Stopwatch() as watch: ...; watch.seconds``"""

    seconds: float

    def __enter__(self) -> Stopwatch:
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
