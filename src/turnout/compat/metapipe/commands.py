"""What a parsed file gives: a template for each of its commands, which comes to commands when its files are known."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnout.compat.metapipe.needs import before, jobs_of
from turnout.errors import InvalidInput
from turnout.pipeline.plan import Left, Plan, RunPlan, StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`script` is what is executed; of `outputs`, some may be patterns."""

    alias: str
    script: str
    depends_on: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def eval(self) -> str:
        """The text of its script."""
        return self.script


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTemplate:
    """A line of ``[COMMANDS]``. `depends_on` are the templates that it reads from. It has `commands`, or its files are
    known only when those are complete; then `expand` makes them."""

    alias: str
    plan: StepPlan
    depends_on: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()

    @property
    def is_late(self) -> bool:
        return self.plan.is_late

    def expand(self, left: Mapping[str, Sequence[Left]]) -> tuple[Command, ...]:
        """`left` is what the jobs of each template have left that it depends on. ValueError when that does not do."""
        if self.plan.late is None:
            return self.commands
        try:
            return tuple(_command(run, ()) for run in self.plan.late.make(left).runs)
        except InvalidInput as error:
            raise ValueError(in_words(error)) from error

    def eval(self) -> list[Command]:
        """Its commands. ValueError when they are not known yet."""
        if self.is_late:
            after = ", ".join(self.depends_on)
            raise ValueError(f"the files of command {self.alias} are known when those of {after} are there")
        return list(self.commands)


def templates_of(plan: Plan) -> list[CommandTemplate]:
    """In an order in which each comes after those it depends on."""
    jobs = jobs_of(plan)
    return [
        CommandTemplate(alias=step.name, plan=step, depends_on=_steps(step), commands=_commands(step, jobs))
        for step in plan.steps
    ]


def _steps(step: StepPlan) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*step.needs, *step.follows, *(place.step for run in step.runs for place in run.needs)]))


def _commands(step: StepPlan, jobs: Mapping[str, Sequence[str]]) -> tuple[Command, ...]:
    return tuple(_command(run, tuple(before(step, number, jobs))) for number, run in enumerate(step.runs))


def _command(run: RunPlan, after: tuple[str, ...]) -> Command:
    return Command(alias=run.label, script=run.argv[-1], depends_on=after, inputs=run.inputs, outputs=run.outputs)


def in_words(error: InvalidInput) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def files_matching(pattern: str, directory: str = ".") -> list[str]:
    """The files that there are, relative to the directory, sorted by name."""
    found = glob.glob(pattern, root_dir=directory, recursive=True)
    return sorted(path for path in found if os.path.isfile(os.path.join(directory, path)))
