"""What people chain into pipelines, how its late steps are made, and what people do to a pipeline while it goes on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from turnout.model.ids import parse_job_name
from turnout.model.pipeline import SKIPPED, Gate, PipelineSpec, StepSpec, Terms
from turnout.model.spec import CommandKind, JobSpec, Resources, Retry, RunSpec
from turnout.pipeline.plan import COMPLETED, Left, Look, Place, RunPlan, Skipped, StepPlan
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.link import Line
from turnout.testing.simulator.world import LEASE, Process

LANGUAGE = "simulated"
OUTPUTS = ("left/*",)
#: Fates of a run's attempts, in turn. What is bare only matters where something has to be left.
_FATES = ("ok",) * 14 + ("fail ok", "bare ok", "fail", "bare", "signal")
_RETRIES = (Retry(failures=1), Retry(failures=1), Retry(), Retry(failures=0, losses=1))


@dataclass(frozen=True, slots=True)
class Later:
    """Makes `own` runs, and one for each run before it; `most`: for no more than so many of these. They have the
    `fates` in turn, and each waits for all that is before it, or `singly` for the one that it is for. At their gates:
    `when` something that they waited for is ``bad``, or all ``good``; with `fills`, their fate depends on how many are.
    """

    fates: Sequence[str]
    own: int
    most: int
    outputs: Sequence[str]
    when: str
    singly: bool
    fills: bool

    @property
    def has_condition(self) -> bool:
        return bool(self.when)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Later:
        """What `plain` gave."""
        return cls(**{name: value for name, value in plain.items() if name != "language"})

    def plain(self) -> dict[str, Any]:
        return {"language": LANGUAGE, **asdict(self), "fates": list(self.fates), "outputs": list(self.outputs)}

    def make(self, left: Mapping[str, Sequence[Left]]) -> StepPlan:
        places = [Place(step, number) for step in sorted(left) for number, _ in enumerate(left[step])]
        values: list[dict[str, Any]] = [{} for _ in range(self.own)]
        values += [{"of": f"{place.step}:{place.run}"} for place in places[: self.most]]
        runs = tuple(
            RunPlan(
                label=f"late{number}",
                argv=() if self.fills else self._fate(number),
                values={**each, **_files(left, places, number - self.own)},
                outputs=tuple(self.outputs),
                needs=(places[number - self.own],) if self.singly and number >= self.own else (),
            )
            for number, each in enumerate(values)
        )
        return StepPlan(name="", runs=runs, needs=() if self.singly else tuple(sorted(left)))

    def at_gate(self, left: Mapping[str, Sequence[Left]]) -> Look:
        return lambda values: self._look(left)

    def _look(self, left: Mapping[str, Sequence[Left]]) -> tuple[str, ...]:
        states = [run.state for runs in left.values() for run in runs]
        if not self.is_done(states):
            raise Skipped(f"not all was {self.when}")
        if self.when != "bad" and any(all(run.state == SKIPPED for run in runs) for runs in left.values()):
            raise Skipped("all was skipped")
        return self._fate(states.count(COMPLETED)) if self.fills else ()

    def is_done(self, states: Sequence[str]) -> bool:
        """After such ends of what it waited for."""
        return not self.when or (self.when == "bad") is any(state != COMPLETED for state in states)

    def _fate(self, number: int) -> tuple[str, ...]:
        return tuple(self.fates[number % len(self.fates)].split())


def _files(left: Mapping[str, Sequence[Left]], places: Sequence[Place], number: int) -> dict[str, str]:
    found = left[places[number].step][places[number].run].files if number >= 0 else ()
    return {"file": found[0]} if found else {}


# --- what is chosen ---------------------------------------------------------------------------------------------------


def choose_pipeline(rng: random.Random, key: str, targets: list[str], *, is_plain: bool = False) -> PipelineSpec:
    """Chains, fans, diamonds, and what is between; more than half have steps that are late. A plain one
    has none with nodes of its own."""
    has_late = rng.random() < 0.6
    steps: list[StepSpec] = []
    jobs: list[JobSpec] = []
    for number in range(rng.choice((2, 3, 3, 4, 5, 6))):
        is_late = has_late and rng.random() < 0.5
        step, job = _choose_step(rng, f"s{number}", jobs, targets, is_late=is_late, is_plain=is_plain)
        steps.append(step)
        jobs.append(job)
    whole = JobSpec(kind=CommandKind.PIPELINE, display=(key,), runs=(), fail_fast=rng.random() < 0.2)
    terms = tuple(Terms(job=replace(job, runs=(), display=())) for job in jobs)
    return PipelineSpec(job=whole, terms=terms, steps=tuple(steps))


def _choose_step(
    rng: random.Random, name: str, before: Sequence[JobSpec], targets: list[str], *, is_late: bool, is_plain: bool
) -> tuple[StepSpec, JobSpec]:
    """The step and its job, behind those of the steps before it."""
    outputs = OUTPUTS if rng.random() < 0.7 else ()
    fates = [rng.choice(_FATES) for _ in range(rng.choice((1, 2, 3)))]
    late, gate = None, Gate.NONE
    if is_late or (before and rng.random() < 0.3):
        late = _choose_late(rng, fates, outputs)
        chances = (0.0, 0.2, 0.8) if late.when else (0.4, 0.4, 0.2)
        gate = Gate(rng.choices((0, 1, 2), chances)[0]) if is_late else Gate(rng.choices((1, 2), chances[1:])[0])
        late = late if gate else replace(late, when="", fills=False)
    is_filled = late is not None and late.fills
    argvs = [(name,) if is_filled else tuple(fate.split()) for fate in fates]
    runs = () if is_late else tuple(RunSpec(argv=argv, outputs=outputs) for argv in argvs)
    job = _choose_job(rng, name, runs, targets)
    if is_plain or gate:
        job = replace(job, nodes=None, total=None, repeat=1)
    needs = _choose_needs(rng, before, job)
    if is_late:
        follows = tuple(at for at in needs.get("needs", ()) if rng.random() < 0.5)
        needs = {"needs": tuple(at for at in needs.get("needs", ()) if at not in follows), "follows": follows}
    step = StepSpec(
        name=name, terms=len(before), runs=runs, display=job.display, late=late.plain() if late is not None else None,
        gate=gate, **needs,
    )  # fmt: skip
    return step, job


def _choose_late(rng: random.Random, fates: Sequence[str], outputs: Sequence[str]) -> Later:
    own, most = rng.choice((0, 0, 1, 2)), rng.choice((9, 9, 2, 0))
    when, singly, fills = rng.choice(("", "", "good", "bad")), rng.random() < 0.5, rng.random() < 0.5
    return Later(fates, own, most, outputs, when, singly, fills)


def _choose_job(rng: random.Random, name: str, runs: tuple[RunSpec, ...], targets: list[str]) -> JobSpec:
    repeat, nodes = rng.choice((1, 1, 2, 3)), rng.choice((None, None, None, 2))
    if len(runs) != 1 or runs[0].outputs:
        repeat, nodes = 1, None
    return JobSpec(
        kind=CommandKind.COMMAND, display=(name,), label=name, runs=runs, repeat=repeat, nodes=nodes,
        total=rng.choice((None, 3)) if nodes is not None and repeat == 1 else None, target=rng.choice(targets),
        retry=rng.choice(_RETRIES), priority=rng.choice((0, 0, 0, 5)), concurrent=rng.choice((None, None, 1)),
        resources=Resources(cpus=rng.choice((None, None, 1, 2))),
    )  # fmt: skip


def _choose_needs(rng: random.Random, before: Sequence[JobSpec], job: JobSpec) -> dict[str, Any]:
    """Of the steps before it: some as a whole, and some runs of others for each of its own. Parents that share their
    children wait for the same: else one could make all of them before another may."""
    if not before or rng.random() < 0.1:
        return {}
    some = rng.sample(range(len(before)), min(len(before), rng.choice((1, 1, 2))))
    known = [at for at in some if before[at].outer_runs]
    if not job.outer_runs or job.nodes is not None or not known or rng.random() < 0.5:
        return {"needs": tuple(some)}
    places = [[(at, rng.randrange(before[at].outer_runs)) for at in known] for _ in range(job.outer_runs)]
    whole = tuple(at for at in some if at not in known)
    return {"needs": whole, "run_needs": tuple(tuple(sorted(each)) for each in places)}


# --- what is done to it -----------------------------------------------------------------------------------------------


class Planner:
    """Cancels a pipeline that was submitted, or some of its runs, or restarts these; or leaves it alone. One who
    `resumes` takes it up again, whatever state it is in."""

    def __init__(self, person: Process, hub: Hub, line: Line, *, resumes: bool = False) -> None:
        self._person = person
        self._world = person.world
        self._hub = hub
        self._line = line
        self._resumes = resumes
        self.resumed: set[int] = set()
        """of which that was asked for"""
        self.ended: dict[int, float] = {}
        """when it was answered that all of a pipeline is cancelled"""
        self.unwanted: set[int] = set()
        """of which that was asked for"""

    def tend(self, answer: Mapping[str, Any]) -> None:
        if self._world.rng.random() < 0.15:
            job = parse_job_name(str(answer["job"])) or 0
            self._person.after(self._world.rng.choice((0.0, 0.5, 1.5, 4.0)), partial(self._cancel, job))
        for number in range(self._world.rng.choice((0, 1, 2, 3)) if self._resumes else 0):
            job = parse_job_name(str(answer["job"])) or 0
            ask = partial(self._resume, f"resume{job}-{number}-{self._world.now}", job)
            self._person.after(self._world.rng.choice((0.5, 2.0, 5.0, 9.0, 14.0)), ask)

    def choose_runs(self, answer: Mapping[str, Any]) -> list[str]:
        """All of some step, or one of it."""
        runs = [step["runs"] for step in answer["steps"].values() if step["runs"]]
        if not runs:
            return []
        some = self._world.rng.choice(runs)
        return list(some if self._world.rng.random() < 0.5 else some[:1])

    def _cancel(self, job: int) -> None:
        self.unwanted.add(job)
        self._line.ask(
            partial(self._hub.on_cancel_all, job), timeout=LEASE,
            on_answer=partial(self._were_cancelled, job), on_trouble=lambda error: self._cancel_again(job),
        )  # fmt: skip

    def _resume(self, key: str, job: int) -> None:
        self.resumed.add(job)
        self._line.ask(
            partial(self._hub.on_resume, key, job), timeout=LEASE,
            on_answer=partial(self._was_resumed, job),
            on_trouble=lambda error: self._resume_again(key, job),
        )  # fmt: skip

    def _resume_again(self, key: str, job: int) -> None:
        self._person.after(0.2, partial(self._resume, key, job))

    def _was_resumed(self, job: int, answer: object) -> None:
        assert isinstance(answer, dict)
        self._world.note("person", "resumed", job, answer["steps"])
        self._world.sometimes("pipeline resumed" if answer["steps"] else "pipeline resumed: nothing was missing")

    def _cancel_again(self, job: int) -> None:
        self._person.after(0.2, partial(self._cancel, job))

    def _were_cancelled(self, job: int, done: object) -> None:
        self._world.note("person", "cancelled all of", job)
        self._world.sometimes("pipeline cancelled")
        self.ended.setdefault(job, self._world.clock.time())
