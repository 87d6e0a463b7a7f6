"""Is this pipeline sound, beside what is asked of every job? Before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from turnout.errors import InvalidInput
from turnout.model.ids import check_label
from turnout.model.pipeline import MOST_STEPS, PipelineSpec, StepSpec
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.spec.check import MOST_RUNS, check

_BY_A_CLIENT = "submit it with `turnout pipeline`"
_STAND_IN = (RunSpec(argv=("true",)),)


def check_pipeline(spec: PipelineSpec) -> None:
    """The pipeline alone; `jobs_of` its steps are to be checked by themselves. Raises InvalidInput."""
    _check_whole(spec)
    _check_terms(spec)
    counts = [_outer_runs(spec, step) for step in spec.steps]
    if len(spec.steps) > MOST_STEPS or sum(counts) > MOST_RUNS:
        hint = "split it, or let a step have several runs: matrix"
        raise InvalidInput(f"a pipeline has up to {MOST_STEPS} steps, and {MOST_RUNS} runs", hint=hint)
    for place, step in enumerate(spec.steps):
        check_label(step.name, "step")
        if (step.late is None) != (bool(step.runs) and not step.gate):
            what = f"step {step.name!r} has to say what its runs are, or what makes them, or looks at them, later"
            raise InvalidInput(what, hint=_BY_A_CLIENT)
        if step.runs and step.follows:
            raise InvalidInput(f"step {step.name!r} has runs, and needs none of others for that", hint=_BY_A_CLIENT)
        if not _waits_for_what_is_before(step, counts, place):
            raise InvalidInput(f"step {step.name!r} waits for what is not before it", hint="put it behind that")
        if any(len(set(needs)) < len(needs) for needs in step.run_needs):
            raise InvalidInput(f"step {step.name!r} waits for a run twice", hint=_BY_A_CLIENT)


def jobs_of(spec: PipelineSpec) -> list[JobSpec]:
    """The jobs of its steps, to be checked: those with the same terms as one, with all that their steps are."""
    runs: list[list[RunSpec]] = [[] for _ in spec.terms]
    display: list[list[str]] = [[] for _ in spec.terms]
    for step in spec.steps:
        runs[step.terms] += step.runs
        display[step.terms] += step.display
    return [
        replace(terms.job, runs=tuple(mine) or _STAND_IN, display=tuple(words))  # those of late steps are not known
        for terms, mine, words in zip(spec.terms, runs, display, strict=True)
    ]


def _check_whole(spec: PipelineSpec) -> None:
    job = spec.job
    if job.kind is not CommandKind.PIPELINE or job.runs or not spec.steps:
        raise InvalidInput("a pipeline has steps, and no runs of its own", hint=_BY_A_CLIENT)
    if job.nodes is not None or job.direct or job.search is not None or job.repeat != 1:
        raise InvalidInput("a pipeline has no nodes, and is no search: its steps may be", hint=_BY_A_CLIENT)
    check(replace(job, kind=CommandKind.COMMAND, runs=_STAND_IN))
    if len({step.name for step in spec.steps}) < len(spec.steps):
        raise InvalidInput("two steps have one name", hint="give each a name of its own")


def _check_terms(spec: PipelineSpec) -> None:
    steps_of = Counter(step.terms for step in spec.steps)
    if steps_of.keys() != set(range(len(spec.terms))):
        raise InvalidInput("a step has terms that are not there, or no step has some", hint=_BY_A_CLIENT)
    inherited = {each.environment for each in spec.terms} - {None}
    if inherited != set(range(len(spec.environments))):
        raise InvalidInput("an environment is not there, or inherited by no step", hint=_BY_A_CLIENT)
    for number, terms in enumerate(spec.terms):
        if terms.job.nodes is not None:
            raise InvalidInput("a step has no nodes of its own", hint="leave `nodes` out")
        if (terms.job.search is not None or terms.job.repeat > 1) and steps_of[number] > 1:
            raise InvalidInput("two steps share a search, or a repeat", hint=_BY_A_CLIENT)


def _outer_runs(spec: PipelineSpec, step: StepSpec) -> int:
    """How many runs others may wait for, one by one."""
    job = spec.terms[step.terms].job
    return 1 + len(job.also) if job.search is not None and step.runs else len(step.runs)


def _waits_for_what_is_before(step: StepSpec, counts: Sequence[int], place: int) -> bool:
    if not all(0 <= on < place for on in (*step.needs, *step.follows)) or len(step.run_needs) not in (
        0,
        len(step.runs),
    ):
        return False
    return all(0 <= on < place and 0 <= run < counts[on] for on, run in chain.from_iterable(step.run_needs))
