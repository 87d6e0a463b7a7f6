"""One search as the hub has it in memory: its sampler and stopper, told all that is known of its runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from turnout.engine.making import Makers
from turnout.errors import InvalidInput
from turnout.model.search import Search
from turnout.model.state import TERMINAL, Reason, RunState
from turnout.plugin.sampler import BadOption, Exhausted, Outcome, Proposal, Result
from turnout.plugin.stopper import Point
from turnout.search.budget import Budget
from turnout.store import metrics, searches
from turnout.store.jobs import Job
from turnout.store.searches import Standing, Tried
from turnout.store.store import Connection

Values = dict[tuple[int, str], dict[str, float | None]]
#: A system that takes runs in any number is given so many at once, where nobody says how many.
_LAUNCHED_AT_ONCE = 10
_OUTCOMES = {
    RunState.COMPLETED: Outcome.COMPLETED,
    RunState.STOPPED: Outcome.STOPPED,
    RunState.FAILED: Outcome.FAILED,
    RunState.CANCELLED: Outcome.CANCELLED,
}


@dataclass(slots=True)
class Curve:
    """What a run has told of the first objective, and how much of it was read."""

    values: dict[int, float] = field(default_factory=dict)
    read: int = 0
    is_new: bool = False

    def add(self, series: metrics.Series) -> None:
        self.read += len(series)
        self.is_new = self.is_new or len(series) > 0
        self.values.update(zip(series.steps, series.values, strict=True))

    def points(self) -> list[Point]:
        return [Point(step, self.values[step]) for step in sorted(self.values)]


@dataclass(frozen=True, slots=True)
class Open:
    """A proposal whose result is not known; `run` None = no node has taken it."""

    proposal: Proposal
    run: int | None = None
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Proposals with their runs as they are; of those that are over, the objectives' values; and what runs have told
    besides."""

    rows: list[Tried]
    values: Values
    series: dict[int, metrics.Series]


class Study:
    """For one thread. First and again and again it has to `read` and then `take` what it read: telling may take long,
    and nobody else should wait for that."""

    def __init__(self, job: Job, makers: Makers) -> None:
        search = job.spec.search
        assert search is not None
        self.job = job
        self.search: Search = search
        self.sampler = makers.sampler(search, job.spec.before)
        self.stopper = makers.stopper(search, job.spec.before)
        self.is_exhausted = False
        self.closed = ""
        """why it makes no more runs, once that is written down"""
        self.asked = 0
        self.open: dict[int, Open] = {}
        self.good = 0
        self.failed = 0
        self.ending: set[int] = set()
        """runs that were asked to end: that is written down, and need not be asked again"""
        self._curves: dict[int, Curve] = {}
        self._lowest = 1
        """the number of what was last brought in from elsewhere, which go down from 0"""
        self._is_new = True

    # --- what is known ------------------------------------------------------------------------------------------------

    def read(self, connection: Connection, made: int, told: Collection[int]) -> Seen:
        """What there is to know since the last time, of which the first `made` proposals became runs; at first, all of
        it. The runs in `told` have logged something. Changes nothing here."""
        if self._is_new:
            rows = searches.tried(connection, self.job.id)
            told = [row.run for row in rows if row.run is not None]
        else:
            rows = searches.tried(connection, self.job.id, [number for number in self.open if number <= made])
            rows += searches.imported(connection, self.job.id, self._lowest)
        over = [row.run for row in rows if row.run is not None and _is_over(row)]
        series: dict[int, metrics.Series] = {}
        if self.stopper is not None:
            metric = self.search.aims[0].metric
            for run in {*over, *(row.run for row in rows if row.run in told)} - {None}:
                assert run is not None
                have = self._curves[run].read if run in self._curves else 0
                series[run] = metrics.read_on(connection, run, metric, have)
        values = searches.summaries(connection, over, {aim.metric for aim in self.search.aims})
        return Seen(rows, values, series)

    def take(self, seen: Seen) -> None:
        """Has sampler and stopper told what was seen."""
        for run, series in seen.series.items():
            self._curves.setdefault(run, Curve()).add(series)
        for row in seen.rows:
            if _is_over(row):
                self._conclude(row, seen.values)
            elif self._is_new:
                self.asked = max(self.asked, row.number)
                self.open[row.number] = Open(Proposal(row.params, row.memo), row.run, row.started)
                self.sampler.adopt(row.number, self.open[row.number].proposal)
            else:
                known = self.open[row.number]
                if row.run != known.run or row.started != known.started:
                    self.open[row.number] = Open(known.proposal, row.run, row.started)
        self._is_new = False

    @property
    def is_timed(self) -> bool:
        """Whether runs have to be judged although they tell nothing."""
        return self.stopper is not None and self.stopper.every is not None

    @property
    def is_patient(self) -> bool:
        """Whether what becomes of a run changes nothing at the moment."""
        return self.sampler.ahead > 1 and self.stopper is None

    def runs(self) -> set[int]:
        """Those that are not over."""
        return {each.run for each in self.open.values() if each.run is not None}

    # --- what to do ---------------------------------------------------------------------------------------------------

    def budget(self, standing: Standing) -> Budget:
        ahead, concurrent = (1 << 30) if self.search.whole else self.sampler.ahead, standing.concurrent
        if self.job.spec.direct and not self.search.whole:  # its runs are made when they are proposed
            ahead, concurrent = 1, concurrent or _LAUNCHED_AT_ONCE
        return Budget(
            wanted=standing.wanted, concurrent=concurrent, deadline=standing.deadline, asked=self.asked,
            made=standing.made, open=sum(each.run is not None for each in self.open.values()), good=self.good,
            failed=self.failed, failures=self.search.failures, is_paused=standing.state == searches.PAUSED,
            is_exhausted=self.is_exhausted, ahead=ahead,
        )  # fmt: skip

    def ask(self, count: int, found: list[Proposal]) -> None:
        """Puts up to so many proposals more into `found`. Sets `is_exhausted` when there will be no others."""
        try:
            while len(found) < count:
                proposal = self.sampler.ask(self.asked + 1)
                if proposal is None:
                    return
                self.asked += 1
                self.open[self.asked] = Open(proposal)
                found.append(proposal)
        except Exhausted:
            self.is_exhausted = True

    def forget(self, proposals: Collection[Proposal]) -> None:
        """They could not be written down."""
        for _ in proposals:
            self.open.pop(self.asked)
            self.asked -= 1

    def to_stop(self, now: float, *, all_of_them: bool = False) -> dict[int, str]:
        """The runs that should be ended now, with the reasons."""
        found: dict[int, str] = {}
        if self.stopper is None:
            return found
        for number, each in self.open.items():
            curve = self._curves.get(each.run) if each.run is not None else None
            if each.run is None or each.started is None or (not all_of_them and (curve is None or not curve.is_new)):
                continue
            if each.run in self.ending:
                continue
            curve = curve or Curve()
            curve.is_new = False
            why = self.stopper.judge(number, curve.points(), max(0.0, now - each.started))
            if why:
                found[each.run] = f"{self.search.stopper}: {why}"
        return found

    # --- within -------------------------------------------------------------------------------------------------------

    def _conclude(self, row: Tried, told: Values) -> None:
        self.open.pop(row.number, None)
        self.ending.discard(row.run or 0)
        self.asked = max(self.asked, row.number)
        proposal = Proposal(row.params, row.memo)
        if row.result is not None:
            self._lowest = min(self._lowest, row.number)
            brought = tuple(row.result.get(aim.metric) for aim in self.search.aims)
            self.sampler.tell(Result(None, proposal, Outcome.COMPLETED, brought))
            return
        outcome = Outcome.CANCELLED if row.state is None else _OUTCOMES[row.state]
        values = tuple(told.get((row.run or 0, aim.metric), {}).get(aim.of) for aim in self.search.aims)
        self.good += outcome in (Outcome.COMPLETED, Outcome.STOPPED) and row.reason != Reason.BUDGET
        self.failed += outcome is Outcome.FAILED
        self.sampler.tell(Result(row.number, proposal, outcome, values))
        if self.stopper is not None:
            curve = self._curves.pop(row.run or 0, Curve())
            self.stopper.ended(row.number, curve.points(), outcome)


def _is_over(row: Tried) -> bool:
    return row.result is not None or (row.is_taken and (row.state is None or row.state in TERMINAL))


def check_search(search: Search, before: str | None, makers: Makers) -> None:
    """InvalidInput, NotFound or Denied for one that could not begin."""
    for what, name, make in (("sampler", search.sampler, makers.sampler), ("stopper", search.stopper, makers.stopper)):
        try:
            make(search, before)
        except BadOption as error:
            about = str(error) if name and name in str(error) else f"{what} {name!r}: {error}"
            hint = f"`turnout help searching` has every {what} with its options"
            raise InvalidInput(about, hint=hint) from error
