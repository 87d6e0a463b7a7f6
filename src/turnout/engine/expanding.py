"""Steps of pipelines whose runs could not be known at submit: they are made when all that they need is over.

Nothing of it survives. What is to be made stands in the store, and the next hub finds it there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from turnout.blobs import BlobStore
from turnout.engine.carrying import carry
from turnout.engine.following import Why, give_up_steps, settle
from turnout.errors import InvalidInput
from turnout.model.pipeline import SKIPPED
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason
from turnout.pipeline.languages import late_from
from turnout.pipeline.plan import Left, RunPlan, Skipped, name_of, taking_arguments
from turnout.store import leaving, pipelines, reads
from turnout.store.carrying import roots
from turnout.store.jobs import load_jobs
from turnout.store.leaving import Leaver
from turnout.store.ledger import Ledger
from turnout.store.pipelines import LateStep
from turnout.store.store import Connection, Store
from turnout.store.writer import Tx
from turnout.wire import manifest
from turnout.wire.patterns import is_glob, matcher

_log = logging.getLogger(__name__)
_TOPIC = "pipelines"
_AGAIN = 5.0  # seconds, after a look that failed
_EVERY = 60.0  # else: another hub may have died that would have told
_FAREWELL = 30.0


class Expander:
    """`stir` from any thread, after each commit, with its topics. `end` has all runs of a pipeline cancelled; it is
    called in its thread."""

    def __init__(self, store: Store, blobs: BlobStore, end: Callable[[int], None]) -> None:
        self._store = store
        self._blobs = blobs
        self._end = end
        self._news = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="pipelines", daemon=True)

    def start(self) -> None:
        self._news.set()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._news.set()
        self._thread.join(_FAREWELL)

    def stir(self, topics: frozenset[str]) -> None:
        if _TOPIC in topics:
            self._news.set()

    def look(self) -> bool:
        """Makes the runs of all steps for which it is time, and ends pipelines that shall end with the first failure.
        For its thread, or where that was not started. What goes wrong with one is told, and is in no other's way; False
        = something did."""
        with self._store.read() as connection:
            due = pipelines.due_steps(connection)
            failed = [job for job in pipelines.open_pipelines(connection) if _shall_end(connection, job)]
        went = [_is_done(partial(self._end, job)) for job in failed]
        went += [_is_done(partial(self._expand, step)) for step in due]
        return all(went)

    def _run(self) -> None:
        patience = _EVERY
        while self._is_woken(patience):
            patience = _EVERY if _is_done(self.look) else _AGAIN

    def _is_woken(self, patience: float) -> bool:
        """After so many seconds at most; False = the hub stops."""
        self._news.wait(patience)
        self._news.clear()
        return not self._is_stopping

    def _expand(self, step: LateStep) -> None:
        with self._store.read() as connection:
            leavers = leaving.leavers(connection, step.job)
            spec = load_jobs(connection, {step.job})[step.job].spec
        try:
            decided = partial(_make, step=step, made=self._made(step, spec, leavers))
        except (InvalidInput, Skipped) as error:
            decided = partial(_give_up, job=step.job, why=_why_not(error))
        self._store.write(lambda tx: decided(tx) if _is_still_so(tx, step.job, leavers) else None)

    def _made(self, step: LateStep, spec: JobSpec, leavers: Mapping[str, Sequence[Leaver]]) -> tuple[RunPlan, ...]:
        late = late_from(step.late)
        with self._store.read() as connection:
            lying = _lying(connection, leavers) if spec.shared else None
            ends = _ends(connection, leavers) if late.has_condition else {}
        made = late.expand(self._left(leavers, ends, lying))
        if not made:
            raise InvalidInput("there is nothing to do it to", hint="see what the steps before it have left")
        if spec.search is None:
            return made
        if len(made) > 1:
            raise InvalidInput(f"a search has one command, and this has {len(made)}", hint="make it several steps")
        return tuple(replace(run, argv=taking_arguments(run.argv)) for run in made)

    def _left(
        self,
        leavers: Mapping[str, Sequence[Leaver]],
        ends: Mapping[int, Mapping[str, object]],
        lying: Mapping[int, tuple[str, ...]] | None,
    ) -> dict[str, list[Left]]:
        """`lying`: the files of each, if they are in a directory that all nodes see."""
        return {
            name: [
                Left(
                    label="" if each.label == name else each.label, values=each.values,
                    files=self._files(each) if lying is None else lying.get(each.id, ()),
                    state=SKIPPED if each.reason == Reason.CONDITION else each.state, came_to=ends.get(each.id, {}),
                )
                for each in runs
            ]
            for name, runs in leavers.items()
        }  # fmt: skip

    def _files(self, run: Leaver) -> tuple[str, ...]:
        """Those of its outputs, in the order in which it names them."""
        if run.after is None or not run.is_well:
            return ()
        paths = sorted(entry.path for entry in manifest.decode(self._blobs.read(run.after)))
        found: dict[str, None] = {}
        for is_taken in map(_matcher, run.outputs):
            found.update((path, None) for path in paths if is_taken(path))
        return tuple(found)


def _is_done(work: Callable[[], bool | None]) -> bool:
    try:
        return work() is not False
    except Exception:
        _log.exception("a step of a pipeline could not be seen to; another look follows")
        return False


def _ends(connection: Connection, leavers: Mapping[str, Sequence[Leaver]]) -> dict[int, dict[str, object]]:
    """What these runs came to, as a condition asks for it."""
    executed = roots(connection, {each.id for runs in leavers.values() for each in runs})
    found: dict[int, dict[str, object]] = {}
    for run, root in executed.items():
        view = next(iter(reads.show_runs(connection, [root]) or reads.show_runs(connection, [run])))
        told: dict[str, object] = {"state": view["state"], "exit_code": view["exit_code"]}
        told |= {f"params.{name}": value for name, value in view["params"].items()}
        told |= {f"metrics.{name}": value for name, value in view["metrics"].items()}
        found[run] = {**view["metrics"], **told}
    return found


def _lying(connection: Connection, leavers: Mapping[str, Sequence[Leaver]]) -> dict[int, tuple[str, ...]]:
    """The outputs that these runs left where all nodes see them: what they named, and what nodes found."""
    well = [run for runs in leavers.values() for run in runs if run.is_well]
    executed = roots(connection, [run.id for run in well if any(map(is_glob, run.outputs))])
    found = leaving.told_of_outputs(connection, executed.values())
    return {
        run.id: tuple(
            dict.fromkeys(
                [*(each for each in run.outputs if not is_glob(each)), *found.get(executed.get(run.id, run.id), ())]
            )
        )
        for run in well
    }


def _why_not(error: InvalidInput | Skipped) -> Why:
    if isinstance(error, Skipped):
        return Why(str(error), Reason.CONDITION)
    is_one = error.hint and "\n" not in error.message
    return Why(f"{error.message}; {error.hint}" if is_one else error.message, Reason.UNMADE)


def _shall_end(connection: Connection, pipeline: int) -> bool:
    is_meant = load_jobs(connection, {pipeline})[pipeline].spec.fail_fast
    return is_meant and pipelines.has_failures(connection, pipeline)


def _matcher(pattern: str) -> Callable[[str], bool]:
    return matcher([pattern])


def _is_still_so(tx: Tx, job: int, leavers: Mapping[str, Sequence[Leaver]]) -> bool:
    """Whether a step is still due, and for the same ends as when that was read: another hub may have seen to it
    meanwhile, or what it waited for may have been done again."""
    return pipelines.is_due(tx, job) and leaving.leavers(tx.connection, job) == leavers


def _make(tx: Tx, step: LateStep, made: Sequence[RunPlan]) -> None:
    runs = [
        RunSpec(argv=run.argv, params=dict(run.values), label=name_of(step.name, run), outputs=run.outputs)
        for run in made
    ]
    ids = pipelines.insert_late_runs(tx, step.job, runs)
    ledger = Ledger(tx)
    if carry(tx, ledger, ids):
        settle(tx, ledger)
        ledger.flush()


def _give_up(tx: Tx, job: int, why: Why) -> None:
    ledger = Ledger(tx)
    give_up_steps(tx, ledger, {job: why})
    settle(tx, ledger)
    ledger.flush()
