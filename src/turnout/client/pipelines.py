"""From a plan to a pipeline that can be handed over: each step becomes a job, as ``turnout run`` would make it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnout.client import ask, functions
from turnout.client.in_common import InCommon, Once
from turnout.client.preparing import Hub, Prepared, Wish, prepare
from turnout.client.search_file import JOB_KEYS
from turnout.errors import InvalidInput, TurnoutError, about
from turnout.home import Home
from turnout.model.acyclic import acyclic
from turnout.model.ids import check_label
from turnout.model.pipeline import PipelineSpec, StepSpec, Terms
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.pipeline.native.late import LateStep
from turnout.pipeline.plan import CALL, Plan, RunPlan, StepPlan, name_of, taking_arguments


def by_its_name(step: str, key: str | None) -> str:
    return f"step {step}"


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
    where: Callable[[str, str | None], str] = by_its_name
    """how errors call a step, or one of its keys"""


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """`terms` is which of those of its pipeline its job has."""

    plan: StepPlan
    terms: int
    runs: tuple[RunSpec, ...]
    display: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """Lacks only what has to be brought to where it is kept."""

    wish: PipelineWish
    terms: tuple[Prepared, ...]
    steps: tuple[PreparedStep, ...]

    def deliver(self, hub: Hub) -> PipelineSpec:
        """Brings the files to where they are kept; the whole specification. May be repeated."""
        once = Once(hub)
        jobs = [each.deliver(once, once.send) for each in self.terms]
        found: dict[tuple[tuple[str, str], ...], int] = {}
        terms = []
        for job in jobs:
            environment = found.setdefault(tuple(job.inherited_env.items()), len(found))
            terms.append(Terms(job=replace(job, inherited_env={}, runs=(), display=()), environment=environment))
        place = {step.plan.name: number for number, step in enumerate(self.steps)}
        sought = {step.plan.name for step in self.steps if jobs[step.terms].search is not None}
        return PipelineSpec(
            job=_whole(self.wish, jobs[0]), terms=tuple(terms),
            steps=tuple(_step(each, place, sought) for each in self.steps),
            resume=self.wish.resume, environments=tuple(map(dict, found)),
        )  # fmt: skip


def prepare_pipeline(wish: PipelineWish, home: Home, cwd: Path, *, remember: bool = True) -> PreparedPipeline:
    """Checks everything, then freezes `cwd`, once for all steps. Raises what `prepare` does, with the step's name."""
    with acyclic():
        return _prepare(wish, home, cwd, remember=remember)


def _prepare(wish: PipelineWish, home: Home, cwd: Path, *, remember: bool) -> PreparedPipeline:
    common = InCommon()

    def made(steps: Sequence[StepPlan]) -> Prepared:
        prepared = prepare(_commands(wish, steps), home, cwd, remember=remember, common=common)
        for step in steps:
            with _naming(wish, step), about("function"):
                _check_function(step, prepared)
        return prepared

    terms: list[Prepared] = []
    found: dict[str, PreparedStep] = {}
    notify = ask.notice(wish.notify)
    for steps in _in_groups(wish):
        try:
            with _naming(wish, *steps):
                prepared = made(steps)
        except TurnoutError:
            for step in steps:
                with _naming(wish, step):
                    made([step])
            raise
        is_own = wish.steps[steps[0].name].notify is not None
        notify = notify if is_own else prepared.spec.notify
        found |= {
            step.name: _prepared(step, len(terms), prepared.spec, runs) for step, runs in _shares(steps, prepared)
        }
        spec = prepared.spec if is_own else replace(prepared.spec, notify=None)
        terms.append(replace(prepared, spec=spec))
    return PreparedPipeline(
        replace(wish, notify=notify), tuple(terms), tuple(found[step.name] for step in wish.plan.steps)
    )


@contextmanager
def _naming(wish: PipelineWish, *steps: StepPlan) -> Iterator[None]:
    """What is raised here says of which step it is, and which of its keys, if there is but one."""
    try:
        yield
    except TurnoutError as error:
        if len(steps) > 1 or error.key == "":
            raise
        option, _, rest = error.message.partition(" ")  # what is checked for the command line begins with its option
        is_option = option.startswith("--") and option[2:] in JOB_KEYS
        key, what = (option[2:], rest) if is_option else (error.key, error.message)
        with about(""):
            raise type(error)(f"{wish.where(steps[0].name, key)}: {what}", hint=error.hint) from error


def _in_groups(wish: PipelineWish) -> Iterable[Sequence[StepPlan]]:
    """Steps whose jobs differ in nothing but their commands are prepared together: there may be very many."""
    groups: dict[tuple[object, ...], list[StepPlan]] = {}
    for step in wish.plan.steps:
        asked = wish.steps[step.name]
        is_call = _stand_in(step)[0] == CALL
        groups.setdefault((id(asked), is_call, step.name if asked.search is not None else ""), []).append(step)
    return groups.values()


def _shares(steps: Sequence[StepPlan], prepared: Prepared) -> Iterator[tuple[StepPlan, Sequence[RunSpec]]]:
    """Each step with those of the runs that are its own; one stands in for those of a step whose commands are known
    later."""
    at = 0
    for step in steps:
        count = len(_known(step)) or 1
        yield step, prepared.spec.runs[at : at + count]
        at += count


def _commands(wish: PipelineWish, steps: Sequence[StepPlan]) -> Wish:
    asked = wish.steps[steps[0].name]
    asked = replace(asked, is_step=True, tags={**wish.tags, **asked.tags})
    if asked.notify is None:
        asked = replace(asked, notify=wish.notify)
    if asked.also and asked.search is None:
        with about("target"):
            raise InvalidInput("only a step with a search may have several targets", hint="write one: `target: NAME`")
    if wish.shared:
        asked = replace(asked, shared=wish.shared, snapshot=False)
    count = sum(len(step.runs) for step in steps)
    if asked.search is not None and count > 1:
        hint = "let the search vary what `matrix:` or `each:` does, or make it several steps"
        with about("search"):
            raise InvalidInput(f"a search has one command, and this has {count}", hint=hint)
    commands = [argv for step in steps for argv in ([run.argv for run in _known(step)] or [_stand_in(step)])]
    if asked.search is not None and _known(steps[0]):
        return replace(asked, command=taking_arguments(commands[0]))
    return replace(asked, several=tuple(commands))


def _known(step: StepPlan) -> Sequence[RunPlan]:
    """The runs whose commands are known: all, or none."""
    return step.runs if step.runs and step.runs[0].argv else ()


def _stand_in(step: StepPlan) -> tuple[str, ...]:
    """A command of the kind that its runs have, also where they are known later."""
    if _known(step):
        return step.runs[0].argv
    call = functions.call_of(step)
    if call is not None:
        return CALL, call.path
    return (step.late.words if isinstance(step.late, LateStep) else ()) or ("true",)


def _check_function(step: StepPlan, prepared: Prepared) -> None:
    spec = prepared.spec
    call = functions.call_of(step, spec.search.space if spec.search is not None else ())
    if call is not None and prepared.snapshot is not None and "PYTHONPATH" not in spec.env:
        is_here = prepared.target is not None and prepared.target.service == "local"
        python = spec.display[0] if is_here and spec.setup is None and spec.container is None else None
        functions.check(call, prepared.snapshot, spec.working_dir, python)


def _prepared(step: StepPlan, terms: int, spec: JobSpec, runs: Sequence[RunSpec]) -> PreparedStep:
    """Its runs are told apart as the plan does. Where their commands are known later, one stands for all."""
    alike = runs if _known(step) else [*runs] * len(step.runs)
    named = tuple(
        RunSpec(
            argv=run.argv, params={**run.params, **plan.values}, outputs=plan.outputs,
            label=check_label(name_of(step.name, plan), "run name"),
        )
        for plan, run in zip(step.runs, alike, strict=True)
    )  # fmt: skip
    return PreparedStep(_knowing(step, runs), terms, named, _display(step, spec))


def _knowing(step: StepPlan, runs: Sequence[RunSpec]) -> StepPlan:
    """With what its command begins with where it is executed: of a late step, by what stands for its runs."""
    if not isinstance(step.late, LateStep) or not step.late.words or not runs or _known(step):
        return step
    instead = runs[0].argv[: len(runs[0].argv) - len(step.late.words) + 1]
    return step if instead == step.late.words[:1] else replace(step, late=replace(step.late, instead=instead))


def _display(step: StepPlan, spec: JobSpec) -> tuple[str, ...]:
    if spec.display[1:2] == (CALL,):  # a run of a script is shown with the first word before its arguments
        call = _stand_in(step)
        return spec.display[0], *(call if len(step.runs) < 2 else call[:2])
    return step.runs[0].argv if len(_known(step)) == 1 else (step.name,)


def _step(step: PreparedStep, place: Mapping[str, int], sought: Collection[str]) -> StepSpec:
    """What is `sought` is needed as a whole: on several targets, it has a run on each."""
    plan = step.plan
    whole = {each.step for run in plan.runs for each in run.needs if each.step in sought} if sought else set()
    needs, follows = (tuple(sorted({place[name] for name in names})) for names in ({*plan.needs, *whole}, plan.follows))
    run_needs = tuple(
        tuple((place[each.step], each.run) for each in dict.fromkeys(run.needs) if each.step not in whole)
        for run in plan.runs
    )
    late: dict[str, Any] | None = plan.late.plain() if plan.late is not None else None
    return StepSpec(
        name=plan.name, terms=step.terms, runs=step.runs, display=step.display, needs=needs,
        run_needs=run_needs if any(run_needs) else (), follows=follows, late=late, gate=plan.gate,
        each=plan.each,
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
