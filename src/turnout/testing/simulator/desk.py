"""The model of ``engine.desk``: a round of a search is found out from the disk each time, but for who was told what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from turnout.model.event import EventName
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
from turnout.wire.messages import Attempt

_ALL = 1 << 30


@dataclass(slots=True)
class Mind:
    """What a hub has of a search in memory."""

    sampler: Learning
    stopper: Talkative | None
    told: set[int] = field(default_factory=set)
    heard_more: bool = False
    """whether a run has ended since the last time"""
    judged: dict[Attempt, int] = field(default_factory=dict)
    """how many points each had told when it was judged last"""
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
        frees = mind.heard_more and standing.concurrent is not None and bool(self._disk.jobs[job].also)
        mind.closed = "" if Stage.OPEN in stages else mind.closed
        stops, judged = self._judge(job, mind, now, is_glance=is_glance)
        proposals, trouble = self._ask(standing, search, mind, now) if Stage.OPEN in stages else ([], "")
        decision = decide(self._budget(standing, search, mind, len(proposals)), now)
        is_known = decision.why == mind.closed and Stage.OPEN not in stages
        if not (proposals or stops or trouble or not stages or (decision.is_over and not is_known) or frees):
            mind.judged |= judged
            return
        move = seeking.Move(
            standing=standing, proposals=proposals, decision=decision, stops=stops, trouble=trouble,
            is_last=not stages, closed=mind.closed,
        )  # fmt: skip
        done = self._write(lambda tx: seeking.make(tx, move))
        if done is None:
            return
        mind.judged |= judged
        mind.closed = decision.why if decision.is_over else ""
        if done:
            self._on_stop(done)

    def _inform(self, job: int, search: Search) -> Mind:
        """The sampler and the stopper, who know of every run of which there is something to know."""
        mind = self._minds.get(job)
        is_new = mind is None
        if mind is None:
            mind = self._minds[job] = Mind(self._makers.sampler(search, None), self._makers.stopper(search, None))
        runs, told = _children(self._disk, job), len(mind.told)
        for number, proposal in enumerate(self._disk.proposals[job], 1):
            run = runs.get(number)
            if run is not None and run.is_terminal:
                if number not in mind.told:
                    self._tell(mind, number, proposal, run)
            elif is_new:
                mind.sampler.adopt(number, proposal)
        mind.heard_more = not is_new and len(mind.told) > told
        return mind

    def _tell(self, mind: Mind, number: int, proposal: Proposal, run: RunRecord) -> None:
        mind.told.add(number)
        outcome = Outcome(str(run.state))
        mind.sampler.tell(Result(number, proposal, outcome))
        if mind.stopper is not None:
            mind.stopper.ended(number, _points(self._disk, run), outcome)

    def _judge(
        self, job: int, mind: Mind, now: float, *, is_glance: bool
    ) -> tuple[dict[Attempt, str], dict[Attempt, int]]:
        """What should end, and what was judged: that counts when it is written down."""
        found: dict[Attempt, str] = {}
        judged: dict[Attempt, int] = {}
        if mind.stopper is None:
            return found, judged
        for number, run in sorted(_children(self._disk, job).items()):
            if run.state not in (RunState.STARTING, RunState.RUNNING) or run.cancel in (Cause.STOPPED, Cause.BUDGET):
                continue
            attempt, points = (run.id, run.attempt), _points(self._disk, run)
            told = sum(each == run.attempt for each, _ in self._disk.points.get(run.id, ()))
            is_timed = is_glance and mind.stopper.every is not None
            if not is_timed and told == mind.judged.get(attempt, 0):
                continue
            judged[attempt] = told
            why = mind.stopper.judge(number, points, max(0.0, now - _claimed(self._disk, run)))
            if why:
                found[attempt] = f"{mind.stopper.name}: {why}"
        return found, judged

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
        children = _children(self._disk, standing.job)
        runs = children.values()
        failed = [number for number, run in children.items() if run.state is RunState.FAILED]
        good = [run for run in runs if run.state in (RunState.COMPLETED, RunState.STOPPED)]
        return Budget(
            wanted=standing.wanted, concurrent=standing.concurrent, deadline=standing.deadline,
            asked=standing.asked + more, made=standing.made, open=sum(not run.is_terminal for run in runs),
            good=sum(run.reason is not Reason.BUDGET for run in good),
            failed=sum(number > standing.forgiven for number in failed), failures=search.failures,
            ahead=_ALL if search.whole else mind.sampler.ahead, is_paused=standing.state == PAUSED,
            is_exhausted=mind.is_exhausted,
        )  # fmt: skip


def _children(disk: Disk, job: int) -> dict[int, RunRecord]:
    """By their numbers."""
    mine = ((row.child, disk.records[run]) for run, row in disk.rows.items() if row.job == job)
    return {number: record for number, record in mine if number}


def _points(disk: Disk, run: RunRecord) -> list[Point]:
    """Of its current attempt, each step once."""
    mine = {number for attempt, number in disk.points.get(run.id, ()) if attempt == run.attempt}
    return [Point(number, number) for number in sorted(mine)]


def _claimed(disk: Disk, run: RunRecord) -> float:
    """When a node took it for its current attempt."""
    return max(event.time for event in disk.events[run.id] if event.event is EventName.STARTED)
