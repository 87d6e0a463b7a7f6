"""The model of ``engine.expanding``: what is to be made, and to be ended, is found out from the disk each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from turnout.engine.following import Why
from turnout.errors import InvalidInput
from turnout.model.state import Reason, RunState
from turnout.pipeline.plan import Left, Skipped
from turnout.schedule import machine
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator import following, unmade
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.memory import Disk, Ledger, Tx
from turnout.testing.simulator.planners import Later
from turnout.testing.simulator.unmade import Before

Passed = Mapping[int, Mapping[str, list[Left]]]
"""what was left for each of some runs, by the steps that left it"""


class Expander:
    """Of one life of `hub`. Between the look that finds a step due and the making of its runs, anything may happen; so
    it may between a look that finds runs at their gates, and the look at those."""

    def __init__(
        self, hub: Hub, disk: Disk, write: Callable[[Callable[[Tx], Any]], Any], end: Callable[[int], None]
    ) -> None:
        self._hub = hub
        self._disk = disk
        self._write = write
        self._end = end

    def look(self) -> None:
        due, waiting = unmade.due_steps(self._disk), at_gates(self._disk)
        for pipeline in open_pipelines(self._disk):
            if self._disk.jobs[pipeline].fail_fast and has_failures(self._disk, pipeline):
                self._end(pipeline)
        for job in due:
            put_off(self._hub, partial(self._make, job))
        for job, runs in waiting.items():
            put_off(self._hub, partial(self._look_at, job, runs))

    def _make(self, job: int) -> None:
        before = unmade.before_making(self._disk, job)
        try:
            made = unmade.plan(self._disk, job, before)
        except InvalidInput as error:
            why = Why(error.message, Reason.UNMADE)
            self._write(lambda tx: _give_up(tx, job, why))
            return
        self._write(lambda tx: _make(tx, job, made, before))

    def _look_at(self, job: int, runs: list[int]) -> None:
        passed = {run: before_gate(self._disk, job, run) for run in runs}
        late = self._disk.graph.steps[job].late
        assert late is not None
        decided: dict[int, tuple[str, ...] | Why] = {}
        for run in runs:
            try:
                decided[run] = Later.of(late).at_gate(passed[run])({})
            except Skipped as error:
                decided[run] = Why(str(error), Reason.CONDITION)
        self._write(lambda tx: _let_in(tx, job, decided, passed))


def put_off(hub: Hub, work: Callable[[], None]) -> None:
    """To read what was left takes a while."""
    hub.after(hub.world.rng.choice((0.0, 0.1, 2.0)), work)


def at_gates(disk: Disk) -> dict[int, list[int]]:
    """The runs that somebody has to look at, by their steps."""
    found: dict[int, list[int]] = {}
    for run, record in sorted(disk.records.items()):
        if record.gate and not record.blocked and record.state is RunState.CREATED and record.step == OF_STEP:
            found.setdefault(disk.rows[run].job, []).append(run)
    return dict(sorted(found.items()))


def before_gate(disk: Disk, job: int, run: int) -> dict[str, list[Left]]:
    """What a run waited for."""
    whole = {on for on, each in disk.graph.step_needs if each == job}
    singly = {on for on, each in disk.graph.run_needs if each == run}
    found: dict[str, list[Left]] = {}
    for on, record in sorted(disk.records.items()):
        step = disk.rows[on].job
        if record.step == OF_STEP and (step in whole or on in singly):
            found.setdefault(disk.graph.steps[step].name, []).append(unmade.left_by(disk, on))
    return found


def _make(tx: Tx, job: int, made: Any, before: Before) -> None:
    if runs := unmade.make(tx, job, made, before):
        ledger = Ledger(tx)
        following.settle_in(tx, ledger, job, runs)
        steps = tx.disk.graph.steps
        for follower in sorted(
            each for on, each, over in tx.disk.graph.late_needs if on == job and not over and steps[each].unmade
        ):
            following.let_step(tx, ledger, follower, 1)
        ledger.flush()


def _let_in(tx: Tx, job: int, decided: Mapping[int, tuple[str, ...] | Why], passed: Passed) -> None:
    if {run: before_gate(tx.disk, job, run) for run in decided} != passed:
        return
    ledger = Ledger(tx)
    ledger.load(decided)
    free = []
    for run, decision in decided.items():
        record = ledger.get(run)
        if record is None or record.state is not RunState.CREATED or not record.gate or record.blocked:
            continue
        if isinstance(decision, Why):
            following.give_up(tx, ledger, run, decision)
            continue
        tx.seen.add("run let in at its gate")
        ledger.apply(machine.let_in(record))
        free.append(run)
        if decision:
            tx.disk.rows[run] = replace(tx.disk.rows[run], argv=decision)
    for run in free:
        following.release(tx, ledger, run)
    following.settle(tx, ledger)
    ledger.flush()


def _give_up(tx: Tx, job: int, why: Why) -> None:
    ledger = Ledger(tx)
    following.give_up_step(tx, ledger, job, why)
    following.settle(tx, ledger)
    ledger.flush()


def open_pipelines(disk: Disk) -> list[int]:
    """Those that are not over."""
    return sorted({step.pipeline for step in disk.graph.steps.values() if step.open or step.unmade})


def has_failures(disk: Disk, pipeline: int) -> bool:
    """Whether a run of its steps has failed."""
    steps = {job for job, step in disk.graph.steps.items() if step.pipeline == pipeline}
    mine = (record for record in disk.records.values() if record.step and disk.rows[record.id].job in steps)
    return any(record.state is RunState.FAILED for record in mine)
