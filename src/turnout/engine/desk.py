"""Searches go on here: when a run of one ends, tells something new or is taken, its sampler and stopper are asked.

One thread; nothing of it survives. All a search needs is in the store, and the next hub takes it up from there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from turnout.engine import changing, proposing
from turnout.engine.making import Makers
from turnout.engine.study import Study
from turnout.errors import TurnoutError
from turnout.plugin.provider import Failure
from turnout.plugin.sampler import Proposal
from turnout.schedule.record import RunRecord, Stage
from turnout.search.budget import decide
from turnout.store import searches
from turnout.store.jobs import load_jobs
from turnout.store.searches import Standing
from turnout.store.store import Store

_log = logging.getLogger(__name__)
#: How late a deadline, or what another hub on the same database wrote, is seen.
_GLANCE = 1.0
_SEARCH, _RUN, _METRICS, _ENDED = "search:", "run:", "metrics:", "searches"


class Desk:
    """`stir` from any thread, after each commit, with its topics. `on_stop` hears of runs whose nodes have to end
    them."""

    def __init__(self, store: Store, on_stop: Callable[[list[RunRecord]], None], makers: Makers | None = None) -> None:
        self._store = store
        self._makers = makers or Makers()
        self._on_stop = on_stop
        self._studies: dict[int, Study] = {}
        self._jobs: dict[int, int] = {}
        """the runs that are looked after, and whose they are"""
        self._watched: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._due: set[int] = set()
        self._told: set[int] = set()
        self._wake = threading.Event()
        self._failed: set[int] = set()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="searches", daemon=True)

    def start(self) -> None:
        with self._store.read() as connection:
            self._due.update(searches.open_searches(connection))
        if self._due:
            self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()
        self._thread.join(timeout=30)

    def stir(self, topics: frozenset[str]) -> None:
        """Something was written. Cheap if it is nothing of a search."""
        mine = [topic for topic in topics if topic.startswith(_SEARCH)]
        seen = topics & self._watched
        some_ended = _ENDED in topics
        if not mine and not seen and not some_ended:
            return
        with self._lock:
            self._due.update(int(topic.removeprefix(_SEARCH)) for topic in mine)
            if some_ended:
                self._due.update(tuple(self._studies))
            for topic in seen:
                kind, _, number = topic.partition(":")
                run = int(number)
                if run in self._jobs:
                    self._due.add(self._jobs[run])
                    if kind + ":" == _METRICS:
                        self._told.add(run)
        self._wake.set()

    def _run(self) -> None:
        next_glance = 0.0
        while True:
            self._wake.wait(_GLANCE if self._studies or self._failed else None)
            self._wake.clear()
            if self._is_stopping:
                return
            is_glance = time.monotonic() >= next_glance
            if is_glance:
                next_glance = time.monotonic() + _GLANCE
            with self._lock:
                due, told = self._due, self._told
                self._due, self._told = set(), set()
            if is_glance:
                due |= self._studies.keys() | self._failed
            for job in sorted(due):
                self._failed.discard(job)
                try:
                    self.tend(job, told, is_glance=is_glance)
                except Exception:
                    _log.exception("a round of the search job%d failed; another follows", job)
                    self._failed.add(job)
            self._watch()

    def tend(self, job: int, told: Collection[int] = (), *, is_glance: bool = False) -> None:
        """Tells, judges, asks and writes, for one search. The runs in `told` have logged something; with `is_glance`,
        runs are judged that were silent. For the thread of the desk, or where that was not started."""
        standing, study, stages = self._up_to_date(job, told)
        if standing is None or study is None:
            self._studies.pop(job, None)
            return
        now = time.time()
        may_ask = Stage.OPEN in stages
        if may_ask:
            study.closed = ""
        stops, proposals, trouble = self._ask(study, standing, now, is_glance=is_glance, may_ask=may_ask)
        decision = decide(study.budget(standing), now)
        move = proposing.Move(
            standing=standing, study=study, proposals=proposals, decision=decision, stops=stops, trouble=trouble,
            stages=stages,
        )  # fmt: skip
        if not move.is_anything:
            return
        try:
            done = self._store.write(lambda tx: proposing.make(tx, move))
        except BaseException:
            study.forget(proposals)
            raise
        if done is None:  # somebody changed it meanwhile
            study.forget(proposals)
            with self._lock:
                self._due.add(job)
            self._wake.set()
            return
        study.closed = decision.why if decision.is_over else ""
        study.ending.update(stops)
        if done:
            self._on_stop(done)

    def _ask(
        self, study: Study, standing: Standing, now: float, *, is_glance: bool, may_ask: bool
    ) -> tuple[dict[int, str], list[Proposal], str]:
        """Which runs shall end, what comes next, and what went wrong: with somebody's code anything can."""
        stops: dict[int, str] = {}
        proposals: list[Proposal] = []
        asked = "stopper"
        try:
            stops = study.to_stop(now, all_of_them=is_glance and study.is_timed)
            asked = "sampler"
            if may_ask:
                study.ask(decide(study.budget(standing), now).ask, proposals)
        except Exception as error:
            _log.exception("the %s of job%d failed", asked, study.job.id)
            said = error.message if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            return stops, proposals, f"its {asked} failed: {said}"
        return stops, proposals, ""

    def _up_to_date(self, job: int, told: Collection[int]) -> tuple[Standing | None, Study | None, set[int]]:
        """How it stands, the study with all that is known of it (None = it is over, or cannot go on), and the stages of
        its parents that are not over."""
        with self._store.read() as connection:
            standing = searches.standing(connection, job)
            if standing is None or standing.state == searches.OVER:
                return standing, None, set()
            stages = searches.stages(connection, job)
            known = None if job in self._studies else load_jobs(connection, {job})[job]
        try:
            study = self._studies[job] if known is None else Study(known, self._makers)
            with self._store.read() as connection:
                seen = study.read(connection, standing.made, told)
            study.take(seen)
        except Exception as error:
            self._studies.pop(job, None)  # another instance is told all of it
            if isinstance(error, TurnoutError) and error.retryable:
                raise
            self._pause(standing, error)
            return standing, None, stages
        self._studies[job] = study
        return standing, study, stages

    def _pause(self, standing: Standing, error: Exception) -> None:
        """Its sampler or stopper cannot be made, or told."""
        if standing.state == searches.PAUSED:
            return
        _log.error("the search job%d cannot go on", standing.job, exc_info=error)
        why = f"it cannot go on: {type(error).__name__}: {error}"
        self._store.write(lambda tx: changing.pause(tx, standing.job, why))

    def _watch(self) -> None:
        """Which topics are ours."""
        urgent = {job: study for job, study in self._studies.items() if not study.is_patient}
        jobs = {run: job for job, study in urgent.items() for run in study.runs()}
        watched = {f"{_RUN}{run}" for run in jobs}
        watched |= {f"{_METRICS}{run}" for study in urgent.values() if study.stopper for run in study.runs()}
        with self._lock:
            fresh = jobs.keys() - self._jobs.keys()
            self._jobs = jobs
            # What happened to a run before its topics were watched is looked for once more.
            self._due.update(jobs[run] for run in fresh)
            self._told |= fresh
            if fresh:
                self._wake.set()
        self._watched = frozenset(watched)
