"""The runs of a late step are made: which they are, what they wait for, and what of that is over already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from turnout.blobs import BlobStore
from turnout.engine.following import Why, give_up_steps, let_steps, settle
from turnout.engine.left import Leavers, Lefts
from turnout.engine.waiting import let_wait
from turnout.errors import InvalidInput, NotFound
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason
from turnout.pipeline.languages import late_from
from turnout.pipeline.plan import Skipped, StepPlan, name_of, taking_arguments
from turnout.store import late, leaving, waiting
from turnout.store.jobs import load_jobs
from turnout.store.late import LateStep
from turnout.store.ledger import Ledger
from turnout.store.store import Store
from turnout.store.writer import Tx

T = TypeVar("T")
_log = logging.getLogger(__name__)


def make_runs(store: Store, blobs: BlobStore, step: LateStep) -> None:
    """Of a step for which it was time. Nothing is made if somebody else did, or what it was to be made of has changed
    since this was read."""
    with store.read() as connection:
        before = leaving.before_making(connection, step.job)
        spec = load_jobs(connection, {step.job})[step.job].spec
        leavers = [each for runs in before.values() for each in runs]
        lefts = Lefts(connection, blobs, leavers, is_shared=bool(spec.shared), has_files=True, has_ends=False)
        made = or_why(lambda: _made(step, spec, lefts, before))
    store.write(lambda tx: decide(tx, step, made, before))


def decide(tx: Tx, step: LateStep, made: StepPlan | Why, before: Leavers) -> None:
    """Writes the runs, or one that stands for them. It does nothing if somebody else did, or if what it waited for
    (`before`) is not as it was any more."""
    jobs = waiting.late_needs_of(tx, step.job)
    waiting.lock_steps(tx, [*jobs.values(), step.job])
    if not late.is_due(tx, step.job) or leaving.before_making(tx.connection, step.job) != before:
        return
    if isinstance(made, Why):
        _give_up(tx, step.job, made)
    else:
        _write(tx, step, made, before, jobs)


def or_why(decide: Callable[[], T]) -> T | Why:
    """What is decided, or why it cannot be, for who lists what has ended: also where what was submitted makes no sense,
    or what was left is gone. To look again would not help."""
    try:
        return decide()
    except Skipped as error:
        return Why(str(error), Reason.CONDITION)
    except (InvalidInput, NotFound) as error:
        is_one = error.hint and "\n" not in error.message
        return Why(f"{error.message}; {error.hint}" if is_one else error.message, Reason.UNMADE)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        _log.warning("a step of a pipeline cannot be decided on", exc_info=True)
        return Why(f"what was submitted for it makes no sense here: {error!r}", Reason.UNMADE)


def _made(step: LateStep, spec: JobSpec, lefts: Lefts, before: Leavers) -> StepPlan:
    made = late_from(step.late).make(lefts.of(before))
    if not made.runs:
        raise InvalidInput("there is nothing to do it to", hint="see what the steps before it have left")
    if spec.search is None:
        return made
    if len(made.runs) > 1:
        raise InvalidInput(f"a search has one command, and this has {len(made.runs)}", hint="make it several steps")
    return replace(made, runs=tuple(replace(run, argv=taking_arguments(run.argv)) for run in made.runs))


def _write(tx: Tx, step: LateStep, made: StepPlan, before: Leavers, jobs: Mapping[str, int]) -> None:
    """The runs, with their needs of these steps. A search is needed as a whole: it may have several parents."""
    runs = [
        RunSpec(argv=run.argv, params=dict(run.values), label=name_of(step.name, run), outputs=run.outputs)
        for run in made.runs
    ]
    ids = late.insert_late_runs(tx, step.job, runs)
    plans = made.runs * len(ids) if len(made.runs) == 1 else made.runs  # of a search, all its parents wait alike
    places = {place for plan in plans for place in plan.needs}
    sought = {place.step for place in places if before[place.step][place.run].is_sought}
    whole = sorted(jobs[name] for name in {*made.needs, *sought})
    singly = [
        (before[place.step][place.run].id, run)
        for run, plan in zip(ids, plans, strict=True)
        for place in dict.fromkeys(plan.needs)
        if place.step not in sought
    ]
    waiting.insert_needs(tx, runs=singly, steps=[(on, step.job) for on in whole])
    let_wait(tx, {step.job: ids})
    ledger = Ledger(tx)
    let_steps(tx, ledger, dict.fromkeys(waiting.followers(tx, step.job), 1))
    ledger.flush()


def _give_up(tx: Tx, job: int, why: Why) -> None:
    ledger = Ledger(tx)
    give_up_steps(tx, ledger, {job: why})
    settle(tx, ledger)
    ledger.flush()
