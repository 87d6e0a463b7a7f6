"""``job.depends_on``: the aliases of the jobs that have to be complete before a job, for whoever drives a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnout.pipeline.plan import Plan, StepPlan

#: The aliases of the jobs of each step. Those of a late step are added when they are known.
Jobs = dict[str, Sequence[str]]


def jobs_of(plan: Plan) -> Jobs:
    """As far as they are known before anything begins."""
    return {step.name: [f"{step.name}.{number + 1}" for number in range(len(step.runs))] for step in plan.steps}


def before(step: StepPlan, number: int, jobs: Mapping[str, Sequence[str]]) -> list[str]:
    """Before job `number` (from 0) of a step whose jobs are known; those of a search begin as the first of them."""
    run = step.runs[min(number, len(step.runs) - 1)]
    single = [jobs[place.step][place.run] for place in run.needs]
    return list(dict.fromkeys([*single, *all_of(step.needs, jobs)]))


def all_of(steps: Iterable[str], jobs: Mapping[str, Sequence[str]]) -> list[str]:
    """The jobs of these steps. Where they are not known yet, the step's own alias stands for them."""
    return [alias for name in steps for alias in (jobs.get(name) or (name,))]


def make_known(step: str, aliases: Sequence[str], waiting: Iterable[Any]) -> None:
    """To jobs that wait for the step, under whose name that was: these are its jobs."""
    for job in waiting:
        after = getattr(job, "depends_on", None)
        if isinstance(after, list) and step in after:
            at = after.index(step)
            after[at : at + 1] = [alias for alias in aliases if alias not in after]
