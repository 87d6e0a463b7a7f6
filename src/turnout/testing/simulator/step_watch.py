"""What must hold of pipelines whenever something was written: a recount of who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnout.model.pipeline import Gate
from turnout.model.state import RunState
from turnout.schedule import needs
from turnout.schedule.needs import End, Verdict
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
            right = self._right(graph, job, outer)
            if found != right:
                raise Broken(f"job{job} counts (open, blocked, unmade) {found}, and that is {right}: {runs}")
            made = self._made.setdefault((job, replaced[job]), len(runs)) or len(runs)
            if made != len(runs):
                raise Broken(f"job{job} had {made} runs, and has {len(runs)}: they were made again")
            self._made[job, replaced[job]] = made
        self._check_runs(graph, known, jobs, {graph.steps[job].pipeline for job in replaced if replaced[job]})

    def _right(self, graph: Graph, job: int, outer: Mapping[int, Sequence[RunRecord]]) -> tuple[int, int, bool]:
        step, left = graph.steps[job], sum(not record.is_terminal for record in outer[job])
        is_unmade = step.late is not None and not outer[job]
        waits = step.unmade or any(record.state is RunState.CREATED for record in outer[job])
        if not waits:  # what it waited for may not have come, or be done again
            return left, step.blocked, is_unmade
        if step.unmade:
            needed = [on for on, each, over in graph.late_needs if each == job and (over or not graph.steps[on].made)]
        else:
            needed = [on for on, each in graph.step_needs if each == job]
        verdicts = [_verdict(graph, on, outer[on], step.gate) for on in needed]
        return left, sum(verdict is not Verdict.MET for verdict in verdicts), is_unmade

    def _check_runs(self, graph: Graph, known: Known, jobs: Mapping[int, int], resumed: set[int]) -> None:
        needed: dict[int, list[RunRecord]] = {}
        for on, run in graph.run_needs:
            needed.setdefault(run, []).append(known[on])
        whole = {job for _, job in graph.step_needs}
        for run, record in known.items():
            if record.step == OF_STEP:
                step = graph.steps[jobs[run]]
                is_any = jobs[run] in whole and step.blocked > 0
                if step.pipeline in resumed and record.state is not RunState.CREATED:
                    is_any = False  # what it waited for may be done again
                verdicts = [needs.of_run(_end(each), step.gate) for each in needed.get(run, ())]
                _check_waiting(record, verdicts, is_any=is_any)
            elif record.step:
                if not record.is_terminal:
                    raise Broken(f"run {run} was replaced, and is not over: {record}")
            elif record.blocked or record.state is RunState.CREATED:
                raise Broken(f"run {run} is of no step and waits: {record}")


def _verdict(graph: Graph, job: int, runs: Sequence[RunRecord], gate: Gate) -> Verdict:
    is_over = not graph.steps[job].unmade and all(record.is_terminal for record in runs)
    return needs.of_step({end for each in runs if (end := _end(each)) is not None}, gate, is_over=is_over)


def _end(record: RunRecord) -> End | None:
    return End(record.state, record.reason) if record.is_terminal else None


def _check_waiting(record: RunRecord, verdicts: Sequence[Verdict], *, is_any: bool) -> None:
    """`verdicts` are on the runs that it needs; `is_any`, it waits for steps, too."""
    if record.is_terminal and not record.attempt:
        return  # it was given up, or cancelled
    left = sum(verdict is Verdict.WAITS for verdict in verdicts) + is_any
    if record.state is not RunState.CREATED:
        if left or record.blocked:
            raise Broken(f"run {record.id} began before all that it needs was over: {record}, {verdicts}")
    elif not {*verdicts} <= {Verdict.WAITS, Verdict.MET}:
        raise Broken(f"run {record.id} waits for what will not happen: {record}, {verdicts}")
    elif record.blocked != left or not (left or record.gate):
        raise Broken(f"run {record.id} waits for {record.blocked}, and that is {left}: {record}, {verdicts}")
