"""The model of ``engine.expanding``: what is to be made, and to be ended, is found out from the disk each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from turnout.engine.following import Why
from turnout.errors import InvalidInput
from turnout.model.state import Reason, RunState
from turnout.pipeline.plan import Skipped
from turnout.testing.simulator import following, unmade
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.memory import Disk, Ledger, Tx


class Expander:
    """Of one life of `hub`. Between the look that finds a step due and the making of its runs, anything may happen."""

    def __init__(
        self, hub: Hub, disk: Disk, write: Callable[[Callable[[Tx], Any]], Any], end: Callable[[int], None]
    ) -> None:
        self._hub = hub
        self._disk = disk
        self._write = write
        self._end = end

    def look(self) -> None:
        due = unmade.due_steps(self._disk)
        for pipeline in open_pipelines(self._disk):
            if self._disk.jobs[pipeline].fail_fast and has_failures(self._disk, pipeline):
                self._end(pipeline)
        for job in due:
            put_off(self._hub, partial(self._expand, job))

    def _expand(self, job: int) -> None:
        try:
            made = unmade.plan(self._disk, job)
        except InvalidInput as error:
            why = Why(error.message, Reason.UNMADE)
            self._write(lambda tx: _give_up(tx, job, why))
            return
        except Skipped as error:
            skipped = Why(str(error), Reason.CONDITION)
            self._write(lambda tx: _give_up(tx, job, skipped))
            return
        self._write(lambda tx: unmade.make(tx, job, made))


def put_off(hub: Hub, expand: Callable[[], None]) -> None:
    """To read what was left takes a while."""
    hub.after(hub.world.rng.choice((0.0, 0.1, 2.0)), expand)


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
