"""Searches go on here: when a run of one ends, tells something new or is taken, its sampler and stopper are asked.

Nothing of it survives. All a search needs is in the store, and the next hub takes it up from there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from turnout.engine import changing, proposing
from turnout.engine.making import Makers
from turnout.engine.study import Study
from turnout.errors import TurnoutError
from turnout.plugin.provider import Failure
from turnout.plugin.sampler import BadOption, Proposal
from turnout.schedule.record import RunRecord, Stage
from turnout.search.budget import decide
from turnout.store import search_runs, searches
from turnout.store.jobs import load_jobs
from turnout.store.search_runs import Parents
from turnout.store.searches import Standing
from turnout.store.store import Store
from turnout.wire.messages import Attempt

_log = logging.getLogger(__name__)
#: How late a deadline, or what another hub on the same database wrote, is seen.
_GLANCE = 1.0
#: So many searches are looked after at once: samplers and stoppers may take their time.
_THREADS = 4
_FAREWELL = 30.0
_SEARCH, _RUN, _METRICS, _ENDED = "search:", "run:", "metrics:", "searches"
_STANDSTILL = "its sampler proposes nothing, and nothing is under way"


@dataclass(slots=True)
class _Round:
    """What the next look at a search is for: the runs that have `told` something; with `is_glance`, all of them."""

    told: set[int] = field(default_factory=set)
    is_glance: bool = False


class Desk:
    """`stir` from any thread, after each commit, with its topics. `on_stop` hears of runs whose nodes have to end
    them, in any thread."""

    def __init__(self, store: Store, on_stop: Callable[[list[RunRecord]], None], makers: Makers | None = None) -> None:
        self._store = store
        self._makers = makers or Makers()
        self._on_stop = on_stop
        self._news = threading.Condition()
        """guards all that follows; a study itself is used by who has its job among the busy ones"""
        self._studies: dict[int, Study] = {}
        self._due: dict[int, _Round] = {}
        self._busy: set[int] = set()
        self._failed: dict[int, set[int]] = {}
        """whose last round failed, with the runs that had told something: another follows"""
        self._stuck: set[int] = set()
        """whose sampler or stopper cannot be made, or told"""
        self._watched: dict[str, int] = {}
        """the topics of runs that are looked after, and whose they are"""
        self._runs: dict[int, set[int]] = {}
        self._next_glance = 0.0
        self._is_stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"searches-{number}", daemon=True) for number in range(_THREADS)
        ]

    def start(self) -> None:
        with self._store.read() as connection:
            going_on = searches.open_searches(connection)
            files = search_runs.files_of(connection, going_on)
        self._makers.keep(files)
        with self._news:
            self._due.update({job: _Round() for job in going_on})
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """What samplers and stoppers in processes of their own are asked meanwhile is given up. Nothing is written any
        more: the next hub asks again."""
        with self._news:
            self._is_stopping = True
            self._news.notify_all()
        self._makers.close()
        until = time.monotonic() + _FAREWELL
        for thread in self._threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def stir(self, topics: frozenset[str]) -> None:
        """Something was written. Cheap if it is nothing of a search."""
        with self._news:
            is_news = False
            for topic in topics:
                if topic in self._watched:
                    kind, _, number = topic.partition(":")
                    due = self._make_due(self._watched[topic])
                    if kind + ":" == _METRICS:
                        due.told.add(int(number))
                elif topic.startswith(_SEARCH):
                    self._make_due(int(topic.removeprefix(_SEARCH)))
                elif topic == _ENDED:
                    for job in self._studies:
                        self._make_due(job)
                else:
                    continue
                is_news = True
            if is_news:
                self._news.notify_all()

    def _make_due(self, job: int) -> _Round:
        return self._due.setdefault(job, _Round())

    # --- the threads --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (found := self._next()) is not None:
            job, due = found
            try:
                self.tend(job, due.told, is_glance=due.is_glance)
            except Exception:
                with self._news:
                    self._failed[job] = due.told
                if not self._is_stopping:
                    _log.exception("a round of the search job%d failed; another follows", job)
            with self._news:
                self._busy.discard(job)
                self._watch(job)
                self._news.notify_all()

    def _next(self) -> tuple[int, _Round] | None:
        """A search to look after, which nobody else does at the moment; None = the hub stops."""
        with self._news:
            while not self._is_stopping:
                self._glance()
                job = next((job for job in self._due if job not in self._busy), None)
                if job is not None:
                    self._busy.add(job)
                    due = self._due.pop(job)
                    due.told |= self._failed.pop(job, set())
                    return job, due
                is_any = bool(self._studies or self._failed or self._stuck)
                self._news.wait(max(0.0, self._next_glance - time.monotonic()) if is_any else None)
            return None

    def _glance(self) -> None:
        now = time.monotonic()
        if now >= self._next_glance:
            self._next_glance = now + _GLANCE
            for job in (*self._studies, *self._failed, *self._stuck):
                self._make_due(job).is_glance = True

    def _watch(self, job: int) -> None:
        """The topics of its runs are ours, as long as they matter."""
        study = self._studies.get(job)
        runs = set(study.runs) if study is not None and not study.is_patient else set()
        known = self._runs.pop(job, set())
        for run in known - runs:
            self._watched.pop(f"{_RUN}{run}", None)
            self._watched.pop(f"{_METRICS}{run}", None)
        fresh = runs - known
        for run in fresh:
            self._watched[f"{_RUN}{run}"] = job
            if study is not None and study.stopper is not None:
                self._watched[f"{_METRICS}{run}"] = job
        if runs:
            self._runs[job] = runs
        if fresh:  # what happened to them before their topics were watched is looked for once more
            self._make_due(job).told |= fresh

    # --- a round ------------------------------------------------------------------------------------------------------

    def tend(self, job: int, told: Collection[int] = (), *, is_glance: bool = False) -> None:
        """Tells, judges, asks and writes, for one search. The runs in `told` have logged something; with `is_glance`,
        runs are judged that were silent. For the threads of the desk, or where those were not started."""
        with self._store.read() as connection:
            standing = searches.standing(connection, job)
            parents = search_runs.parents(connection, job)
        if standing is None or standing.state == searches.OVER:
            self._drop(job)
            return
        if job in self._stuck and standing.state == searches.PAUSED and parents.stages:
            return  # until it is resumed, or cancelled
        try:
            study = self._study(job)
            frees = study.catch_up(standing, told) and study.shares_room
        except Exception as error:
            self._give_up(standing, parents, error)
            return
        if parents.is_held:  # its time has not begun
            return
        now = time.time()
        may_ask = Stage.OPEN in parents.stages
        if may_ask:
            study.closed = ""
        stops, proposals, trouble = self._ask(study, standing, now, is_glance=is_glance, may_ask=may_ask)
        move = proposing.Move(
            standing=standing, study=study, parents=parents, proposals=proposals, stops=stops, trouble=trouble,
            decision=decide(study.budget(standing), now), frees=frees,
        )  # fmt: skip
        if not self._is_stopping:
            self._write(move)

    def _write(self, move: proposing.Move) -> None:
        study = move.study
        if not move.is_anything:
            study.settle(())
            return
        try:
            done = self._store.write(lambda tx: proposing.make(tx, move))
        except BaseException:
            study.forget(move.proposals)
            raise
        if done is None:  # somebody changed it meanwhile
            study.forget(move.proposals)
            with self._news:
                self._make_due(study.job.id)
                self._news.notify_all()
            return
        study.closed = move.decision.why if move.decision.is_over else ""
        study.settle(move.stops)
        if done:
            self._on_stop(done)

    def _ask(
        self, study: Study, standing: Standing, now: float, *, is_glance: bool, may_ask: bool
    ) -> tuple[dict[Attempt, str], list[Proposal], str]:
        """What shall end, what comes next, and what went wrong: with somebody's code anything can."""
        stops: dict[Attempt, str] = {}
        proposals: list[Proposal] = []
        asked = "stopper"
        try:
            study.judge(now, stops, all_of_them=is_glance and study.is_timed)
            asked = "sampler"
            count = decide(study.budget(standing), now).ask if may_ask else 0
            study.ask(count, proposals)
        except Exception as error:
            _log.exception("the %s of job%d failed", asked, study.job.id)
            return stops, proposals, f"its {asked} failed: {_said(error)}"
        stands_still = count > 0 and not study.open and not study.is_exhausted
        return stops, proposals, _STANDSTILL if stands_still else ""

    def _study(self, job: int) -> Study:
        study = self._studies.get(job)
        if study is None:
            with self._store.read() as connection:
                known = load_jobs(connection, {job})[job]
            study = Study(known, self._makers, self._store)
            with self._news:
                self._studies[job] = study
                self._stuck.discard(job)
        return study

    def _give_up(self, standing: Standing, parents: Parents, error: Exception) -> None:
        """Its sampler or stopper cannot be made, or told. Another instance is told all of it."""
        with self._news:
            self._studies.pop(standing.job, None)
        if self._is_stopping:
            return
        if isinstance(error, TurnoutError) and error.retryable:
            raise error
        with self._news:
            self._stuck.add(standing.job)
        if not parents.stages:
            self._store.write(lambda tx: proposing.close(tx, standing))
        elif standing.state != searches.PAUSED:
            _log.error("the search job%d cannot go on", standing.job, exc_info=error)
            why = f"it cannot go on: {_said(error)}"
            self._store.write(lambda tx: changing.pause(tx, standing.job, why))

    def _drop(self, job: int) -> None:
        """It is over. What was needed for it alone goes."""
        with self._news:
            is_known = self._studies.pop(job, None) is not None or job in self._stuck
            self._stuck.discard(job)
        if is_known:
            with self._store.read() as connection:
                files = search_runs.files_of(connection, searches.open_searches(connection))
            self._makers.keep(files)


def _said(error: Exception) -> str:
    """Of errors that are made for people, what they say."""
    if isinstance(error, Failure | TurnoutError):
        return error.message
    return str(error) if isinstance(error, BadOption) else f"{type(error).__name__}: {error}"
