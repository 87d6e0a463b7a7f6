"""A pipeline that no client of ours would send is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from turnout.errors import InvalidInput
from turnout.model.pipeline import MOST_STEPS, Gate, PipelineSpec, StepSpec, Terms
from turnout.model.search import Search
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.spec.check import MOST_RUNS, check
from turnout.spec.pipelines import check_pipeline, jobs_of

RUN = RunSpec(argv=("true",))
PLAIN = JobSpec(kind=CommandKind.COMMAND, display=(), runs=())
WHOLE = JobSpec(kind=CommandKind.PIPELINE, display=("p.yaml",), runs=())
A = StepSpec(name="a", terms=0, runs=(RUN, RUN))
B = StepSpec(name="b", terms=0, runs=(RUN,), needs=(0,), run_needs=(((0, 1),),))
SEARCH = Search(space={}, sampler="random")
NO_RUN = (((0, 2),),)
SOUND = PipelineSpec(job=WHOLE, terms=(Terms(job=PLAIN),), steps=(A, B))


def test_a_sound_one() -> None:
    check_pipeline(SOUND)
    assert [len(job.runs) for job in jobs_of(SOUND)] == [3]


def test_the_job_of_a_late_step_is_looked_at_with_a_command_that_stands_for_its_own() -> None:
    late = StepSpec(name="late", terms=1, late={})
    pipeline = replace(SOUND, terms=(*SOUND.terms, *SOUND.terms), steps=(A, late))
    check_pipeline(pipeline)
    (_, job) = jobs_of(pipeline)
    assert job.runs == (RUN,)


def test_how_steps_are_shown_is_looked_at_with_their_jobs() -> None:
    (job,) = jobs_of(replace(SOUND, steps=(replace(A, display=("a\0",)), B)))
    with pytest.raises(InvalidInput, match="NUL"):
        check(job)


def terms(**fields: object) -> tuple[Terms, ...]:
    return (Terms(job=replace(PLAIN, **fields)),)  # type: ignore[arg-type]


BAD: dict[str, tuple[Callable[[PipelineSpec], PipelineSpec], str]] = {
    "nothing to do": (lambda sound: replace(sound, steps=()), "has steps"),
    "runs of its own": (lambda sound: replace(sound, job=replace(WHOLE, runs=(RUN,))), "no runs of its own"),
    "a plain job": (lambda sound: replace(sound, job=replace(WHOLE, kind=CommandKind.COMMAND)), "has steps"),
    "a name twice": (lambda sound: replace(sound, steps=(A, A)), "one name"),
    "a bad name": (lambda sound: replace(sound, steps=(replace(A, name="a b"),)), "step"),
    "terms that are not there": (lambda sound: replace(sound, steps=(replace(A, terms=1),)), "terms"),
    "terms below the first": (lambda sound: replace(sound, steps=(replace(A, terms=-1),)), "terms"),
    "terms that no step has": (lambda sound: replace(sound, terms=sound.terms * 2), "terms"),
    "a search of two steps": (lambda sound: replace(sound, terms=terms(search=SEARCH)), "share a search"),
    "a repeat of two steps": (lambda sound: replace(sound, terms=terms(repeat=2)), "share a search, or a repeat"),
    "nodes of a step": (lambda sound: replace(sound, terms=terms(nodes=2)), "no nodes"),
    "nodes of its own": (lambda sound: replace(sound, job=replace(WHOLE, nodes=5)), "no nodes"),
    "a search of its own": (lambda sound: replace(sound, job=replace(WHOLE, search=SEARCH)), "no search"),
    "a bad tag": (lambda sound: replace(sound, job=replace(WHOLE, tags={"a b": "c"})), "a b"),
    "a bad name of its own": (lambda sound: replace(sound, job=replace(WHOLE, label="a\nb")), "run name"),
    "a step that never ends": (lambda sound: replace(sound, steps=(A, replace(A, name="c", runs=()))), "or looks"),
    "nobody at its gate": (lambda sound: replace(sound, steps=(replace(A, gate=Gate.ANYHOW), B)), "or looks"),
    "somebody without a gate": (lambda sound: replace(sound, steps=(replace(A, late={}), B)), "or looks"),
    "it has runs, and follows": (
        lambda sound: replace(sound, steps=(A, replace(B, late={}, gate=Gate.IF_WELL, follows=(0,)))), "needs none",
    ),
    "it follows itself": (
        lambda sound: replace(sound, steps=(A, replace(B, late={}, runs=(), run_needs=(), follows=(1,)))),
        "not before it",
    ),
    "a run of a step that has none yet": (
        lambda sound: replace(sound, steps=(replace(A, runs=(), late={}), B)), "not before it",
    ),
    "a run that it waits for twice": (
        lambda sound: replace(sound, steps=(A, replace(B, run_needs=(((0, 1), (0, 1)),)))), "waits for a run twice",
    ),
    "an environment that nobody inherits": (lambda sound: replace(sound, environments=({},)), "an environment"),
    "an environment that is not there": (
        lambda sound: replace(sound, terms=(Terms(job=PLAIN, environment=0),)), "an environment",
    ),
    "too many runs": (
        lambda sound: replace(sound, steps=(replace(A, runs=(RUN,) * (MOST_RUNS + 1)),)), f"{MOST_RUNS} runs",
    ),
    "too many steps": (
        lambda sound: replace(sound, steps=tuple(replace(A, name=f"s{n}") for n in range(MOST_STEPS + 1))),
        f"{MOST_STEPS} steps",
    ),
    "it waits for itself": (lambda sound: replace(sound, steps=(A, replace(B, needs=(1,)))), "not before it"),
    "it waits for what comes later": (lambda sound: replace(sound, steps=(B, A)), "not before it"),
    "a run that is not there": (lambda sound: replace(sound, steps=(A, replace(B, run_needs=NO_RUN))), "not before it"),
    "fewer needs than runs": (lambda sound: replace(sound, steps=(A, replace(B, runs=(RUN, RUN)))), "not before it"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_not(what: str) -> None:
    change, told = BAD[what]
    with pytest.raises(InvalidInput) as caught:
        check_pipeline(change(SOUND))
    assert told in caught.value.message and caught.value.hint
