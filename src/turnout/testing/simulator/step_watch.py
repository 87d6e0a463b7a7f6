"""What must hold of pipelines whenever something was written: a recount of who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnout.model.state import RunState
from turnout.schedule.record import RunRecord
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator.checks import Broken
from turnout.testing.simulator.memory import Graph

Known = Mapping[int, RunRecord]


class StepWatch:
    """Looks at all pipelines after each piece of work that was written."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], int] = {}
        """how many runs a step has, after so many of it were replaced"""

    def look(self, graph: Graph, known: Known, jobs: Mapping[int, int]) -> None:
        """`jobs` are those of the runs."""
        outer: dict[int, list[RunRecord]] = {job: [] for job in graph.steps}
        replaced = dict.fromkeys(graph.steps, 0)
        for run, record in known.items():
            if record.step == OF_STEP:
                outer[jobs[run]].append(record)
            elif record.step:
                replaced[jobs[run]] += 1
        for job, step in graph.steps.items():
            runs = outer[job]
            found = step.open, step.blocked, step.unmade
            right = self._right(graph, job, outer, resumed=any(replaced.values()))
            if found != right:
                raise Broken(f"job{job} counts (open, blocked, unmade) {found}, and that is {right}: {runs}")
            made = self._made.setdefault((job, replaced[job]), len(runs)) or len(runs)
            if made != len(runs):
                raise Broken(f"job{job} had {made} runs, and has {len(runs)}: they were made again")
            self._made[job, replaced[job]] = made
        self._check_runs(graph, known, jobs, {graph.steps[job].pipeline for job in replaced if replaced[job]})

    def _right(
        self, graph: Graph, job: int, outer: Mapping[int, Sequence[RunRecord]], *, resumed: bool
    ) -> tuple[int, int, bool]:
        left = sum(not record.is_terminal for record in outer[job])
        bears = graph.steps[job].bears_failures
        waits = graph.steps[job].unmade or any(record.state is RunState.CREATED for record in outer[job])
        if not waits and resumed:  # what it waited for may be done again
            return left, graph.steps[job].blocked, graph.steps[job].late is not None and not outer[job]
        blocked = sum(not _is_over(graph, on, outer[on], bears) for on, each in graph.step_needs if each == job)
        return left, blocked, graph.steps[job].late is not None and not outer[job]

    def _check_runs(self, graph: Graph, known: Known, jobs: Mapping[int, int], resumed: set[int]) -> None:
        needs: dict[int, list[RunRecord]] = {}
        for on, run in graph.run_needs:
            needs.setdefault(run, []).append(known[on])
        for run, record in known.items():
            if record.step == OF_STEP:
                step = graph.steps[jobs[run]]
                needed = needs.get(run, [])
                if step.bears_failures:
                    needed = [each for each in needed if not each.is_terminal]
                is_any = _is_any(graph, jobs[run])
                if step.pipeline in resumed and record.state is not RunState.CREATED:
                    is_any = False  # what it waited for may be done again
                _check_waiting(record, needed, step.blocked, is_any)
            elif record.step:
                if not record.is_terminal:
                    raise Broken(f"run {run} was replaced, and is not over: {record}")
            elif record.blocked or record.state is RunState.CREATED:
                raise Broken(f"run {run} is of no step and waits: {record}")


def _is_over(graph: Graph, job: int, runs: Sequence[RunRecord], bears_failures: bool) -> bool:
    """Whether that step is over, with nothing but what is good unless who waits for it `bears_failures`."""
    good = (record.is_terminal if bears_failures else record.state is RunState.COMPLETED for record in runs)
    return not graph.steps[job].unmade and all(good)


def _is_any(graph: Graph, job: int) -> bool:
    """Whether that step waits for others as a whole."""
    return any(each == job for _, each in graph.step_needs)


def _check_waiting(record: RunRecord, needed: Sequence[RunRecord], steps: int, is_any: bool) -> None:
    """`steps` are those that its step still waits for; `is_any`, it waited for some."""
    bad = [each for each in needed if each.is_terminal and each.state is not RunState.COMPLETED]
    left = sum(each.state is not RunState.COMPLETED for each in needed) + (is_any and steps > 0)
    if record.is_terminal and not record.attempt:
        return  # it was given up, or cancelled
    if record.state is not RunState.CREATED:
        if left or record.blocked:
            raise Broken(f"run {record.id} began before all that it needs was over: {record}, {needed}")
    elif bad:
        raise Broken(f"run {record.id} waits for what will not happen: {bad}")
    elif record.blocked != left or not left:
        raise Broken(f"run {record.id} waits for {record.blocked}, and that is {left}: {record}, {needed}")
