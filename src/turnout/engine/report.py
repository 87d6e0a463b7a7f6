"""What a node tells becomes events, output, metrics and states: each once, and only from the current attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from turnout.engine.caps import Caps
from turnout.engine.following import settle
from turnout.model.event import EventName
from turnout.schedule import machine
from turnout.schedule.record import (
    FENCED,
    Captured,
    Cause,
    Ended,
    NodeFact,
    Refusal,
    Returned,
    Running,
    RunRecord,
    SetUp,
    Staged,
)
from turnout.store import metrics
from turnout.store.ledger import Ledger
from turnout.store.queue import note_script
from turnout.store.streams import Marks, insert_output, output_digest, take_frames, take_output, take_trial_metrics
from turnout.store.values import set_after, set_params, set_tags, storable
from turnout.store.writer import Tx
from turnout.wire import nni
from turnout.wire.messages import Attempt, Chunk, Fact

_EARLY = frozenset({"staged", "setup", "running"})
_HASH_AT_MOST = 16 << 20
_OUTPUT = "output"
_TRIAL_METRICS = f"track/{nni.STREAM}"


@dataclass(slots=True)
class Receipt:
    acks: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    fenced: set[Attempt] = field(default_factory=set)
    closed: set[Attempt] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Telling:
    """One report of one agent: facts in order, chunks with their bytes."""

    agent: int
    facts: tuple[Fact, ...]
    chunks: tuple[tuple[Chunk, memoryview], ...]


def report(tx: Tx, telling: Telling) -> Receipt:
    """Applies a report. Sending it again changes nothing; a part from a stale attempt is fenced and the rest stands."""
    work = _Work(tx, telling)
    for fact in telling.facts:
        if fact.kind in _EARLY:
            work.apply(fact)
    work.take_chunks()
    for fact in telling.facts:
        if fact.kind not in _EARLY:
            work.apply(fact)
    return work.finish()


class _Work:
    def __init__(self, tx: Tx, telling: Telling) -> None:
        self._tx = tx
        self._telling = telling
        self._receipt = Receipt()
        self._ledger = Ledger(tx)
        self._ledger.load([item.run for item in telling.facts] + [chunk.run for chunk, _ in telling.chunks])
        keys = [(chunk.run, chunk.attempt, chunk.stream) for chunk, _ in telling.chunks]
        keys += [(fact.run, fact.attempt, _OUTPUT) for fact in telling.facts if fact.kind == "captured"]
        self._marks = Marks(tx, keys)
        self._after: dict[int, str] = {}
        self._caps = Caps(tx, self._ledger)

    def apply(self, fact: Fact) -> None:
        attempt = (fact.run, fact.attempt)
        record = self._current(attempt)
        if record is None:
            self._receipt.fenced.add(attempt)
            return
        parsed = _parse(fact)
        if fact.kind == "captured" and not self._is_complete(fact):
            self._receipt.refused.append(f"{fact.run}.{fact.attempt}/captured")
            self._receipt.acks[f"{fact.run}.{fact.attempt}/{_OUTPUT}"] = self._marks.get((*attempt, _OUTPUT)).size
            return
        step = machine.advance(record, fact.attempt, parsed, self._tx.now)
        if isinstance(step, Refusal):
            if step is FENCED:
                self._receipt.fenced.add(attempt)
            return
        new = self._ledger.apply(step)
        if new.is_parent and any(name is EventName.PARENT_SCRIPT and data["ok"] for name, data in step.events):
            note_script(self._tx, fact.run, self._telling.agent, fact.attempt)
        if fact.kind == "captured" and fact.body.get("manifest"):
            self._after[fact.run] = str(fact.body["manifest"])
        if not new.on_node:
            self._receipt.closed.add(attempt)

    def take_chunks(self) -> None:
        outputs: list[dict[str, Any]] = []
        points: metrics.RunMetrics = {}
        for chunk, content in self._telling.chunks:
            attempt = (chunk.run, chunk.attempt)
            if self._current(attempt) is None:
                self._receipt.fenced.add(attempt)
                continue
            key = (chunk.run, chunk.attempt, chunk.stream)
            if chunk.stream == _OUTPUT:
                row = take_output(self._marks, key, chunk.offset, content)
                if row is not None:
                    outputs.append(row)
            elif chunk.stream == _TRIAL_METRICS:
                for record in take_trial_metrics(self._marks, key, chunk.offset, content, self._tx.now):
                    metrics.collect(points, chunk.run, record)
            else:
                for record in take_frames(self._marks, key, chunk.offset, content):
                    self._take_record(points, chunk, record)
            self._receipt.acks[chunk.key] = self._marks.get(key).size
        insert_output(self._tx, outputs)
        self._tx.touch(*{f"output:{row['run_id']}" for row in outputs})
        if points:
            for run, names in metrics.insert(self._tx, points).items():
                self._ledger.note(run, EventName.METRICS, {"names": names})
            self._tx.touch(*{f"metrics:{run}" for run, _ in points})
        self._marks.flush()

    def finish(self) -> Receipt:
        settle(self._tx, self._ledger)
        self._ledger.flush()
        set_after(self._tx, self._after)
        return self._receipt

    def _current(self, attempt: Attempt) -> RunRecord | None:
        record = self._ledger.get(attempt[0])
        mine = record is not None and record.agent == self._telling.agent and record.attempt == attempt[1]
        return record if mine and record is not None and record.on_node else None

    def _is_complete(self, fact: Fact) -> bool:
        """All the output the node says there is has arrived, byte for byte."""
        key = (fact.run, fact.attempt, _OUTPUT)
        size = fact.body.get("output_bytes", 0)
        if self._marks.get(key).size != size:
            return False
        expected = fact.body.get("output_sha256")
        if not size or size > _HASH_AT_MOST or not expected:
            return True
        return bool(output_digest(self._tx, fact.run, fact.attempt) == expected)

    def _take_record(self, points: metrics.RunMetrics, chunk: Chunk, record: dict[str, Any]) -> None:
        """One record of a run's spool: metrics, parameters or tags (an artifact's path concerns its node alone)."""
        if "m" in record:
            metrics.collect(points, chunk.run, record)
        elif isinstance(record.get("p"), dict):
            shallow = {name: value for name, value in record["p"].items() if _is_shallow(value)}
            params = self._caps.admit(chunk.run, "params", shallow)
            if params:
                set_params(self._tx, chunk.run, params)
                self._caps.note(chunk.run, EventName.HPARAMS, params)
        elif isinstance(record.get("g"), dict):
            given = {name: str(value) for name, value in record["g"].items()}
            tags = self._caps.admit(chunk.run, "tags", given)
            if tags:
                set_tags(self._tx, chunk.run, tags)
                self._caps.note(chunk.run, EventName.TAGS, dict(tags))


def _is_shallow(value: object, levels: int = 32) -> bool:
    """Whether a value a run recorded is nested so little that it can be written down without running out of stack."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in inside)


def _parse(fact: Fact) -> NodeFact:
    body = fact.body
    match fact.kind:
        case "staged":
            return Staged(body)
        case "setup":
            return SetUp(body)
        case "running":
            return Running(body)
        case "ended":
            return Ended(
                cause=Cause(body.get("cause", "infra")), exit_code=body.get("exit_code"), signal=body.get("signal"),
                message=storable(str(body.get("message", ""))), data=body,
            )  # fmt: skip
        case "captured":
            return Captured({name: value for name, value in body.items() if name != "streams"})
        case "returned":
            return Returned()
        case _:
            raise ValueError(f"unknown fact {fact.kind!r}")
