"""The model of ``engine.desk``: a round of a search is found out from the disk each time, but for who was told what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from turnout.model.search import Search
from turnout.model.state import Reason, RunState
from turnout.plugin.sampler import Exhausted, Outcome, Proposal, Result
from turnout.plugin.stopper import Point
from turnout.schedule.record import Cause, RunRecord, Stage
from turnout.search.budget import Budget, decide
from turnout.store.searches import OVER, PAUSED, Standing
from turnout.testing.simulator import family, seeking
from turnout.testing.simulator.memory import Disk, Tx
from turnout.testing.simulator.sampling import Learning, Makers, Talkative

_ALL = 1 << 30


@dataclass(slots=True)
class Mind:
    """What a hub has of a search in memory."""

    sampler: Learning
    stopper: Talkative | None
    told: set[int] = field(default_factory=set)
    judged: dict[int, int] = field(default_factory=dict)
    """of each run, how many points it had told when it was judged last"""
    is_exhausted: bool = False
    closed: str = ""


Write = Callable[[Callable[[Tx], list[RunRecord] | None]], list[RunRecord] | None]


class Desk:
    """Of one life of the hub."""

    def __init__(self, disk: Disk, makers: Makers, write: Write, on_stop: Callable[[list[RunRecord]], None]) -> None:
        self._disk = disk
        self._makers = makers
        self._write = write
        self._on_stop = on_stop
        self._minds: dict[int, Mind] = {}

    def tend(self, now: float, *, is_glance: bool) -> None:
        """A round of all searches; with `is_glance`, runs are judged that were silent."""
        for job in sorted(self._disk.searches):
            if self._disk.searches[job].state == OVER:
                self._minds.pop(job, None)
            else:
                self._tend(job, now, is_glance=is_glance)

    def _tend(self, job: int, now: float, *, is_glance: bool) -> None:
        standing, search = self._disk.searches[job], self._disk.jobs[job].search
        assert search is not None
        stages = {self._disk.records[run].stage for run in family.parents_of(self._disk, job)}
        mind = self._inform(job, search)
        mind.closed = "" if Stage.OPEN in stages else mind.closed
        stops = self._judge(job, mind, now, is_glance=is_glance)
        proposals, trouble = self._ask(standing, search, mind, now) if Stage.OPEN in stages else ([], "")
        decision = decide(self._budget(standing, search, mind, len(proposals)), now)
        is_known = decision.why == mind.closed and Stage.OPEN not in stages
        if not (proposals or stops or trouble or not stages or (decision.is_over and not is_known)):
            return
        move = seeking.Move(
            standing=standing, proposals=proposals, decision=decision, stops=stops, trouble=trouble,
            is_last=not stages, closed=mind.closed,
        )  # fmt: skip
        done = self._write(lambda tx: seeking.make(tx, move))
        if done is None:
            return
        mind.closed = decision.why if decision.is_over else ""
        if done:
            self._on_stop(done)

    def _inform(self, job: int, search: Search) -> Mind:
        """The sampler and the stopper, who know of every run of which there is something to know."""
        mind = self._minds.get(job)
        is_new = mind is None
        if mind is None:
            mind = self._minds[job] = Mind(self._makers.sampler(search, None), self._makers.stopper(search, None))
        runs = _children(self._disk, job)
        for number, proposal in enumerate(self._disk.proposals[job], 1):
            run = runs.get(number)
            if run is not None and run.is_terminal:
                if number not in mind.told:
                    self._tell(mind, number, proposal, run)
            elif is_new:
                mind.sampler.adopt(number, proposal)
        return mind

    def _tell(self, mind: Mind, number: int, proposal: Proposal, run: RunRecord) -> None:
        mind.told.add(number)
        outcome = Outcome(str(run.state))
        mind.sampler.tell(Result(number, proposal, outcome))
        if mind.stopper is not None:
            mind.stopper.ended(number, _points(self._disk, run.id), outcome)

    def _judge(self, job: int, mind: Mind, now: float, *, is_glance: bool) -> dict[int, str]:
        found: dict[int, str] = {}
        if mind.stopper is None:
            return found
        for number, run in sorted(_children(self._disk, job).items()):
            told = len(self._disk.points.get(run.id, ()))
            if run.is_terminal or run.started is None or run.cancel in (Cause.STOPPED, Cause.BUDGET):
                continue
            is_timed = is_glance and mind.stopper.every is not None
            if not is_timed and told == mind.judged.get(run.id, 0):
                continue
            mind.judged[run.id] = told
            why = mind.stopper.judge(number, _points(self._disk, run.id), max(0.0, now - run.started))
            if why:
                found[run.id] = f"{mind.stopper.name}: {why}"
        return found

    def _ask(self, standing: Standing, search: Search, mind: Mind, now: float) -> tuple[list[Proposal], str]:
        found: list[Proposal] = []
        count = decide(self._budget(standing, search, mind, 0), now).ask
        try:
            while len(found) < count:
                proposal = mind.sampler.ask(standing.asked + len(found) + 1)
                if proposal is None:
                    break
                found.append(proposal)
        except Exhausted:
            mind.is_exhausted = True
        except RuntimeError as error:
            return found, f"its sampler failed: RuntimeError: {error}"
        return found, ""

    def _budget(self, standing: Standing, search: Search, mind: Mind, more: int) -> Budget:
        runs = _children(self._disk, standing.job).values()
        good = [run for run in runs if run.state in (RunState.COMPLETED, RunState.STOPPED)]
        return Budget(
            wanted=standing.wanted, concurrent=standing.concurrent, deadline=standing.deadline,
            asked=standing.asked + more, made=standing.made, open=sum(not run.is_terminal for run in runs),
            good=sum(run.reason is not Reason.BUDGET for run in good),
            failed=sum(run.state is RunState.FAILED for run in runs), failures=search.failures,
            ahead=_ALL if search.whole else mind.sampler.ahead, is_paused=standing.state == PAUSED,
            is_exhausted=mind.is_exhausted,
        )  # fmt: skip


def _children(disk: Disk, job: int) -> dict[int, RunRecord]:
    """By their numbers."""
    mine = ((row.child, disk.records[run]) for run, row in disk.rows.items() if row.job == job)
    return {number: record for number, record in mine if number}


def _points(disk: Disk, run: int) -> list[Point]:
    """Each step once."""
    return [Point(number, number) for number in sorted({number for _, number in disk.points.get(run, ())})]
