"""From a plan to a pipeline that can be handed over: each step becomes a job, as ``turnout run`` would make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnout.client import ask, functions
from turnout.client.in_common import InCommon, Once
from turnout.client.preparing import Hub, Prepared, Wish, prepare
from turnout.errors import InvalidInput, TurnoutError
from turnout.home import Home
from turnout.model.ids import check_label
from turnout.model.pipeline import PipelineSpec, StepSpec
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.pipeline.plan import CALL, Plan, StepPlan, name_of, taking_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWish:
    """What to do. `steps` are the wishes for the job of each step, without its commands; `display` is how the whole is
    called where jobs are listed."""

    plan: Plan
    steps: Mapping[str, Wish]
    display: tuple[str, ...]
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    notify: str | None = None
    fail_fast: bool = False
    resume: str | None = None
    """the job of an earlier pipeline, whose results are taken over"""
    shared: str = ""
    """the directory, which all nodes see, that all of it is done in"""


@dataclass(frozen=True, slots=True)
class PreparedStep:
    plan: StepPlan
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """Lacks only what has to be brought to where it is kept."""

    wish: PipelineWish
    steps: tuple[PreparedStep, ...]

    def deliver(self, hub: Hub) -> PipelineSpec:
        """Brings the files to where they are kept; the whole specification. May be repeated."""
        place = {step.plan.name: number for number, step in enumerate(self.steps)}
        once = Once(hub)
        jobs = [step.prepared.deliver(once, once.send) for step in self.steps]
        found: dict[tuple[tuple[str, str], ...], int] = {}
        steps = []
        for each, job in zip(self.steps, jobs, strict=True):
            environment = found.setdefault(tuple(job.inherited_env.items()), len(found))
            step = _step(each.plan, replace(job, inherited_env={}), place)
            steps.append(replace(step, environment=environment))
        return PipelineSpec(
            job=_whole(self.wish, jobs[0]), steps=tuple(steps), resume=self.wish.resume,
            environments=tuple(map(dict, found)),
        )  # fmt: skip


def prepare_pipeline(wish: PipelineWish, home: Home, cwd: Path, *, remember: bool = True) -> PreparedPipeline:
    """Checks everything, then freezes `cwd`, once for all steps. Raises what `prepare` does, with the step's name."""
    common, steps = InCommon(), []
    notify = ask.notice(wish.notify)
    for step in wish.plan.steps:
        try:
            prepared = prepare(_commands(wish, step), home, cwd, remember=remember, common=common)
            _check_function(step, prepared)
        except TurnoutError as error:
            raise type(error)(f"step {step.name}: {error.message}", hint=error.hint) from error
        is_own = wish.steps[step.name].notify is not None
        notify = notify if is_own else prepared.spec.notify
        spec = replace(
            prepared.spec, runs=_runs(step, prepared.spec), display=_display(step, prepared.spec),
            notify=prepared.spec.notify if is_own else None,
        )  # fmt: skip
        steps.append(PreparedStep(step, replace(prepared, spec=spec)))
    return PreparedPipeline(replace(wish, notify=notify), tuple(steps))


def _commands(wish: PipelineWish, step: StepPlan) -> Wish:
    asked = replace(wish.steps[step.name], name=step.name, tags={**wish.tags, **wish.steps[step.name].tags})
    if asked.notify is None:
        asked = replace(asked, notify=wish.notify)
    if asked.also and asked.search is None:
        raise InvalidInput("only a step with a search may have several targets", hint="write one: `target: NAME`")
    if wish.shared:
        asked = replace(asked, shared=wish.shared, snapshot=False)
    if asked.search is not None and len(step.runs) > 1:
        hint = "let the search vary what `matrix:` or `each:` does, or make it several steps"
        raise InvalidInput(f"a search has one command, and this has {len(step.runs)}", hint=hint)
    if asked.search is not None and step.runs:
        return replace(asked, command=taking_arguments(step.runs[0].argv))
    return replace(asked, several=tuple(run.argv for run in step.runs) or (_stand_in(step),))


def _stand_in(step: StepPlan) -> tuple[str, ...]:
    """For the runs of a late step: a command of their kind."""
    call = functions.call_of(step)
    return ("true",) if call is None else (CALL, call.path)


def _check_function(step: StepPlan, prepared: Prepared) -> None:
    spec = prepared.spec
    call = functions.call_of(step, spec.search.space if spec.search is not None else ())
    if call is not None and prepared.snapshot is not None and "PYTHONPATH" not in spec.env:
        is_here = prepared.target is not None and prepared.target.service == "local"
        python = spec.display[0] if is_here and spec.setup is None and spec.container is None else None
        functions.check(call, prepared.snapshot, spec.working_dir, python)


def _runs(step: StepPlan, spec: JobSpec) -> tuple[RunSpec, ...]:
    """Those of the job, told apart as the plan does."""
    return tuple(
        replace(
            run, params={**run.params, **plan.values}, label=check_label(name_of(step.name, plan), "run name"),
            outputs=plan.outputs,
        )
        for plan, run in zip(step.runs, spec.runs, strict=False)
    )  # fmt: skip


def _display(step: StepPlan, spec: JobSpec) -> tuple[str, ...]:
    if spec.display[1:2] == (CALL,):  # a run of a script is shown with the first word before its arguments
        return spec.display
    return step.runs[0].argv if len(step.runs) == 1 else (step.name,)


def _step(plan: StepPlan, job: JobSpec, place: Mapping[str, int]) -> StepSpec:
    needs = tuple(sorted({place[name] for name in plan.needs}))
    run_needs = tuple(tuple((place[each.step], each.run) for each in dict.fromkeys(run.needs)) for run in plan.runs)
    late: dict[str, Any] | None = plan.late.plain() if plan.late is not None else None
    return StepSpec(
        name=plan.name, job=job, needs=needs, run_needs=run_needs if any(run_needs) else (), late=late,
        bears_failures=plan.bears_failures,
    )  # fmt: skip


def _whole(wish: PipelineWish, first: JobSpec) -> JobSpec:
    """What is to be told when it is over is told in the environment that runs have."""
    return JobSpec(
        kind=CommandKind.PIPELINE, display=wish.display, runs=(), target=first.target, place=first.place,
        experiment=first.experiment, workspace=first.workspace, label=wish.name, tags=dict(wish.tags),
        notify=wish.notify, before=first.before, before_files=first.before_files, before_bytes=first.before_bytes,
        git=first.git, fail_fast=wish.fail_fast, shared=wish.shared,
        inherited_env=first.inherited_env if wish.notify is not None else {},
    )  # fmt: skip
