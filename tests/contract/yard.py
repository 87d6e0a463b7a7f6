"""A small batch system inside this process, with text for answers, and a provider of it that keeps every promise.

What it runs are real processes. From behind it can be broken in every way that the kit knows, so that each check can be
seen to catch something.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from turnout.plugin.provider import (
    Capabilities,
    Failure,
    Finding,
    Handle,
    Launch,
    Observation,
    Phase,
    Provider,
)

CPUS = 64
_ids = itertools.count(1000)


class Refused(Exception):
    """What the native system says when it does not do it."""


@dataclass(frozen=True)
class Order:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    log: str
    stdin: bytes
    seconds: float | None = None


@dataclass
class Job:
    order: Order
    state: str = "waiting"
    code: int = 0
    deadline: float = float("inf")
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Yard:
    """The native system. `fault`: lost, busy, login or down; `answer` is told in the place of every status."""

    places: int = 8
    calls: int = 0
    fault: str = ""
    answer: str | None = None
    jobs: dict[int, Job] = field(default_factory=dict)

    def submit(self, orders: Sequence[Order]) -> str:
        self._call()
        ids = [next(_ids) for _ in orders]
        self.jobs |= {id: Job(order) for id, order in zip(ids, orders, strict=True)}
        self._advance()
        if self.fault == "lost":
            raise Refused("connection reset")
        return " ".join(map(str, ids))

    def status(self) -> str:
        self._call()
        self._advance()
        lines = [f"{id} {job.state} {job.code} {job.order.name}" for id, job in self.jobs.items()]
        return "\n".join([f"yard {len(lines)}", *lines]) if self.answer is None else self.answer

    def cancel(self, ids: Sequence[int]) -> None:
        self._call()
        for id in ids:
            self._end(self.jobs[id], "cancelled")
        self._advance()

    def purge(self) -> None:
        self._advance()
        self.jobs = {id: job for id, job in self.jobs.items() if job.state in ("waiting", "running")}

    def _call(self) -> None:
        self.calls += 1
        if self.fault in ("busy", "login", "down"):
            raise Refused(self.fault)

    def _end(self, job: Job, state: str) -> None:
        if job.process is not None and job.state == "running":
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
        if job.state in ("waiting", "running"):
            job.state, job.code = state, 137

    def _advance(self) -> None:
        for job in self.jobs.values():
            if job.state == "running" and job.process is not None and job.process.poll() is not None:
                job.state, job.code = "ended", job.process.returncode
            elif job.state == "running" and time.monotonic() > job.deadline:
                self._end(job, "overdue")
        free = self.places - sum(job.state == "running" for job in self.jobs.values())
        for job in [each for each in self.jobs.values() if each.state == "waiting"][: max(free, 0)]:
            self._start(job)

    def _start(self, job: Job) -> None:
        order = job.order
        os.makedirs(os.path.dirname(order.log), exist_ok=True)
        with open(order.log, "ab") as log:
            job.process = subprocess.Popen(
                order.argv, env=dict(order.env), cwd=order.cwd, stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        assert job.process.stdin is not None
        with job.process.stdin:
            job.process.stdin.write(order.stdin)
        job.state, job.deadline = "running", time.monotonic() + (order.seconds or float("inf"))


@dataclass(frozen=True)
class YardSettings:
    """Nothing that anybody has to say."""

    track: str = field(default="main", metadata={"doc": "The track that jobs wait on."})


#: native state -> what it means
_PHASES = {"waiting": Phase.PENDING, "running": Phase.ACTIVE}
_REASONS = {"ended": "exit_code", "cancelled": "cancelled", "overdue": "timeout"}
_KINDS = {"busy": "throttled", "login": "login"}
#: Runs the rest of its arguments, and leaves their exit code in the file $0.
_WRAP = '"$@"; code=$?; echo "$code" > "$0"; exit "$code"'


class YardProvider(Provider):
    """Handles are ``yard-N``. How a launch ended stands in a file of its own, which outlives the yard's memory."""

    name = "yard"
    Settings: ClassVar[type | None] = YardSettings
    capabilities = Capabilities(same_host=True, elastic=True, wall_time=True, records=True)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        yard = settings["yard"]
        assert isinstance(yard, Yard)
        self.yard = yard
        self.root = str(settings["nodes_directory"])

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        answers: list[Handle | Failure] = [self.objection(each) or "" for each in launches]
        good = [each for each, answer in zip(launches, answers, strict=True) if answer == ""]
        handles = iter(self.hand_over([self.order(each) for each in good]) if good else ())
        return [answer if isinstance(answer, Failure) else next(handles) for answer in answers]

    def hand_over(self, orders: Sequence[Order]) -> list[Handle]:
        try:
            return [f"yard-{id}" for id in self.yard.submit(orders).split()]
        except Refused as error:
            raise self.failure(error) from error

    def objection(self, launch: Launch) -> Failure | None:
        needed = launch.program or (launch.argv[0] if launch.argv else "")
        if launch.work is not None:
            needed = launch.work.files
        if not os.path.exists(needed):
            return Failure(f"there is no {needed}", kind="rejected")
        if (launch.need.cpus or 0) > CPUS:
            return Failure(f"no more than {CPUS} processors", kind="unsupported")
        return None

    def order(self, launch: Launch) -> Order:
        ends = os.path.join(self.root, "ends")
        os.makedirs(ends, exist_ok=True)
        os.makedirs(launch.directory, mode=0o700, exist_ok=True)
        argv = ["/bin/sh", "-c", _WRAP, os.path.join(ends, launch.token), *launch.argv]
        log = os.path.join(launch.directory, "agent.log")
        return Order(launch.token, argv, launch.env, launch.directory, log, launch.stdin, launch.need.seconds)

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        if not handles:
            return {}
        known = self.known()
        seen = {handle: self.meaning(*known[handle]) for handle in handles if handle in known}
        ended = {handle: self.end_of(handle) for handle in handles if handle not in known}
        return {**seen, **{handle: end for handle, end in ended.items() if end is not None}}

    def known(self) -> dict[Handle, tuple[str, int, str]]:
        """(state, exit code, name) of each job that the yard tells of; remembers their names."""
        try:
            lines = self.yard.status().splitlines()
            if not lines or lines[0] != f"yard {len(lines) - 1}":
                raise Failure(f"the yard's answer makes no sense: {lines[:1]}")
            rows = [line.split() for line in lines[1:]]
        except Refused as error:
            raise self.failure(error) from error
        found = {f"yard-{id}": (state, int(code), name) for id, state, code, name in rows}
        for handle, (_, _, name) in found.items():
            self.remember(handle, name)
        return found

    def remember(self, handle: Handle, name: str) -> None:
        path = os.path.join(self.root, f"{handle}.name")
        if not os.path.exists(path):
            Path(path).write_text(name)

    def meaning(self, state: str, code: int, name: str) -> Observation:
        phase = _PHASES.get(state, Phase.GONE)
        if phase is not Phase.GONE:
            return Observation(phase, native=state)
        return Observation(phase, reason=_REASONS[state], exit_code=code, native=state)

    def end_of(self, handle: Handle) -> Observation | None:
        """By the file that the launch left, where the yard has forgotten it."""
        try:
            name = Path(self.root, f"{handle}.name").read_text()
            code = int(Path(self.root, "ends", name).read_text())
        except (OSError, ValueError):
            return None
        return Observation(Phase.GONE, reason="exit_code", exit_code=code)

    def cancel(self, handles: Sequence[Handle]) -> None:
        known = self.known() if handles else {}
        ids = [int(each.rpartition("-")[2]) for each in dict.fromkeys(handles) if each in known]
        try:
            if ids:
                self.yard.cancel(ids)
        except Refused as error:
            raise self.failure(error) from error

    def find(self, token: str) -> Handle | None:
        return next((handle for handle, (_, _, name) in self.known().items() if name == token), None)

    def check(self) -> list[Finding]:
        try:
            self.known()
        except Failure as error:
            return [Finding("problem", f"the yard does not answer: {error.message}", "look whether it is open")]
        return [Finding("ok", "the yard answers")]

    def failure(self, error: Refused) -> Failure:
        return Failure(str(error), kind=_KINDS.get(str(error), "transient"))


class YardElsewhere(YardProvider):
    """The same as if the yard were another machine: the agent is brought there as a file, and the hub's socket."""

    capabilities = Capabilities(elastic=True, wall_time=True, records=True)

    def order(self, launch: Launch) -> Order:
        there = os.path.join(self.root, "there")
        os.makedirs(there, mode=0o700, exist_ok=True)
        if not os.path.lexists(os.path.join(there, "agent.sock")):
            os.symlink(str(self.settings["agent_socket"]), os.path.join(there, "agent.sock"))
        program = os.path.join(there, os.path.basename(launch.program))
        shutil.copy(launch.program, program)
        os.makedirs(os.path.join(self.root, "ends"), exist_ok=True)
        argv = ["/bin/sh", "-c", _WRAP, os.path.join(self.root, "ends", launch.token)]
        log = os.path.join(there, launch.directory, "agent.log")
        env = {"PATH": os.environ["PATH"], "HOME": there, "PYTHONPATH": program}
        started = [*argv, launch.python or "python3", "-m", "turnout.agent"]
        return Order(launch.token, started, env, there, log, launch.stdin, launch.need.seconds)


class YardRuns(YardProvider):
    """The same, where one launch is one run."""

    capabilities = Capabilities(launches="runs", same_host=True, elastic=True, records=True)

    def order(self, launch: Launch) -> Order:
        assert launch.work is not None
        place = os.path.join(self.root, "runs", launch.token)
        shutil.copytree(launch.work.files, place)
        os.makedirs(os.path.join(self.root, "ends"), exist_ok=True)
        argv = ["/bin/sh", "-c", _WRAP, os.path.join(self.root, "ends", launch.token), *launch.work.argv]
        env = {**os.environ, **launch.work.env}
        return Order(launch.token, argv, env, place, os.path.join(place, "output"), b"")
