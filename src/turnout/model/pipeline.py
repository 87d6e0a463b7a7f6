"""What a pipeline asks for: jobs that are its steps, and which of their runs wait for which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from turnout.model.spec import JobSpec, RunSpec

#: How a run of a step is counted whose condition does not hold: cancelled, and well.
SKIPPED = "skipped"

#: Who ends all runs of a pipeline with its first failure.
FAIL_FAST = "--fail-fast"

MOST_STEPS = 100_000


class Gate(IntEnum):
    """Whether runs have to be looked at before they may begin: are they to be done at all, and to which files?"""

    NONE = 0
    IF_WELL = 1  # when nothing that they wait for went badly; what was skipped may matter or not
    ANYHOW = 2  # when all that they wait for is over, however it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the jobs of some steps have in common: all but what they are called and what their runs are. A search, and
    a job that has `nodes`, is of one step alone. `environment`: which of those of the pipeline the job
    inherits, that has none itself then."""

    job: JobSpec
    environment: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """`terms` is which of those of the pipeline its job has; `runs` are its runs, as far as they are known, `display`
    is how the job is shown.

    `needs` are steps before this one, by their place in the pipeline, all of whose runs have to be over well before any
    of its own may begin. `run_needs` has for each of its runs the places, (step, run), of the runs that this one waits
    for besides. With a `gate`, `late` looks at each before it begins.

    Of files that match `each`, which others left, every run is given only the one in its parameter ``file``.

    One without runs is made by `late`, when all that it `needs` is over (well, unless the gate is ANYHOW), and the runs
    of the steps that it `follows` are known, too.
    """

    name: str
    terms: int
    runs: tuple[RunSpec, ...] = ()
    display: tuple[str, ...] = ()
    needs: tuple[int, ...] = ()
    run_needs: tuple[tuple[tuple[int, int], ...], ...] = ()
    follows: tuple[int, ...] = ()
    late: dict[str, Any] | None = None
    gate: Gate = Gate.NONE
    each: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """`job` has no runs: it is what the steps have in common, and what they are known by together. `resume` is the job
    of an earlier pipeline: what completed there, and is asked for in the same way, is taken over."""

    job: JobSpec
    terms: tuple[Terms, ...]
    steps: tuple[StepSpec, ...]
    resume: str | None = None
    environments: tuple[dict[str, str], ...] = ()

    def job_of(self, step: StepSpec) -> JobSpec:
        """What is done by a step."""
        return replace(self.terms[step.terms].job, runs=step.runs, display=step.display, label=step.name)
