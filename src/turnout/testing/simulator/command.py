"""A user's command under its supervisor, and the directory it leaves its traces in. Both outlive the agent."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from turnout.testing.simulator.world import Process, World
from turnout.wire import frames
from turnout.wire.messages import Attempt, Grant

SEGMENT_BYTES = 160
GRACE = 0.6

#: How a command may end by itself: what its supervisor records.
FATES: dict[str, dict[str, object]] = {
    "ok": {"cause": "exit", "exit_code": 0, "signal": None},
    "bare": {"cause": "exit", "exit_code": 0, "signal": None},  # and it does not leave what it has to
    "fail": {"cause": "exit", "exit_code": 3, "signal": None},
    "signal": {"cause": "signal", "exit_code": None, "signal": 11},
    "timeout": {"cause": "timeout", "exit_code": None, "signal": 15},
    "oom": {"cause": "oom", "exit_code": None, "signal": 9},
    "spawn_failed": {"cause": "spawn_failed", "exit_code": None, "signal": None},
}


def manifest_of(run: int, attempt: int) -> str:
    """The name of what it left; see `left_in`."""
    return f"{run}.{attempt}"


def left_in(manifest: str) -> str:
    """The one file of a run that left what it had to."""
    return f"left/{manifest}"


@dataclass(slots=True)
class Truth:
    """What an attempt really did, seen from outside: the measure for what the hub knows of it."""

    output: bytearray = field(default_factory=bytearray)
    records: dict[str, int] = field(default_factory=dict)
    """whole records in each file of its spool"""
    executions: int = 0
    params: list[dict[str, object]] = field(default_factory=list)
    """what it was started with, each time"""
    inputs: list[list[str]] = field(default_factory=list)
    """what other runs had left of which it was given something, each time"""
    began: list[float] = field(default_factory=list)
    ended: float | None = None
    """when it came to an end of its own"""
    left: bool = False
    """whether it left all that it had to"""
    fate: dict[str, object] | None = None
    damaged: bool = False
    """a power cut took some of what it wrote"""


class Files:
    """``<node>/runs/<run>.<attempt>``: what is on the node's disk, and the processes that have it open."""

    __slots__ = ("begun", "command", "exit", "grant", "left", "output", "spool", "watcher")

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.begun = False
        self.exit: dict[str, object] | None = None
        self.left = False
        self.output = bytearray()
        self.spool: dict[str, bytearray] = {}
        self.command: Command | None = None
        self.watcher: Callable[[], None] | None = None

    def lose_power(self, rng: random.Random) -> None:
        """Nothing was synced: each file keeps a part, each record is there or not."""
        del self.output[rng.randint(0, len(self.output)) :]
        for name in list(self.spool):
            del self.spool[name][rng.randint(0, len(self.spool[name])) :]
        if rng.random() < 0.5:
            self.exit = None
            self.begun = self.begun and rng.random() < 0.5
        if self.grant.outputs and rng.random() < 0.5:
            self.left = False
        self.command = self.watcher = None


class Command(Process):
    """Writes output and records for a while, then ends as `fate` says. What it does depends on its attempt alone."""

    def __init__(self, world: World, files: Files, truth: Truth, fate: str) -> None:
        ref: Attempt = (files.grant.run, files.grant.attempt)
        super().__init__(world, f"{ref[0]}.{ref[1]}")
        self._ref = ref
        self._files = files
        self._truth = truth
        self._fate = fate
        self._rng = random.Random((world.seed * 7919 + ref[0]) * 131 + ref[1])
        self._left = self._rng.randint(0, 5)
        self._segment, self._seq = 0, 0
        self.supervised = True

    def start(self) -> None:
        self.begin()
        self._truth.executions += 1
        self._truth.params.append(self._files.grant.params)
        self._truth.inputs.append([manifest for manifest, _ in self._files.grant.inputs])
        self._truth.began.append(self.world.now)
        self._files.begun = True
        if self._fate == "spawn_failed":
            self._end(FATES["spawn_failed"])
        else:
            self.after(self._rng.uniform(0.01, 0.3), self._work)

    def terminate(self, cause: str) -> None:
        """SIGTERM by way of the supervisor; a stubborn one is killed when its grace is over."""
        if not self.alive or not self.supervised:
            return
        stubborn = self._rng.random() < 0.3
        verdict: dict[str, object] = {"cause": cause, "exit_code": None, "signal": 9 if stubborn else 15}
        self.life += 1  # it works no more
        self.after(GRACE if stubborn else self._rng.uniform(0.0, GRACE), lambda: self._end(verdict))

    def lose_supervisor(self) -> None:
        """Somebody killed the supervisor; the command itself goes on until somebody ends it."""
        if self.alive and self.supervised:
            self.supervised = False
            self._tell()

    def end_tree(self) -> None:
        """SIGKILL for all of it; its last record may be torn."""
        if self.alive:
            if self._rng.random() < 0.5:
                self._log(torn=True)
            self.kill()

    def _work(self) -> None:
        if self._left == 0:
            if self.supervised:
                self._end(FATES[self._fate])
            else:
                self.kill()
            return
        self._left -= 1
        self._print(f"{self.name} {self._left} ".encode() * self._rng.choice((0, 2, 5, 20)))
        for _ in range(self._rng.randint(0, 3)):
            self._log()
        self.after(self._rng.uniform(0.01, 0.7), self._work)

    def _print(self, text: bytes) -> None:
        self._files.output += text
        self._truth.output += text

    def _log(self, *, torn: bool = False) -> None:
        files, records = self._files, self._truth.records
        if len(files.spool.get(self._stream(), b"")) >= SEGMENT_BYTES:
            self._segment, self._seq = self._segment + 1, 0
        name = self._stream()
        number = sum(records.values())
        frame = frames.encode(self._seq, b'{"t":%f,"s":%d,"m":{"n":%d}}' % (self.world.clock.time(), number, number))
        files.spool.setdefault(name, bytearray()).extend(frame[:-3] if torn else frame)
        if not torn:
            self._seq += 1
            records[name] = records.get(name, 0) + 1

    def _stream(self) -> str:
        return f"track/{self._ref[0]}-{self._ref[1]:08x}.{self._segment:04d}"

    def _end(self, verdict: dict[str, object]) -> None:
        if verdict["signal"] is not None and self._rng.random() < 0.5:
            self._log(torn=True)
        elif verdict["cause"] == "cancelled":
            self._print(b"bye\n")
        self._truth.fate, self._truth.ended = verdict, self.world.now
        self._files.left = self._truth.left = verdict is FATES["ok"]
        self._files.exit = verdict
        self.kill()
        self._tell()

    def _tell(self) -> None:
        if self._files.watcher is not None:
            self._files.watcher()
