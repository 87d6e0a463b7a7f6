"""Runs at their gates: all that they waited for is over, and somebody has to look whether they are done, and how."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from turnout.blobs import BlobStore
from turnout.engine.following import Why, give_up, release, settle
from turnout.engine.late_runs import or_why
from turnout.engine.left import Leavers, Lefts
from turnout.model.state import RunState
from turnout.pipeline.languages import late_from
from turnout.pipeline.plan import Late, Look, Value, taking_arguments
from turnout.schedule import machine
from turnout.store import late, leaving
from turnout.store.jobs import load_jobs
from turnout.store.late import AtGate, LateStep
from turnout.store.leaving import Passed
from turnout.store.ledger import Ledger
from turnout.store.store import Store
from turnout.store.waiting import lock_steps
from turnout.store.writer import Tx

_AT_ONCE = 1000
Decided = Mapping[int, tuple[str, ...] | Why]


def look_at(store: Store, blobs: BlobStore, found: AtGate) -> None:
    """Lets runs of a step in, or ends them. Nothing happens to one of which somebody else decided, or that waits for
    others now."""
    runs = iter(found.runs.items())
    while some := dict(islice(runs, _AT_ONCE)):
        _look_at(store, blobs, found.step, some)


def _look_at(store: Store, blobs: BlobStore, step: LateStep, runs: Mapping[int, Mapping[str, Value]]) -> None:
    looker = late_from(step.late)
    with store.read() as connection:
        passed = leaving.before_gates(connection, step.job, runs)
        spec = load_jobs(connection, {step.job})[step.job].spec
        lefts = Lefts(
            connection, blobs, passed.leavers(), is_shared=bool(spec.shared), has_files=looker.fills,
            has_ends=looker.has_condition,
        )  # fmt: skip
        looks: dict[int, Look | Why] = {}
        decided: dict[int, tuple[str, ...] | Why] = {}
        for run, values in runs.items():
            left = passed.by(run, step.job)
            if id(left) not in looks:
                looks[id(left)] = or_why(partial(_gate, looker, lefts, left))
            look = looks[id(left)]
            argv = look if isinstance(look, Why) else or_why(partial(look, values))
            is_command = not isinstance(argv, Why) and argv and spec.search is not None
            decided[run] = taking_arguments(argv) if is_command else argv
    store.write(lambda tx: _write(tx, step.job, decided, passed))


def _gate(late: Late, lefts: Lefts, left: Leavers) -> Look:
    return late.at_gate(lefts.of(left))


def _write(tx: Tx, job: int, decided: Decided, passed: Passed) -> None:
    ledger = Ledger(tx)
    ledger.load(decided)
    lock_steps(tx, [job])  # who takes the pipeline up again does so, too
    if leaving.before_gates(tx.connection, job, decided) != passed:
        tx.touch("pipelines")  # something of it was done again meanwhile: another look follows
        return
    waiting = [run for run in decided if _is_at_gate(ledger, run)]
    argv: dict[int, tuple[str, ...]] = {}
    free: list[int] = []
    for run in waiting:
        decision = decided[run]
        if isinstance(decision, Why):
            give_up(ledger, run, decision, tx.now)
            continue
        record = ledger.get(run)
        assert record is not None
        ledger.apply(machine.let_in(record))
        free.append(run)
        if decision:
            argv[run] = decision
    late.set_argv(tx, job, argv)
    release(tx, ledger, free)
    settle(tx, ledger)
    ledger.flush()


def _is_at_gate(ledger: Ledger, run: int) -> bool:
    record = ledger.get(run)
    return record is not None and record.state is RunState.CREATED and record.gate > 0 and not record.blocked
