"""The engine's decisions on a disk in memory: the model that the real engine is compared with.

The functions follow ``engine.take``, ``engine.report``, ``engine.steer`` and ``engine.submit`` line by line, with
dictionaries where those have SQL; all that is decided is decided by the same ``schedule`` and ``wire`` code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator

from turnout.engine.following import Why
from turnout.engine.report import Receipt, Telling
from turnout.engine.steer import Cancelled
from turnout.engine.submit import PipelineSubmission, Submission
from turnout.engine.take import Taken, Taker
from turnout.model.event import EventName
from turnout.model.ids import job_name, run_name
from turnout.model.state import RunState
from turnout.schedule import machine
from turnout.schedule.place import Waiting, choose, slots_of
from turnout.schedule.record import (
    FENCED,
    Captured,
    Cause,
    Ended,
    Lost,
    NodeFact,
    Refusal,
    Returned,
    Running,
    RunRecord,
    Staged,
)
from turnout.store.ledger import is_waiting
from turnout.store.searches import ACTIVE, Standing
from turnout.store.streams import Mark, StreamKey
from turnout.testing.simulator import family, following, unmade
from turnout.testing.simulator.memory import Disk, Ledger, Tx
from turnout.wire import frames
from turnout.wire.messages import Attempt, Chunk, Fact, Grant
from turnout.wire.stream import fresh_part

_EARLY = frozenset({"staged", "running"})
_OUTPUT = "output"


def submit(tx: Tx, submission: Submission) -> dict[str, object]:
    """A job and its runs, once per key."""
    disk, spec = tx.disk, submission.spec
    if submission.key in disk.answers:
        tx.seen.add("submission known")
        return disk.answers[submission.key]
    job = len(disk.jobs) + 1
    disk.jobs[job] = spec
    if spec.search is not None:
        seconds = spec.search.seconds
        deadline = None if seconds is None else tx.now + seconds
        disk.proposals[job] = []
        disk.searches[job] = Standing(
            job=job, state=ACTIVE, wanted=spec.search.runs, deadline=deadline, concurrent=spec.concurrent, asked=0,
            made=0,
        )  # fmt: skip
    numbers = family.insert_outer(tx, job, spec)
    tx.touched.add(f"queue:{spec.target}" if spec.nodes is None else "queue")
    answer: dict[str, object] = {"job": job_name(job), "runs": [run_name(number) for number in numbers]}
    disk.answers[submission.key] = answer
    return answer


def submit_pipeline(tx: Tx, submission: PipelineSubmission) -> dict[str, object]:
    """A pipeline with its steps and their runs, once per key."""
    disk, spec = tx.disk, submission.spec
    if submission.key in disk.answers:
        tx.seen.add("submission known")
        return disk.answers[submission.key]
    pipeline, steps = unmade.insert_pipeline(tx, spec)
    if any(step.late is not None and not step.needs for step in spec.steps):
        tx.touched.add("pipelines")
    answer: dict[str, object] = {
        "job": job_name(pipeline),
        "steps": {
            step.name: {"job": job_name(job), "runs": [run_name(number) for number in numbers]}
            for step, (job, numbers) in zip(spec.steps, steps, strict=True)
        },
    }
    disk.answers[submission.key] = answer
    return answer


def take(tx: Tx, taker: Taker) -> Taken:
    """Gives the agent as many waiting runs as fit; nothing to one that is gone."""
    disk = tx.disk
    saw_any = any(is_waiting(each) and disk.rows[each.id].queue == taker.queue for each in disk.records.values())
    if taker.agent not in disk.agents:
        return Taken([], saw_any, lacks_gpus=False)
    placed = choose(_queue(disk, taker), taker.room, most=128)
    ledger = Ledger(tx)
    ledger.load(item.run for item in placed)
    grants = []
    for item in placed:
        record = family.next_run(tx, ledger, item.run, taker.agent)
        claimed = ledger.apply(machine.claim(record, node=taker.node, agent=taker.agent, now=tx.now))
        grants.append(_grant(disk, claimed, item.slots))
    family.drain(tx, ledger, {disk.rows[item.run].job for item in placed})
    following.settle(tx, ledger)
    ledger.flush()
    return Taken(grants, saw_any, lacks_gpus=False)


def _queue(disk: Disk, taker: Taker) -> Iterator[Waiting]:
    rows = disk.rows
    waiting = [r for r in disk.records.values() if is_waiting(r) and rows[r.id].queue == taker.queue]
    for record in sorted(waiting, key=lambda record: (-record.priority, record.id)):
        most = family.most(disk, record, taker.room.running.get(rows[record.id].job, 0))
        yield _waiting(disk, record, family.copies(disk, record, taker.agent), most)


def _waiting(disk: Disk, record: RunRecord, copies: int, concurrent: int | None) -> Waiting:
    job = disk.rows[record.id].job
    spec = disk.jobs[job]
    cpus = spec.resources.cpus or (1 if spec.also else None)
    return Waiting(run=record.id, job=job, cpus=cpus, gpus=spec.resources.gpus, concurrent=concurrent, copies=copies)


def _grant(disk: Disk, record: RunRecord, slots: float) -> Grant:
    row = disk.rows[record.id]
    spec = disk.jobs[row.job]
    return Grant(
        record.id, record.attempt, row.name, row.job, list(row.argv), dict(row.params), slots, 0,
        spec.resources.gpus or 0, script=record.is_parent, inputs=left_for(disk, record.parent or record.id),
        outputs=list(row.outputs),
    )  # fmt: skip


def left_for(disk: Disk, run: int) -> list[tuple[str, list[str]]]:
    """What the runs left that this one waited for."""
    job, graph = disk.rows[run].job, disk.graph
    singly = {needed for needed, each in graph.run_needs if each == run}
    whole = {needed for needed, each in graph.step_needs if each == job}
    needed = (each for each in sorted(disk.after) if each in singly or disk.rows[each].job in whole)
    good = (each for each in needed if disk.records[each].step and disk.records[each].state is RunState.COMPLETED)
    return [(disk.after[each], list(disk.rows[each].outputs)) for each in good]


def held_by(tx: Tx, agent: int, max_runs: int) -> tuple[list[Grant], dict[Attempt, str | None]]:
    """What the store says this agent has, and for each whether its end was asked for."""
    mine = [record for record in tx.disk.records.values() if record.agent == agent]
    specs = [tx.disk.jobs[tx.disk.rows[record.id].job] for record in mine]
    asks = [_waiting(tx.disk, record, 1, spec.concurrent) for record, spec in zip(mine, specs, strict=True)]
    grants = [_grant(tx.disk, record, slots_of(ask, max_runs)) for record, ask in zip(mine, asks, strict=True)]
    return grants, {(record.id, record.attempt): record.cancel for record in mine}


def lose(
    tx: Tx,
    agent: int,
    fact: Lost | Returned,
    *,
    keep: frozenset[Attempt] = frozenset(),
    only: Collection[Attempt] | None = None,
) -> list[Attempt]:
    """Gives up on what an agent holds, but for what it has in hand, or on `only` these."""
    mine = [r for r in tx.disk.records.values() if r.agent == agent and (r.id, r.attempt) not in keep]
    mine = [r for r in mine if only is None or (r.id, r.attempt) in only]
    ledger = Ledger(tx)
    ledger.load(record.id for record in mine)
    for record in mine:
        step = machine.advance(record, record.attempt, fact, tx.now)
        assert not isinstance(step, Refusal)
        ledger.apply(step)
    _finish(tx, ledger)
    return [(record.id, record.attempt) for record in mine]


def cancel(tx: Tx, runs: Iterable[int], *, by: str = "user", job: int | None = None) -> list[Cancelled]:
    """Cancels these runs and the children of parents among them; all of a pipeline, also what is not made yet."""
    wanted, records, ledger = set(runs), tx.disk.records, Ledger(tx)
    if job is not None:
        for late in unmade.late_steps(tx.disk, job):
            following.give_up_step(tx, ledger, late, Why(f"it was cancelled by {by}"))
        steps = {each for each, step in tx.disk.graph.steps.items() if step.pipeline == job}
        wanted |= {r.id for r in records.values() if tx.disk.rows[r.id].job in steps and not r.is_terminal}
    wanted |= {r.id for r in records.values() if r.parent in wanted and not r.is_terminal}
    ledger.load(wanted)
    before = [record for run in sorted(wanted) if (record := ledger.get(run)) is not None]
    for record in before:
        step = machine.request_cancel(record, Cause.CANCELLED, by, tx.now)
        if not isinstance(step, Refusal):
            ledger.apply(step)
    _finish(tx, ledger)
    return [_cancelled(tx.disk, record) for record in before]


def preempt(tx: Tx, runs: Iterable[int]) -> list[RunRecord]:
    """Asks for an end of the current attempts of these runs; gives those that are on a node and will end so."""
    ledger = Ledger(tx)
    ledger.load(runs)
    asked = []
    for run in sorted(set(runs)):
        record = tx.disk.records[run]
        step = machine.request_preempt(record, "user")
        if not isinstance(step, Refusal):
            record = ledger.apply(step)
        if record.on_node and record.cancel is Cause.PREEMPTED:
            asked.append(record)
    ledger.flush()
    return asked


def _cancelled(disk: Disk, before: RunRecord) -> Cancelled:
    record = disk.records[before.id]
    outcome = "over" if before.is_terminal else "cancelled" if record.is_terminal else "requested"
    return Cancelled(
        disk.rows[record.id].name, outcome, before.state, record.state, record.id, record.attempt, record.agent
    )


def _finish(tx: Tx, ledger: Ledger) -> None:
    following.settle(tx, ledger)
    ledger.flush()


def report(tx: Tx, telling: Telling) -> Receipt:
    """Applies a report. Sending it again changes nothing; a part from a stale attempt is fenced and the rest stands."""
    work = _Telling(tx, telling)
    for fact in telling.facts:
        if fact.kind in _EARLY:
            work.apply(fact)
    for chunk, content in telling.chunks:
        work.take(chunk, bytes(content))
    for fact in telling.facts:
        if fact.kind not in _EARLY:
            work.apply(fact)
    work.finish()
    return work.receipt


class _Telling:
    def __init__(self, tx: Tx, telling: Telling) -> None:
        self.receipt = Receipt()
        self._tx = tx
        self._agent = telling.agent
        self._ledger = Ledger(tx)
        self._ledger.load([fact.run for fact in telling.facts] + [chunk.run for chunk, _ in telling.chunks])

    def apply(self, fact: Fact) -> None:
        ref = (fact.run, fact.attempt)
        record = self._current(ref)
        if record is None:
            self._tx.seen.add("fact refused: not current")
            self.receipt.fenced.add(ref)
            return
        if fact.kind == "captured" and not self._is_complete(fact):
            self.receipt.refused.append(f"{fact.run}.{fact.attempt}/captured")
            # A node that lost its copy offers nothing, so it cannot know otherwise how much is here.
            mark = self._tx.disk.marks.get((*ref, _OUTPUT)) or Mark()
            self.receipt.acks[f"{fact.run}.{fact.attempt}/{_OUTPUT}"] = mark.size
            return
        step = machine.advance(record, fact.attempt, _parse(fact), self._tx.now)
        if isinstance(step, Refusal):
            self._tx.seen.add(f"fact refused: {step.value}")
            if step is FENCED:
                self.receipt.fenced.add(ref)
            return
        if any(name is EventName.PARENT_SCRIPT and data["ok"] for name, data in step.events):
            self._tx.disk.scripts.add((fact.run, self._agent))
        if fact.kind == "captured" and fact.body.get("manifest"):
            self._tx.disk.after[fact.run] = str(fact.body["manifest"])
        if not self._ledger.apply(step).on_node:
            self.receipt.closed.add(ref)

    def take(self, chunk: Chunk, content: bytes) -> None:
        ref = (chunk.run, chunk.attempt)
        if self._current(ref) is None:
            self.receipt.fenced.add(ref)
            return
        key = (chunk.run, chunk.attempt, chunk.stream)
        mark = self._tx.disk.marks.get(key) or Mark()
        skip = fresh_part(mark.size, chunk.offset, len(content))
        if skip is None:
            self._tx.seen.add("piece beyond a gap")
        elif skip:
            self._tx.seen.add("piece repeated")
        if skip is not None and skip < len(content):
            store = self._keep_output if chunk.stream == _OUTPUT else self._keep_records
            mark = self._tx.disk.marks[key] = store(key, mark, content[skip:])
        self.receipt.acks[chunk.key] = mark.size

    def _keep_output(self, key: StreamKey, mark: Mark, fresh: bytes) -> Mark:
        self._tx.disk.output.setdefault((key[0], key[1]), bytearray()).extend(fresh)
        return Mark(mark.size + len(fresh))

    def _keep_records(self, key: StreamKey, mark: Mark, fresh: bytes) -> Mark:
        points = self._tx.disk.points.setdefault(key[0], [])
        known, end, count = bool(points), 0, mark.frames
        for frame in frames.scan(fresh, first_seq=count):
            end, count = frame.end, count + 1
            points.append((key[1], json.loads(frame.payload)["m"]["n"]))
        if points and not known:
            self._ledger.note(key[0], EventName.METRICS, {"names": ["n"]})
        return Mark(mark.size + end, count)

    def finish(self) -> None:
        _finish(self._tx, self._ledger)

    def _current(self, ref: Attempt) -> RunRecord | None:
        record = self._ledger.get(ref[0])
        if record is None or record.agent != self._agent or record.attempt != ref[1] or not record.on_node:
            return None
        return record

    def _is_complete(self, fact: Fact) -> bool:
        ref = (fact.run, fact.attempt)
        mark = self._tx.disk.marks.get((*ref, _OUTPUT)) or Mark()
        size, expected = fact.body["output_bytes"], fact.body["output_sha256"]
        if mark.size != size or not size or expected is None:
            return bool(mark.size == size)
        return bool(hashlib.sha256(self._tx.disk.output[ref]).hexdigest() == expected)


def _parse(fact: Fact) -> NodeFact:
    body = fact.body
    match fact.kind:
        case "staged":
            return Staged(body)
        case "running":
            return Running(body)
        case "ended":
            return Ended(
                cause=Cause(body["cause"]), exit_code=body.get("exit_code"), signal=body.get("signal"),
                message=body.get("message", ""), data=body,
            )  # fmt: skip
        case "captured":
            return Captured(body)
        case _:
            return Returned()
