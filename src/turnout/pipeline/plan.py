"""What a pipeline comes to, in whatever language it was written.

A *step* becomes a job, with a run for each thing it is done to. A run waits for runs of other steps (`RunPlan.needs`),
or for all runs of a step (`StepPlan.needs`). What a step is done to may only be known when others are over, because
they decide which files there will be: such a step is *late*. It has no runs yet, but a `late` that makes them then.
Or its runs are known, but not whether each is to be done, or which files it will find: then they have a *gate*, at
which `late` looks at each when all that it waits for is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from turnout.errors import InvalidInput
from turnout.model.pipeline import MOST_STEPS, Gate
from turnout.wire.long_words import CALL as CALL

Value = str | int | float | bool

#: What executes the text of a step.
SHELL = ("bash", "-euo", "pipefail", "-c")
COMPLETED = "completed"


class Place(NamedTuple):
    """A run: which one of its step, from 0."""

    step: str
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run. `label` tells it from others of its step, `values` are what it is done to, by name. Paths are relative
    to where it begins; of `outputs`, which it has to leave behind, some may be patterns. Without an `argv` it is known
    at its gate."""

    label: str
    argv: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    needs: tuple[Place, ...] = ()


def name_of(step: str, run: RunPlan) -> str:
    """What its run is called: as its step, unless its label says so itself."""
    return run.label if run.label.startswith(f"{step}.") else step


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a run that is over has left: the files that match its outputs, in their order, each once. One that did not
    complete has left none. One that is not over will leave its `files`, and what matches the patterns in `unsure`.

    `came_to` is there for steps with a condition: its last metrics, by their names and by ``metrics.NAME``,
    ``params.NAME``, ``state`` and ``exit_code``. A `state` is one of runs, or SKIPPED."""

    label: str
    values: Mapping[str, Value] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    state: str = COMPLETED
    came_to: Mapping[str, object] = field(default_factory=dict)


class Skipped(Exception):
    """A run is not to be done, or a step has none that could be. Says why."""


def taking_arguments(argv: tuple[str, ...]) -> tuple[str, ...]:
    """What gets further arguments behind it, as the runs of a search do: those of a text go to its last command, unless
    it says itself where they go."""
    if argv[:-1] != SHELL or "<<" in argv[-1]:
        return argv
    text = argv[-1].rstrip()
    says_where = any(sign in text for sign in ("$@", "$*", "$1", "${1"))
    return *SHELL, text if says_where else f'{text} "$@"', SHELL[0]


Look = Callable[[Mapping[str, Value]], tuple[str, ...]]
"""Gives the argv of a run with such values; empty if it has one already. Raises what `Late` does."""


class Late(Protocol):
    """Makes the runs of a late step, and looks at runs at their gates. It travels to who does that, and is written down
    until then. What it raises: InvalidInput when what is left makes no sense, with what to change; Skipped."""

    @property
    def has_condition(self) -> bool:
        """Whether it wants to be told, at a gate, what the runs of other steps came to."""

    @property
    def fills(self) -> bool:
        """Whether it wants to be told, at a gate, which files they left."""

    def plain(self) -> dict[str, Any]:
        """As JSON can have it, with its ``language``; `turnout.pipeline.languages` makes it of that again."""

    def make(self, left: Mapping[str, Sequence[Left]]) -> StepPlan:
        """The step with its runs, and what they need of the steps of which `left` tells: those that it needed or
        followed, each with its runs in their order."""

    def at_gate(self, left: Mapping[str, Sequence[Left]]) -> Look:
        """For runs that have all waited for the same: that left `left`, by its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step. `needs` are the steps all of whose runs each of its runs waits for, besides the runs that it names
    itself. It has `runs`, or is late: then these are made when all that it needs is over, and the runs of the steps
    that it `follows` are known. `when` is the condition, if that is asked at the gate. `reads` are the files of the
    project that it was found to read. Of what others left that matches `each`, a run reads its ``file`` and no more."""

    name: str
    runs: tuple[RunPlan, ...] = ()
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    late: Late | None = None
    gate: Gate = Gate.NONE
    reads: tuple[str, ...] = ()
    when: str | None = None
    each: str = ""

    @property
    def is_late(self) -> bool:
        return not self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in an order in which each comes after those it needs. `notes` are what was understood otherwise than it may
    have been meant, to be said before anything begins."""

    steps: tuple[StepPlan, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.steps) > MOST_STEPS:
            what = f"there are {len(self.steps):,} steps, and a pipeline has up to {MOST_STEPS:,}"
            raise InvalidInput(what, hint="split it, or let a step have several runs")
