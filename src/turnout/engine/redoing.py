"""What of a pipeline is done once more when it is taken up again; decided from how its steps and runs stand.

What did not go well is, and what completed is not: unless something that it was made of is done again. That in turn is
not done under the feet of a run behind it that is under way, but left to who takes the pipeline up after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnout.model.state import Reason, RunState
from turnout.store.resuming import Run, Step

#: The runs that some runs waited for by themselves.
Needs = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What is done again of a step, which waits for so many others: its `runs` here count no more. Those of an
    `unmade` one are made later. Else another takes the place of each, and waits for as many as `blocked` has for it.

    In `vain`, for some of these runs, is one that they need and that is skipped; `all_vain` is such a one for all."""

    step: Step
    runs: tuple[int, ...]
    waits_for: int
    unmade: bool = False
    blocked: tuple[int, ...] = ()
    vain: Mapping[int, int] = field(default_factory=dict)
    all_vain: int | None = None


@dataclass(slots=True)
class Redone:
    """`agains` are in the order of the steps. Steps in `later` were made of what is done again, and yet are not: what
    is under way needs them as they are."""

    agains: list[Again] = field(default_factory=list)
    later: list[str] = field(default_factory=list)


def asked_about(steps: Sequence[Step]) -> list[int]:
    """The runs of which `decide` wants to know what they waited for: those that did not complete, and those behind late
    steps, where it may be that what completed is done again."""
    behind: set[int] = set()
    found: list[int] = []
    for step in steps:
        is_behind = not behind.isdisjoint(step.after)
        if is_behind or step.late is not None:
            behind.add(step.job)
        if step.late is None:
            found += [run.id for run in step.runs if is_behind or run.state is not RunState.COMPLETED]
    return found


def decide(steps: Sequence[Step], needs: Needs) -> Redone:
    """`steps` are all of a pipeline, each after those it needs."""
    decision = _Decision(steps, needs)
    for step in steps:
        decision.look_at(step)
    return decision.redone


class _Decision:
    """Step by step. The `open` ones are not over, or will not be; of `anew` ones something that completed is done
    again. Runs in `replaced` count no more, and those in `skipped` are so, or will be; for each step that has such,
    `partly` has one."""

    def __init__(self, steps: Sequence[Step], needs: Needs) -> None:
        self.redone = Redone()
        self._needs = needs
        self._well = {run.id for step in steps for run in step.runs if run.state is RunState.COMPLETED}
        self._newest = {step.job: max(run.id for run in step.runs) for step in steps if step.runs}
        self._is_awaited = _needed_by_live(steps)
        self._open: set[int] = set()
        self._anew: set[int] = set()
        self._replaced: set[int] = set()
        self._skipped: set[int] = set()
        self._partly: dict[int, int] = {}

    def look_at(self, step: Step) -> None:
        again = self._again(step)
        if again is not None:
            self.redone.agains.append(again)
            self._replaced.update(again.runs)
            if not self._well.isdisjoint(again.runs):
                self._anew.add(step.job)
        if again is not None or step.is_open:
            self._open.add(step.job)
        self._note_skipped(step, again)

    def _again(self, step: Step) -> Again | None:
        is_derived, in_vain = self._is_derived(step), self._in_vain(step)
        if is_derived and (step.job in self._is_awaited or any(run.is_live for run in step.runs)):
            self.redone.later.append(step.name)
            return None
        missing = tuple(run.id for run in step.runs if is_derived or self._is_missing(step, run))
        if in_vain is not None and not missing:
            return None
        if step.late is not None and (is_derived or not step.made) and (missing or not step.runs):
            waits_for = len(self._open.intersection(step.after))
            return Again(step=step, runs=missing, waits_for=waits_for, unmade=True, all_vain=in_vain)
        if not missing:
            return None
        waits_for = len(self._open.intersection(step.needs))
        is_held = waits_for > 0 or in_vain is not None
        return Again(
            step=step, runs=missing, waits_for=waits_for, all_vain=in_vain,
            blocked=tuple(self._count_waited_for(run) + is_held for run in missing),
            vain={run: on for run in missing if (on := self._vain_of(run)) is not None},
        )  # fmt: skip

    def _is_derived(self, step: Step) -> bool:
        """Whether its runs were made of such as count no more. Those of a late step are made when all that is before it
        is over: what is newer has taken a place since then."""
        if step.late is None:
            return not self._anew.isdisjoint(step.needs)
        if not step.runs or (not step.made and any(run.is_bad for run in step.runs)):
            return False
        oldest = min(run.id for run in step.runs)
        return not self._open.isdisjoint(step.after) or any(self._newest.get(on, 0) > oldest for on in step.after)

    def _is_missing(self, step: Step, run: Run) -> bool:
        """Whether it did not go well, or needs one that is done again; or was skipped for one that may be done now."""
        if run.is_live or step.late is not None:
            return run.is_bad
        needed = self._needs.get(run.id, ())
        if run.reason == Reason.CONDITION:
            return self._in_vain(step) is None and self._skipped.isdisjoint(needed)
        return run.is_bad or not self._replaced.isdisjoint(needed)

    def _in_vain(self, step: Step) -> int | None:
        """One that was skipped, and that all of its runs need."""
        return None if step.bears_failures else next(filter(None, map(self._partly.get, step.needs)), None)

    def _vain_of(self, run: int) -> int | None:
        return next((on for on in self._needs.get(run, ()) if on in self._skipped), None)

    def _count_waited_for(self, run: int) -> int:
        return len({on for on in self._needs.get(run, ()) if on in self._replaced or on not in self._well})

    def _note_skipped(self, step: Step, again: Again | None) -> None:
        done_again = set(again.runs) if again is not None else set()
        skipped = [run.id for run in step.runs if run.reason == Reason.CONDITION and run.id not in done_again]
        if again is not None:
            skipped += again.runs if again.all_vain is not None and not again.unmade else again.vain
            if again.all_vain is not None:
                self._partly[step.job] = again.all_vain
        self._skipped.update(skipped)
        if skipped:
            self._partly.setdefault(step.job, skipped[0])


def _needed_by_live(steps: Sequence[Step]) -> set[int]:
    """The steps of which something that is under way has come, over however many others."""
    found: set[int] = set()
    for step in reversed(steps):
        if step.job in found or any(run.is_live for run in step.runs):
            found.update(step.after)
    return found
