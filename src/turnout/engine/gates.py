"""Runs at their gates: all that they waited for is over, and somebody has to look whether they are done, and how."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from turnout.blobs import BlobStore
from turnout.engine.following import Why, give_up, release, settle
from turnout.engine.late_runs import why_unmade
from turnout.engine.left import Lefts
from turnout.errors import InvalidInput
from turnout.model.state import RunState
from turnout.pipeline.languages import late_from
from turnout.pipeline.plan import Skipped, taking_arguments
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


def _look_at(store: Store, blobs: BlobStore, step: LateStep, runs: Mapping[int, Mapping[str, object]]) -> None:
    looker = late_from(step.late)
    with store.read() as connection:
        passed = leaving.before_gates(connection, step.job, runs)
        spec = load_jobs(connection, {step.job})[step.job].spec
        lefts = Lefts(
            connection, blobs, passed.leavers(), is_shared=bool(spec.shared), has_files=looker.fills,
            has_ends=looker.has_condition,
        )  # fmt: skip
    decided: dict[int, tuple[str, ...] | Why] = {}
    for run, values in runs.items():
        try:
            argv = looker.look(values, lefts.of(passed.by(run, step.job)))  # type: ignore[arg-type]
            decided[run] = taking_arguments(argv) if argv and spec.search is not None else argv
        except (InvalidInput, Skipped) as error:
            decided[run] = why_unmade(error)
    store.write(lambda tx: _write(tx, step.job, decided, passed))


def _write(tx: Tx, job: int, decided: Decided, passed: Passed) -> None:
    lock_steps(tx, [job])  # who takes the pipeline up again does so, too
    ledger = Ledger(tx)
    ledger.load(decided)
    if leaving.before_gates(tx.connection, job, decided) != passed:
        return  # something of it was done again meanwhile
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
