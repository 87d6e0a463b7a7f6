"""One search as the hub has it in memory: its sampler and stopper, told all that is known of its runs."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from turnout.engine.curves import Curve
from turnout.engine.making import Makers
from turnout.errors import InvalidInput
from turnout.model.search import MOST_AT_ONCE, Search
from turnout.model.state import Reason, RunState
from turnout.plugin.sampler import BadOption, Exhausted, Outcome, Proposal, Result, Sampler
from turnout.search.budget import Budget
from turnout.store import metrics, search_runs, searches
from turnout.store.jobs import Job
from turnout.store.search_runs import Child
from turnout.store.searches import Standing, Tried
from turnout.store.store import Connection, Store
from turnout.wire.messages import Attempt

Values = dict[tuple[int, str], dict[str, float | None]]
#: A system that takes runs in any number is given so many at once, where nobody says how many.
_LAUNCHED_AT_ONCE = 10
#: So many runs are made in one transaction, where all of them are made at once: others want to write, too.
_MADE_TOGETHER = 1000
#: So many proposals are read at once after a start.
_PAGE = 1000
#: So many values of a metric are read at once, or those of one run.
_POINTS = 200_000
#: What a stopper may end. One that is finishing has come to its own end.
_ENDABLE = (RunState.STARTING, RunState.RUNNING)
_OUTCOMES = {
    RunState.COMPLETED: Outcome.COMPLETED,
    RunState.STOPPED: Outcome.STOPPED,
    RunState.FAILED: Outcome.FAILED,
    RunState.CANCELLED: Outcome.CANCELLED,
}


class Study:
    """For one thread at a time. First and again and again it has to `catch_up`. What is decided then counts once it was
    written down (`settle`); else `forget` it."""

    def __init__(self, job: Job, makers: Makers, store: Store) -> None:
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
        self.open: dict[int, Proposal] = {}
        """what was proposed and has no result, by number"""
        self.runs: dict[int, int] = {}
        """the runs that are not over, with their numbers"""
        self._store = store
        self._concurrent: int | None = None
        self._here: dict[int, Child] = {}
        """those of them that nodes have, by number"""
        self._made = 0
        self._ended = -1
        """how many runs had been made, and had ended, when it was looked at last; -1 = it never was"""
        self._good = 0
        self._failed: list[int] = []
        self._curves: dict[int, Curve] = {}
        self._judged: dict[int, int] = {}
        self._ending: set[Attempt] = set()
        """what was asked to end: that is written down, and need not be asked again"""
        self._lowest = 1
        """the number of what was last brought in from elsewhere, which go down from 0"""

    # --- what is known ------------------------------------------------------------------------------------------------

    def catch_up(self, standing: Standing, told: Collection[int]) -> bool:
        """Has sampler and stopper told what is new since the last time; at first, all there is. The runs in `told` have
        logged something. True if runs have ended. Nothing is kept open in the store while somebody is told: that may
        take long."""
        self._concurrent = standing.concurrent
        if self._ended < 0:
            self._begin(standing)
            told = self.runs.keys()
        with self._store.read() as connection:
            ended = search_runs.parents(connection, self.job.id).ended
            here = self._on_nodes(connection, standing.made)
            fresh = self._children(connection, range(self._made + 1, standing.made + 1))
            over = self._over(connection, here, fresh, ended - self._ended)
            values = self._values(connection, (child.run for child in over))
            brought = searches.imported(connection, self.job.id, self._lowest)
            self._read_on(connection, set(told).intersection(child.run for child in here.values()))
        self.runs.update({child.run: child.number for child in fresh if child.run is not None})
        self._conclude(over, values)
        for row in brought:
            self._bring(row)
        self._here, self._made, self._ended = here, standing.made, ended
        return bool(over)

    def _begin(self, standing: Standing) -> None:
        """Bit by bit, and what ends meanwhile is found afterwards."""
        with self._store.read() as connection:
            ended = search_runs.parents(connection, self.job.id).ended
            brought = searches.imported(connection, self.job.id, self._lowest)
        for row in brought:
            self._bring(row)
        for first in range(1, standing.asked + 1, _PAGE):
            numbers = range(first, min(first + _PAGE, standing.asked + 1))
            with self._store.read() as connection:
                rows = searches.tried(connection, self.job.id, numbers)
                made = search_runs.children(connection, self.job.id, [row.number for row in rows if row.is_taken])
                values = self._values(connection, (child.run for child in made))
            self.open.update({row.number: Proposal(row.params, row.memo) for row in rows})
            self.runs.update({child.run: child.number for child in made if child.run is not None})
            self._conclude([child for child in made if child.is_over], values)
            for number in sorted(self.open.keys() & set(numbers)):
                self.sampler.adopt(number, self.open[number])
        self.asked, self._made, self._ended = standing.asked, standing.made, ended

    def _on_nodes(self, connection: Connection, made: int) -> dict[int, Child]:
        """What was made since, the next time finds."""
        found = search_runs.on_nodes(connection, self.job.id)
        return {child.number: child for child in found if child.number in self.open and child.number <= made}

    def _children(self, connection: Connection, numbers: Iterable[int]) -> list[Child]:
        """Those of these numbers whose result is not known yet."""
        return search_runs.children(connection, self.job.id, [number for number in numbers if number in self.open])

    def _over(self, connection: Connection, here: Collection[int], fresh: Sequence[Child], count: int) -> list[Child]:
        """Those that ended since the last time: most were on nodes then. If these are not `count`, as many as parents
        have counted, some waited, and all that wait have to be looked at."""
        left = self._children(connection, self._here.keys() - here)
        over = [child for child in (*left, *fresh) if child.is_over]
        if len(over) != count:
            seen = {child.number for child in (*left, *fresh)}
            over += self._children(connection, set(self.runs.values()) - seen - set(here))
        return sorted(child for child in over if child.is_over)

    def _values(self, connection: Connection, runs: Iterable[int | None]) -> Values:
        known = [run for run in runs if run is not None]
        return searches.summaries(connection, known, {aim.metric for aim in self.search.aims})

    # --- telling ------------------------------------------------------------------------------------------------------

    def _bring(self, row: Tried) -> None:
        """From elsewhere."""
        assert row.result is not None
        self._lowest = min(self._lowest, row.number)
        values = tuple(row.result.get(aim.metric) for aim in self.search.aims)
        self.sampler.tell(Result(None, Proposal(row.params, row.memo), Outcome.COMPLETED, values))

    def _conclude(self, over: Sequence[Child], told: Values) -> None:
        """These runs have ended. What they told of the metrics is read for some at a time, that it does not fill the
        memory."""
        metric = self.search.aims[0].metric if self.search.aims else ""
        counts = {child.run: told.get((child.run or 0, metric), {}).get("count") or 0 for child in over}
        while over:
            points = accumulate(counts[child.run] for child in over)
            fit = max(1, sum(total <= _POINTS for total in points))
            some, over = over[:fit], over[fit:]
            with self._store.read() as connection:
                self._read_on(connection, [child.run for child in some])
            for child in some:
                self._tell(child, self.open.pop(child.number), told)

    def _tell(self, child: Child, proposal: Proposal, told: Values) -> None:
        outcome, run = _OUTCOMES[child.state], child.run
        if run is None:  # it was deleted
            run = next((known for known, number in self.runs.items() if number == child.number), 0)
        self.runs.pop(run, None)
        self._ending.discard((run, child.attempt))
        self._good += outcome in (Outcome.COMPLETED, Outcome.STOPPED) and child.reason != Reason.BUDGET
        if outcome is Outcome.FAILED:
            insort(self._failed, child.number)
        values = tuple(told.get((run, aim.metric), {}).get(aim.of) for aim in self.search.aims)
        self.sampler.tell(Result(child.number, proposal, outcome, values))
        if self.stopper is not None:
            curve = self._curves.pop(run, Curve())
            curve.begin(child.since)
            self.stopper.ended(child.number, curve.points(), outcome)

    def _read_on(self, connection: Connection, runs: Iterable[int | None]) -> None:
        """What these runs have told since the last time, for the stopper."""
        if self.stopper is None:
            return
        known = {run: len(self._curve(run).series) for run in runs if run is not None}
        for run, series in metrics.read_on(connection, self.search.aims[0].metric, known).items():
            self._curve(run).series.extend(series)

    def _curve(self, run: int) -> Curve:
        return self._curves.setdefault(run, Curve())

    # --- what to do ---------------------------------------------------------------------------------------------------

    @property
    def is_timed(self) -> bool:
        """Whether runs have to be judged although they tell nothing."""
        return self.stopper is not None and self.stopper.every is not None

    @property
    def shares_room(self) -> bool:
        """Whether the end of a run at one target gives room to those that wait at another."""
        return self._concurrent is not None and bool(self.job.spec.also)

    @property
    def is_patient(self) -> bool:
        """Whether what becomes of a run changes nothing at the moment."""
        is_asked_one_by_one = (self.sampler.ahead == 1 or self.job.spec.direct) and not self.search.whole
        return not is_asked_one_by_one and self.stopper is None and not self.shares_room

    def budget(self, standing: Standing) -> Budget:
        ahead, concurrent = _MADE_TOGETHER if self.search.whole else self.sampler.ahead, standing.concurrent
        if self.job.spec.direct and not self.search.whole:  # its runs are made when they are proposed
            ahead, concurrent = 1, concurrent or _LAUNCHED_AT_ONCE
        return Budget(
            wanted=standing.wanted, concurrent=concurrent, deadline=standing.deadline, asked=self.asked,
            made=standing.made, open=len(self.runs), good=self._good,
            failed=len(self._failed) - bisect_right(self._failed, standing.forgiven), failures=self.search.failures,
            is_paused=standing.state == searches.PAUSED, is_exhausted=self.is_exhausted, ahead=ahead,
        )  # fmt: skip

    def ask(self, count: int, found: list[Proposal]) -> None:
        """Puts up to so many proposals more into `found`. Sets `is_exhausted` when there will be no others."""
        try:
            while len(found) < count:
                proposal = self.sampler.ask(self.asked + 1)
                if proposal is None:
                    return
                self.asked += 1
                self.open[self.asked] = proposal
                found.append(proposal)
        except Exhausted:
            self.is_exhausted = True

    def judge(self, now: float, found: dict[Attempt, str], *, all_of_them: bool = False) -> None:
        """Puts what should be ended now into `found`, with the reasons: of what nodes have, and has told something, or
        `all_of_them`."""
        self._judged.clear()
        if self.stopper is None:
            return
        for number, child in self._here.items():
            if child.run is None or child.state not in _ENDABLE or (child.run, child.attempt) in self._ending:
                continue
            curve = self._curve(child.run)
            curve.begin(child.since)
            if all_of_them or curve.is_new:
                self._judged[child.run] = len(curve.series)
                why = self.stopper.judge(number, curve.points(), max(0.0, now - (child.claimed or now)))
                if why:
                    found[child.run, child.attempt] = f"{self.search.stopper}: {why}"

    def settle(self, stops: Iterable[Attempt]) -> None:
        """What was judged and asked for is written down; these were asked to end."""
        for run, count in self._judged.items():
            self._curves[run].judged = count
        self._ending.update(stops)

    def forget(self, proposals: Collection[Proposal]) -> None:
        """They could not be written down."""
        for _ in proposals:
            self.open.pop(self.asked)
            self.asked -= 1


def check_search(search: Search, before: str | None, makers: Makers) -> None:
    """InvalidInput, NotFound or Denied for one that could not begin."""
    for what, name, make in (("sampler", search.sampler, makers.sampler), ("stopper", search.stopper, makers.stopper)):
        try:
            made = make(search, before)
        except BadOption as error:
            about = str(error) if name and name in str(error) else f"{what} {name!r}: {error}"
            hint = f"`turnout help searching` has every {what} with its options"
            raise InvalidInput(about, hint=hint) from error
        if isinstance(made, Sampler) and search.whole and search.runs is None and _has_more(made):
            hint = "say --runs N, or leave `--schedule static` out: then they are made as nodes get free"
            raise InvalidInput(f"this search has more than the {MOST_AT_ONCE} runs that are made at once", hint=hint)


def _has_more(sampler: Sampler) -> bool:
    """Whether it goes on behind what can be made at once."""
    try:
        sampler.ask(MOST_AT_ONCE + 1)
    except Exhausted:
        return False
    return True
