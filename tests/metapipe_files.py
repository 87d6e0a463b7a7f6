"""Small Metapipe files, planned in a project that is only names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe import parse, plan
from turnout.pipeline.metapipe.patterns import matcher
from turnout.pipeline.plan import Plan, StepPlan

SOMEFILES = [f"somefile.{number}" for number in range(1, 7)]
PROJECT = [*SOMEFILES, "a.gz", "b.gz", "c.gz", "x.counts", "y.counts"]
FILES = "\n[FILES]\n" + "".join(f"{number}. {path}\n" for number, path in enumerate(SOMEFILES, 1))


def planned(*commands: str, more: str = FILES, project: Sequence[str] = PROJECT) -> Plan:
    """`commands` begin in line 2; `more` are the sections behind them."""
    text = "\n".join(["[COMMANDS]", *commands]) + more
    return plan(parse(text, "p.mp"), lambda pattern: sorted(filter(matcher(pattern), project)))


def step(plan: Plan, name: str) -> StepPlan:
    return next(step for step in plan.steps if step.name == name)


def scripts(plan: Plan) -> dict[str, str]:
    """The script of each run, by its label."""
    return {run.label: script for step in plan.steps for run in step.runs for script in run.argv[-1:]}


def needs(plan: Plan) -> dict[str, set[str]]:
    """What each run waits for: runs as 1.2, whole steps as 1.*"""
    return {
        run.label: {f"{on.step}.{on.run + 1}" for on in run.needs} | {f"{on}.*" for on in step.needs}
        for step in plan.steps
        for run in step.runs
    }


def refusal(*commands: str, more: str = FILES, project: Iterable[str] = PROJECT) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        planned(*commands, more=more, project=list(project))
    return caught.value
