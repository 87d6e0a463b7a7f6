"""A plan for people to read, before anything begins."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from turnout.pipeline.native import LateStep
from turnout.pipeline.plan import CALL, SHELL, Plan, RunPlan, StepPlan


def lines(plan: Plan) -> Iterator[str]:
    """Each step, whom it waits for, and what its runs do."""
    for step in plan.steps:
        before = ", ".join(waits_for(step))
        yield f"{step.name}  after {before}" if before else step.name
        if step.when is not None:
            yield f"  when {step.when}"
        if step.is_late:
            yield "  its runs are known when those are over"
        for run in step.runs:
            yield from _lines_of(run, command(run) if run.argv else _as_written(step))


def _as_written(step: StepPlan) -> str:
    """The command of runs for which it is not known yet which files they will find."""
    if not isinstance(step.late, LateStep):
        return ""
    written = step.late.step
    if written.function is not None:
        return _call(written.function, written.args)
    return written.command if isinstance(written.command, str) else shlex.join(written.command or ())


def _lines_of(run: RunPlan, command: str) -> Iterator[str]:
    """A command of several lines stands below the values of its run."""
    first, *more = command.strip("\n").split("\n")
    if not more:
        yield f"  {run.label}  {first}" if run.label else f"  {first}"
        return
    if run.label:
        yield f"  {run.label}"
    yield from (f"{'    ' if run.label else '  '}{line}".rstrip() for line in (first, *more))


def waits_for(step: StepPlan) -> list[str]:
    """The names of the steps before it."""
    return list(dict.fromkeys([*step.needs, *step.follows, *(place.step for run in step.runs for place in run.needs)]))


def command(run: RunPlan) -> str:
    """As a person would type it: a command in a shell, a call in Python."""
    if run.argv[0] == CALL:
        _, function, args = run.argv
        return _call(function, json.loads(args))
    return run.argv[-1] if run.argv[:-1] == ("bash", "-c") else command_line(run.argv)


def _call(function: str, args: Mapping[str, object]) -> str:
    return f"{function}({', '.join(f'{name}={value!r}' for name, value in args.items())})"


def command_line(argv: Sequence[str]) -> str:
    """As a person would type it, without the shell that the text of a step is given to."""
    if tuple(argv[: len(SHELL)]) != SHELL or len(argv) == len(SHELL):
        return shlex.join(argv)
    text, arguments = argv[len(SHELL)], argv[len(SHELL) + 2 :]
    return " ".join([text.removesuffix(' "$@"'), *map(shlex.quote, arguments)])
