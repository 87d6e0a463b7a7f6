"""A plan for people to read, before anything begins."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from turnout.pipeline.plan import CALL, SHELL, Plan, RunPlan, StepPlan


def lines(plan: Plan) -> Iterator[str]:
    """Each step, whom it waits for, and what its runs do."""
    for step in plan.steps:
        before = ", ".join(waits_for(step))
        yield f"{step.name}  after {before}" if before else step.name
        if step.when is not None:
            yield f"  when {step.when}"
        if step.late is not None:
            yield "  its runs are known when those are over"
        for run in step.runs:
            yield from _lines_of(run)


def _lines_of(run: RunPlan) -> Iterator[str]:
    """A command of several lines stands below the values of its run."""
    first, *more = command(run).strip("\n").split("\n")
    if not more:
        yield f"  {run.label}  {first}" if run.label else f"  {first}"
        return
    if run.label:
        yield f"  {run.label}"
    yield from (f"{'    ' if run.label else '  '}{line}".rstrip() for line in (first, *more))


def waits_for(step: StepPlan) -> list[str]:
    """The names of the steps before it."""
    return list(dict.fromkeys([*step.needs, *(place.step for run in step.runs for place in run.needs)]))


def command(run: RunPlan) -> str:
    """As a person would type it: a command in a shell, a call in Python."""
    if run.argv[0] == CALL:
        _, function, args = run.argv
        return f"{function}({', '.join(f'{name}={value!r}' for name, value in json.loads(args).items())})"
    return run.argv[-1] if run.argv[:-1] == ("bash", "-c") else command_line(run.argv)


def command_line(argv: Sequence[str]) -> str:
    """As a person would type it, without the shell that the text of a step is given to."""
    if tuple(argv[: len(SHELL)]) != SHELL or len(argv) == len(SHELL):
        return shlex.join(argv)
    text, arguments = argv[len(SHELL)], argv[len(SHELL) + 2 :]
    return " ".join([text.removesuffix(' "$@"'), *map(shlex.quote, arguments)])
