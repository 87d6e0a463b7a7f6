"""What a hub has on disk, in memory: rows, events, bytes; and the ledger by which one transaction changes rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turnout.model.event import EventName
from turnout.model.pipeline import Gate
from turnout.model.spec import JobSpec
from turnout.model.state import ON_NODE, TERMINAL, RunState
from turnout.plugin.sampler import Proposal
from turnout.schedule.record import Data, RunRecord, Step
from turnout.schedule.replay import PastEvent
from turnout.store.agents import Agent
from turnout.store.searches import Standing
from turnout.store.streams import Mark, StreamKey
from turnout.wire.messages import Attempt


@dataclass(frozen=True, slots=True)
class Row:
    """What never changes of a run."""

    name: str
    number: int
    child: int
    job: int
    target: str
    queue: str
    outer: int | None = None
    argv: tuple[str, ...] = ()
    params: dict[str, object] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    label: str = ""


@dataclass(slots=True)
class StepRow:
    """What a job is as a step of a pipeline: `blocked` counts the steps that it waits for, `open` its runs that are not
    over; `unmade`: these are still to be made by `late`; it was `made` if it has any of its own, and
    is `stale` if these were made of what was done again since."""

    pipeline: int
    name: str
    blocked: int
    open: int
    late: dict[str, Any] | None
    unmade: bool
    gate: Gate = Gate.NONE
    made: bool = True
    stale: bool = False


@dataclass(slots=True)
class Graph:
    """What pipelines are beside their runs: `steps` by their jobs, and who waits for whom: (needed, who needs it), of
    runs and of whole steps; for late ones, also whether that has to be over."""

    steps: dict[int, StepRow] = field(default_factory=dict)
    run_needs: set[tuple[int, int]] = field(default_factory=set)
    step_needs: set[tuple[int, int]] = field(default_factory=set)
    late_needs: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Disk:
    """All that is committed."""

    rows: dict[int, Row] = field(default_factory=dict)
    records: dict[int, RunRecord] = field(default_factory=dict)
    events: dict[int, list[PastEvent]] = field(default_factory=dict)
    jobs: dict[int, JobSpec] = field(default_factory=dict)
    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    marks: dict[StreamKey, Mark] = field(default_factory=dict)
    output: dict[Attempt, bytearray] = field(default_factory=dict)
    points: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """of each run, in the order they came: attempt and number"""
    scripts: set[tuple[int, int]] = field(default_factory=set)
    """parents, and the agents where their script has run"""
    made: dict[int, int] = field(default_factory=dict)
    """of jobs whose parents share their children, how many there are"""
    searches: dict[int, Standing] = field(default_factory=dict)
    """by their jobs"""
    proposals: dict[int, list[Proposal]] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    after: dict[int, str] = field(default_factory=dict)
    """of runs, the manifest of what they left"""
    agents: dict[int, Agent] = field(default_factory=dict)
    tokens: dict[int, str] = field(default_factory=dict)
    boots: dict[int, str] = field(default_factory=dict)
    runs: int = 0
    agents_ever: int = 0
    launches: int = 0


@dataclass(slots=True)
class Tx:
    """A transaction: it has happened whole when its work returns."""

    disk: Disk
    now: float
    touched: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    """rare ways that were taken"""


class Ledger:
    """`turnout.store.ledger.Ledger` without SQL."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._old: dict[int, RunRecord | None] = {}
        self._new: dict[int, RunRecord] = {}
        self._events: list[tuple[int, PastEvent]] = []

    def load(self, runs: Iterable[int]) -> None:
        for run in sorted(set(runs) - self._new.keys()):
            if run in self._tx.disk.records:
                self._old[run] = self._new[run] = self._tx.disk.records[run]

    def add(self, record: RunRecord) -> None:
        self._old[record.id], self._new[record.id] = None, record

    def get(self, run: int) -> RunRecord | None:
        return self._new.get(run)

    def apply(self, step: Step) -> RunRecord:
        record = self._append(step.record, step.events)
        self._new[record.id] = record
        return record

    def note(self, run: int, name: EventName, data: Data) -> RunRecord:
        record = self._new[run] = self._append(self._new[run], ((name, data),))
        return record

    def ended(self) -> list[RunRecord]:
        return [new for run, new in self._new.items() if new.state in TERMINAL and not self._was(run, TERMINAL)]

    def has_requeued(self) -> bool:
        return any(new.state is RunState.QUEUED and self._was(run, ON_NODE) for run, new in self._new.items())

    def flush(self) -> None:
        disk = self._tx.disk
        for run, event in self._events:
            disk.events.setdefault(run, []).append(event)
        for run, new in self._new.items():
            if new is not self._old[run]:
                new = new if new.on_node or new.agent is None else new._replace(agent=None)
                disk.records[run] = new

    def _was(self, run: int, states: frozenset[RunState]) -> bool:
        old = self._old[run]
        return old is not None and old.state in states

    def _append(self, record: RunRecord, events: Iterable[tuple[EventName, Data]]) -> RunRecord:
        seq = record.event_seq
        for name, data in events:
            seq += 1
            self._events.append((record.id, PastEvent(self._tx.now, name, data)))
        return record if seq == record.event_seq else record._replace(event_seq=seq)
