"""What is known of a run, and what can be told of it: the words of `schedule.machine`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple

from turnout.model.event import EventName
from turnout.model.state import ON_NODE, TERMINAL, Reason, RunState

Data = dict[str, object]


class Progress(IntEnum):
    """How far the current attempt is; a fact at or below it has been seen before."""

    CLAIMED = 0
    STAGED = 1
    SET_UP = 2
    RUNNING = 3
    ENDED = 4
    CAPTURED = 5


class Cause(StrEnum):
    """How a command ended, as its node saw it."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OOM = "oom"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    BUDGET = "budget"
    PREEMPTED = "preempted"
    SPAWN_FAILED = "spawn_failed"
    INFRA = "infra"

    @property
    def order(self) -> str:
        """What a node is told that has to end it so."""
        return Cause.STOPPED if self is Cause.BUDGET else self


class Stage(IntEnum):
    """Of a parent: whether a sampler proposes its children, and may propose more."""

    NONE = 0  # they were planned when it was submitted
    OPEN = 1
    CLOSED = 2


class RunRecord(NamedTuple):
    """What the machine needs to know of a run; the mutable part of its row.

    A parent (`children_planned` > 0) is on a node only while its parent script runs there; its children are.
    `remaining` of them are still to be made, `open_children` are made and not ended. Of a search (`stage`), `remaining`
    are those that were proposed, and it is not over while it is OPEN. `good_children` completed, or were ended early on
    purpose. `cancel` is the end that was
    asked for: of the run, or (PREEMPTED) of its current attempt. One that is `blocked` waits for so many others to be
    over before it enters the queue, and with a `gate` then for somebody to look at it; others may wait for one of a
    `step`. A tuple, because every step of the machine
    makes a new one: ten for a plain run.
    """

    id: int
    state: RunState
    priority: int = 0
    attempt: int = 0
    progress: int = 0
    reason: Reason | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    cancel: Cause | None = None
    failures_left: int = 0
    losses_left: int = 3
    parent: int | None = None
    children_planned: int = 0
    remaining: int = 0
    open_children: int = 0
    failed_children: int = 0
    good_children: int = 0
    stage: int = 0
    node: str | None = None
    agent: int | None = None
    queued: float | None = None
    started: float | None = None
    ended: float | None = None
    event_seq: int = 0
    blocked: int = 0
    gate: int = 0
    step: int = 0

    @property
    def is_parent(self) -> bool:
        return self.children_planned > 0

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_cancelled(self) -> bool:
        """Whether someone wants it ended for good."""
        return self.cancel is not None and self.cancel is not Cause.PREEMPTED

    @property
    def makes_no_more(self) -> bool:
        """Of a parent: whether it was cancelled, or its script failed on some node."""
        return self.is_cancelled or (self.cause is not None and not self.on_node)

    @property
    def on_node(self) -> bool:
        return self.state in ON_NODE and (not self.is_parent or self.agent is not None)

    def is_attempt(self, attempt: int) -> bool:
        """Whether a node has it for this attempt."""
        return self.on_node and self.attempt == attempt


@dataclass(frozen=True, slots=True)
class Staged:
    data: Data


@dataclass(frozen=True, slots=True)
class SetUp:
    """What its setup installs is on the node."""

    data: Data


@dataclass(frozen=True, slots=True)
class Running:
    data: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    data: Data


@dataclass(frozen=True, slots=True)
class Captured:
    data: Data


@dataclass(frozen=True, slots=True)
class Returned:
    """The node gives a grant back that it never started."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The attempt's node is gone or silent beyond its lease."""

    reason: Reason = Reason.NODE_LOST
    message: str = ""


NodeFact = Staged | SetUp | Running | Ended | Captured | Returned | Lost


@dataclass(frozen=True, slots=True)
class Step:
    record: RunRecord
    events: tuple[tuple[EventName, Data], ...]


class Refusal(Enum):
    DUPLICATE = "duplicate"
    FENCED = "fenced"


DUPLICATE, FENCED = Refusal.DUPLICATE, Refusal.FENCED
