"""What of a pipeline is done once more when it is taken up again; decided from how its steps and runs stand.

What did not go well is, and what completed is not: unless something that it was made of is done again. That in turn is
not done under the feet of a run behind it that is under way, but left to who takes the pipeline up after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from turnout.model.state import Reason, RunState
from turnout.store.resuming import Run, Step

#: The runs that some runs waited for by themselves.
Needs = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What is done again of a step: its `runs` here count no more. Those of an `unmade` one, of which some may not have
    begun, are made later; else another takes the place of each. Those in `waiting` have not begun, and may have to wait
    for others than before."""

    step: Step
    runs: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    unmade: bool = False


@dataclass(slots=True)
class Redone:
    """`agains` are in the order of the steps. Steps in `later` were made of what is done again, and yet are not: what
    is under way needs them as they are. Of those in `stale`, that cannot be seen from their runs. The runs in `gone`
    were replaced before, and yet are what others have waited for."""

    agains: list[Again] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)


def asked_about(steps: Sequence[Step]) -> list[int]:
    """The runs of which `decide` wants to know what they waited for: those that did not complete, and those behind
    steps that are made or looked at late, where it may be that what completed is done again."""
    behind: set[int] = set()
    found: list[int] = []
    for step in steps:
        if step.late is not None or not behind.isdisjoint(step.after):
            behind.add(step.job)
        found += [run.id for run in step.runs if step.job in behind or run.state is not RunState.COMPLETED]
    return found


def decide(steps: Sequence[Step], needs: Needs) -> Redone:
    """`steps` are all of a pipeline, each after those it needs."""
    decision = _Decision(steps, needs)
    for step in steps:
        decision.look_at(step)
    decision.redone.gone = {on for each in needs.values() for on in each} - decision.current
    return decision.redone


class _Decision:
    """Step by step. Of the `changed` ones something is done again, of `anew` ones something that completed; `unmade`
    ones are made again. Runs in `replaced` count no more, as those do that are not `current`."""

    def __init__(self, steps: Sequence[Step], needs: Needs) -> None:
        self.redone = Redone()
        self._needs = needs
        self.current = {run.id for step in steps for run in step.runs}
        self._is_awaited = _needed_by_live(steps)
        self._changed: set[int] = set()
        self._anew: set[int] = set()
        self._unmade: set[int] = set()
        self._replaced: set[int] = set()

    def look_at(self, step: Step) -> None:
        again = self._again(step)
        if again is None:
            return
        self.redone.agains.append(again)
        self._replaced.update(again.runs)
        if again.unmade:
            self._unmade.add(step.job)
        if again.runs:
            self._changed.add(step.job)
        if any(run.state is RunState.COMPLETED and run.id in self._replaced for run in step.runs):
            self._anew.add(step.job)

    def _again(self, step: Step) -> Again | None:
        is_made_of_it = self._is_made_of_what_changed(step)
        is_derived = is_made_of_it or self._is_derived(step)
        if is_derived and self._is_in_use(step, step.runs):
            self.redone.later.append(step.name)
            self.redone.stale.append(step.job)
            return None
        over = [run for run in step.runs if not run.is_live]
        if is_made_of_it:
            over = [*step.runs]  # those that are live have not begun
        missing = over if is_derived else [run for run in over if self._is_missing(step, run)]
        if not is_derived and self._is_in_use(step, [run for run in step.runs if self._is_of_replaced(run)]):
            self.redone.later.append(step.name)
            missing = [run for run in missing if run.is_bad]
        if is_made_of_it or (step.late is not None and not step.made and (missing or not step.runs)):
            return Again(step=step, runs=_ids(missing), unmade=True)
        is_touched = not self._changed.isdisjoint(step.after)
        waiting = _ids(run for run in step.runs if run.is_waiting) if is_touched else ()
        return Again(step=step, runs=_ids(missing), waiting=waiting) if missing or waiting else None

    def _is_in_use(self, step: Step, runs: Sequence[Run]) -> bool:
        """Whether these runs of it, or what was made of those that are well, are under way."""
        is_any = any(run.is_live and not run.is_waiting for run in runs)
        return is_any or (step.job in self._is_awaited and any(not run.is_bad and not run.is_live for run in runs))

    def _is_made_of_what_changed(self, step: Step) -> bool:
        """Whether others than these would be made now: files may be others when anything is, and runs when all are."""
        if step.late is None or not step.made:
            return False
        is_due = (on in (self._changed if over else self._unmade) for on, over in step.makers)
        return any(is_due) or (step.is_stale and bool(step.makers))

    def _is_derived(self, step: Step) -> bool:
        """Whether all its runs came from such as count no more. Where somebody looked at what was over, it matters that
        anything is done again; else, that something is which completed."""
        others = self._changed if step.has_gate else self._anew
        return step.is_stale or (step.made and not others.isdisjoint(step.needs))

    def _is_missing(self, step: Step, run: Run) -> bool:
        """Whether it did not go well, or came from one that counts no more."""
        if run.is_bad or self._is_of_replaced(run):
            return True
        is_skipped = run.reason == Reason.CONDITION
        return is_skipped and not self._changed.isdisjoint([*step.needs, *(on for on, _ in step.makers)])

    def _is_of_replaced(self, run: Run) -> bool:
        return any(on in self._replaced or on not in self.current for on in self._needs.get(run.id, ()))


def _ids(runs: Iterable[Run]) -> tuple[int, ...]:
    return tuple(run.id for run in runs)


def _needed_by_live(steps: Sequence[Step]) -> set[int]:
    """The steps of which something that is under way has come, over however many others."""
    found: set[int] = set()
    for step in reversed(steps):
        if step.job in found or any(run.is_live and not run.is_waiting for run in step.runs):
            found.update(step.after)
    return found
