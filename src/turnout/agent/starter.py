"""Attempts that are ready get a supervisor; the launcher tells what became of it."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, Set

from turnout.agent import killing, record, sdk
from turnout.agent.attempt import Attempt, Phase
from turnout.agent.contained import contain
from turnout.agent.container_command import CannotContain, client_environment
from turnout.agent.draft import TAIL_SECONDS
from turnout.agent.ender import Ender
from turnout.agent.gpu_neighbours import Neighbours
from turnout.agent.holding import Holding
from turnout.agent.launcher import Ended, Failed, Launcher, LauncherDied, Started
from turnout.agent.log import say, say_error
from turnout.agent.starting import job_environment, make_order, told_environment
from turnout.wire.messages import JobOrder

_RETURN_SECONDS = 1.0  # a run kept at hand for longer goes back
_LAUNCHER_SECONDS = 10.0  # a launcher that takes longer to answer is as good as dead
_LOOK_SECONDS = 2.0
_EPSILON = 1e-9


class Starter:
    """For the main thread. Every method may raise LauncherDied. `knows_gpus`: whether it is known of late who computes
    on the GPUs; no run gets one before that."""

    def __init__(
        self, holding: Holding, launcher: Launcher, ender: Ender, sdk_path: str,
        knows_gpus: Callable[[], bool], neighbours: Neighbours,
    ) -> None:  # fmt: skip
        self._holding = holding
        self._launcher = launcher
        self._knows_gpus = knows_gpus
        self._neighbours = neighbours
        self._ender = ender
        self._sdk = sdk_path
        self._has_sdk = False
        self._asked: Dict[str, Attempt] = {}
        self._overdue: Dict[str, float] = {}
        self._defined: Set[int] = set()
        self._next_look = 0.0

    def start_ready(self) -> None:
        """Starts what is confirmed and fits, in the order it was granted; gives back what has waited too long."""
        holding = self._holding
        waiting = [held for held in holding.attempts.values() if held.phase is Phase.READY and held.confirmed]
        if not waiting or not holding.has_lease():
            return
        self._forget_jobs()
        free = holding.welcome.max_runs - sum(a.grant.slots for a in holding.attempts.values() if a.uses_slot)
        now = time.monotonic()
        for attempt in waiting:
            if attempt.grant.gpus and not self._knows_gpus():
                continue
            try:
                may_start = attempt.grant.slots <= free + _EPSILON and self._take_gpus(attempt)
            except OSError as error:
                self._ender.fail(attempt, f"it could not be started: {error}")
                continue
            if may_start:
                free -= attempt.grant.slots
                self._start(attempt)
            elif now - attempt.granted > _RETURN_SECONDS:
                self._give_back(attempt)

    def hear(self) -> None:
        """The launcher has something to say."""
        for answer in self._launcher.read():
            attempt = self._asked.get(answer.key)
            if isinstance(answer, Failed) and attempt is None:
                say(f"the launcher: {answer.error}")
            if attempt is None:
                continue
            if isinstance(answer, Started):
                self._started(attempt, answer)
                continue
            del self._asked[answer.key]
            self._overdue.pop(answer.key, None)
            if isinstance(answer, Ended):
                self._ender.end(attempt)
            elif attempt.phase is Phase.STARTED:
                self._ender.start_again(attempt, answer.error)

    def look(self) -> None:
        """Every so often: whether the launcher still does its work. LauncherDied when it does not."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        for key, attempt in self._asked.items():
            is_late = attempt.phase is Phase.STARTED or record.read_exit(attempt.directory.ctl) is not None
            if not is_late:
                self._overdue.pop(key, None)
            elif now - self._overdue.setdefault(key, now) > _LAUNCHER_SECONDS:
                raise LauncherDied(f"launcher {self._launcher.pid} does not answer")

    def _take_gpus(self, attempt: Attempt) -> bool:
        """False when they are not to be had now. What it has is written down before another agent may look; OSError
        when it cannot be."""
        if not attempt.grant.gpus:
            return True
        with self._neighbours.held_off():
            self._holding.gpus.learn_of_neighbours(self._neighbours.taken())
            if not self._holding.gpus.take(attempt):
                return False
            attempt.directory.remember_gpus(attempt.gpus)
        return True

    def _start(self, attempt: Attempt) -> None:
        try:
            job = self._holding.order_of(attempt.grant)
            assert job is not None  # an order is kept while an attempt needs it
            self._define(job)
            order = make_order(attempt, job, gpus=self._holding.gpus.vendor)
            if attempt.runtime is not None:
                shared = told_environment(job, node=self._holding.welcome.node, sdk=self._sdk)
                root = os.path.dirname(self._sdk)
                order = contain(order, attempt, job, shared, root=root, sdk=self._sdk, gpus=self._holding.gpus)
        except CannotContain as error:
            self._ender.refuse(attempt, str(error))
            return
        except Exception as error:
            say_error(f"{attempt.key} could not be started")
            self._ender.fail(attempt, f"it could not be started: {error}")
            return
        attempt.phase = Phase.STARTED
        attempt.began = True
        attempt.starts += 1
        self._asked[attempt.key] = attempt
        self._launcher.start(order)

    def _started(self, attempt: Attempt, answer: Started) -> None:
        attempt.supervisor = answer.process
        if attempt.phase is Phase.STARTED:
            attempt.phase = Phase.RUNNING
            attempt.look_at = time.monotonic() + TAIL_SECONDS
            gpus = {"gpus": list(attempt.gpus)} if attempt.gpus else {}
            attempt.add_fact("running", {"pid": answer.process.pid, **gpus})
            if attempt.stop_cause is not None:
                killing.ask_to_end(attempt.directory, attempt.supervisor, attempt.stop_cause)

    def _define(self, job: JobOrder) -> None:
        if not self._has_sdk:
            sdk.install(self._sdk)
            self._has_sdk = True
        if job.job not in self._defined:
            self._launcher.define(job.job, self._environment(job))
            self._defined.add(job.job)

    def _environment(self, job: JobOrder) -> Dict[str, str]:
        node = self._holding.welcome.node
        if job.container is None:
            return job_environment(job, node=node, sdk=self._sdk)
        return client_environment(told_environment(job, node=node, sdk=self._sdk), os.environ)

    def _forget_jobs(self) -> None:
        while self._holding.forgotten:
            job = self._holding.forgotten.pop()
            if job in self._defined:
                self._defined.discard(job)
                self._launcher.forget(job)

    def _give_back(self, attempt: Attempt) -> None:
        self._ender.give_back(attempt)
        self._holding.expect_long_runs(attempt.grant)
