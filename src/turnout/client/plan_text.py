"""A plan for people to read, before anything begins."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from turnout.pipeline.plan import CALL, Plan, RunPlan, StepPlan

_SHELL = ("bash", "-euo", "pipefail", "-c")


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
            yield f"  {run.label}  {command(run)}" if run.label else f"  {command(run)}"


def waits_for(step: StepPlan) -> list[str]:
    """The names of the steps before it."""
    return list(dict.fromkeys([*step.needs, *(place.step for run in step.runs for place in run.needs)]))


def command(run: RunPlan) -> str:
    """As a person would type it: a command in a shell, a call in Python."""
    if run.argv[0] == CALL:
        _, function, args = run.argv
        return f"{function}({', '.join(f'{name}={value!r}' for name, value in json.loads(args).items())})"
    is_shell = run.argv[: len(_SHELL)] == _SHELL or run.argv[:2] == ("bash", "-c")
    return run.argv[-1] if is_shell else shlex.join(run.argv)
