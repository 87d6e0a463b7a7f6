"""Runs of pipelines that were just written, or wait for others than before: what of that is over already?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from turnout.engine.following import Why, give_up, give_up_steps, in_vain, release, settle, why_not
from turnout.model.pipeline import Gate
from turnout.model.state import RunState
from turnout.schedule import machine, needs
from turnout.schedule.needs import Verdict
from turnout.store import waiting
from turnout.store.ledger import Ledger
from turnout.store.queue import names_of
from turnout.store.waiting import NeededRun
from turnout.store.writer import Tx

_GOES_ON = (Verdict.WAITS, Verdict.MET)


def let_wait(tx: Tx, steps: Mapping[int, Collection[int]], late: Collection[int] = ()) -> set[int]:
    """Created runs, by their steps, whose needs are written, and `late` steps whose runs are to be made: each waits for
    what of that is not over. One that would wait in vain is given up, and one that has nothing to wait for goes on.
    Gives the runs that have ended for that. The steps of all that is needed have to be locked."""
    ledger = Ledger(tx)
    ledger.load(run for runs in steps.values() for run in runs)
    work = _Work(tx, ledger, steps)
    for job in steps:
        work.count(job)
    unmade = _Unmade(tx, late)
    waiting.set_blocked(tx, [(blocked, job) for job, blocked in (work.blocked | unmade.blocked).items()])
    for run, why in work.lost().items():
        give_up(ledger, run, why, tx.now)
    if unmade.in_vain:
        give_up_steps(tx, ledger, unmade.in_vain)
    if not all(unmade.blocked.values()):
        tx.touch("pipelines")
    release(tx, ledger, work.free)
    settle(tx, ledger)
    lost = {record.id for record in ledger.ended() if record.state is not RunState.COMPLETED}
    ledger.flush()
    return lost


class _Unmade:
    """`blocked`: how many steps each of these late ones waits for, until its runs can be made."""

    def __init__(self, tx: Tx, steps: Collection[int]) -> None:
        makers = waiting.makers_of(tx, steps)
        ends = waiting.ends_of(tx, {on.job for each in makers.values() for on in each})
        gates = waiting.gates_of(tx, steps)
        self.blocked: dict[int, int] = {}
        self.in_vain: dict[int, Why] = {}
        for job in steps:
            verdicts = {
                on.job: needs.of_step(ends.get(on.job, ()), gates[job], is_over=on.is_over)
                for on in makers.get(job, ())
                if not on.is_enough
            }
            self.blocked[job] = sum(verdict is Verdict.WAITS for verdict in verdicts.values())
            lost = next((on for on, verdict in verdicts.items() if verdict not in _GOES_ON), None)
            if lost is not None:
                self.in_vain[job] = in_vain(tx, verdicts[lost], lost)


class _Work:
    def __init__(self, tx: Tx, ledger: Ledger, steps: Mapping[int, Collection[int]]) -> None:
        self._tx = tx
        self._ledger = ledger
        self._steps = steps
        self._runs = waiting.needed_runs(tx, [run for runs in steps.values() for run in runs])
        self._whole = waiting.needed_steps(tx, steps)
        self._ends = waiting.ends_of(tx, {on.job for each in self._whole.values() for on in each})
        self._gates = waiting.gates_of(tx, steps)
        self.blocked: dict[int, int] = {}
        """how many steps the runs of each step wait for"""
        self.free: list[int] = []
        """runs that have nothing to wait for"""
        self._in_vain: dict[int, Why] = {}
        self._lost: dict[int, NeededRun] = {}
        """runs, and one that each needed"""

    def count(self, job: int) -> None:
        whole, gate = self._whole.get(job, ()), self._gates[job]
        self.blocked[job] = sum(not on.is_over for on in whole)
        why = self._why(job, gate)
        for run in self._steps[job]:
            mine = self._runs.get(run, ())
            blocked = sum(on.end is None for on in mine) + (self.blocked[job] > 0)
            record = self._ledger.get(run)
            assert record is not None
            self._ledger.apply(machine.block(record, blocked))
            lost = next((on for on in mine if needs.of_run(on.end, gate) not in _GOES_ON), None)
            if why is not None:
                self._in_vain[run] = why
            elif lost is not None:
                self._lost[run] = lost
            elif not blocked:
                self.free.append(run)

    def _why(self, job: int, gate: Gate) -> Why | None:
        """Why all its runs would wait in vain."""
        for on in self._whole.get(job, ()):
            verdict = needs.of_step(self._ends.get(on.job, ()), gate, is_over=on.is_over)
            if verdict not in _GOES_ON:
                return in_vain(self._tx, verdict, on.job)
        return None

    def lost(self) -> dict[int, Why]:
        """Runs that would wait in vain, and why."""
        names = names_of(self._tx, {on.id for on in self._lost.values()})
        found = {run: why_not(names[on.id], on.end) for run, on in self._lost.items() if on.end is not None}
        return self._in_vain | found
