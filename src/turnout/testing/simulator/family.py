"""Parents on the model's disk: what they are at first, and which child comes next (``engine.family``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnout.model.event import EventName
from turnout.model.ids import job_name, run_name
from turnout.model.pipeline import Gate
from turnout.model.spec import JobSpec
from turnout.model.state import ON_NODE, RunState
from turnout.plugin.sampler import Proposal
from turnout.schedule import machine
from turnout.schedule.record import RunRecord, Stage, Step
from turnout.search.arguments import with_params
from turnout.testing.simulator.memory import Disk, Ledger, Row, Tx


def insert_outer(
    tx: Tx, job: int, spec: JobSpec, blocked: Sequence[int] | None = None, gate: Gate = Gate.NONE
) -> list[int]:
    """Its outer runs, as they are submitted; their numbers. Those of a step are `blocked`: each waits for so many, and
    at its gate."""
    numbers = []
    for outer in range(spec.outer_runs):
        number = 1 + sum(1 for row in tx.disk.rows.values() if not row.child)
        target, queue, own = _place(job, spec, outer)
        ledger = Ledger(tx)
        run = spec.runs[outer if own is None and len(spec.runs) > 1 else 0]
        said = run.argv, dict(run.params), run.outputs, run.label or spec.label or ""
        row = Row(run_name(number), number, 0, job, target, queue, own, *said)
        waits = None if blocked is None else blocked[outer]
        insert_run(tx, ledger, row, spec, planned=spec.children_of(outer), blocked=waits, gate=gate)
        ledger.flush()
        numbers.append(number)
    return numbers


def _place(job: int, spec: JobSpec, outer: int) -> tuple[str, str, int | None]:
    if spec.search is not None:
        target = (spec.target, *(each.target for each in spec.also))[outer]
        return target, target, None
    if spec.nodes is None:
        return spec.target, spec.target, None
    return spec.target, f"{spec.target}#{job_name(job)}.{outer}", outer


def insert_run(
    tx: Tx, ledger: Ledger, row: Row, spec: JobSpec, *, planned: int = 0, parent: RunRecord | None = None,
    blocked: int | None = None, gate: Gate = Gate.NONE,
) -> RunRecord:  # fmt: skip
    """Created, and queued unless it is `blocked`, or has a gate; None = it is of no step."""
    disk = tx.disk
    disk.runs += 1
    disk.rows[disk.runs] = row
    is_sought = spec.search is not None and parent is None
    record = RunRecord(
        id=disk.runs, state=RunState.CREATED, priority=spec.priority, failures_left=spec.retry.failures,
        losses_left=spec.retry.losses, children_planned=planned, remaining=0 if is_sought else planned,
        stage=Stage.OPEN if is_sought else Stage.NONE, parent=parent.id if parent is not None else None,
        blocked=blocked or 0, gate=int(gate), step=int(blocked is not None),
    )  # fmt: skip
    ledger.add(record)
    created = ledger.note(record.id, EventName.CREATED, {})
    return created if created.blocked or gate else ledger.apply(machine.enqueue(created, tx.now))


def parents_of(disk: Disk, job: int) -> list[int]:
    """Those that are not over."""
    mine = (record for record in disk.records.values() if record.is_parent and disk.rows[record.id].job == job)
    return [record.id for record in mine if not record.is_terminal]


def needs_script(disk: Disk, parent: RunRecord, agent: int) -> bool:
    spec = disk.jobs[disk.rows[parent.id].job]
    return spec.parent_script is not None and (parent.id, agent) not in disk.scripts


def copies(disk: Disk, record: RunRecord, agent: int) -> int:
    """How many runs an entry of the queue stands for."""
    if not record.is_parent or needs_script(disk, record, agent):
        return 1
    job = disk.rows[record.id].job
    spec = disk.jobs[job]
    if spec.search is not None:
        return min(record.remaining, disk.searches[job].ready)
    return (spec.total or 0) - disk.made.get(job, 0) if spec.shares_children else record.remaining


def most(disk: Disk, record: RunRecord, here: int) -> int | None:
    """How many runs of its job may be at once on a node that has `here` of them."""
    job = disk.rows[record.id].job
    spec = disk.jobs[job]
    if spec.search is None:
        return spec.concurrent
    limit = disk.searches[job].concurrent
    if limit is None:
        return None
    mine = [each for each in disk.records.values() if disk.rows[each.id].job == job]
    if record.is_parent:
        there = sum(each.open_children for each in mine)
    else:
        there = sum(each.parent is not None and each.state in ON_NODE for each in mine)
    return max(0, limit - max(0, there - here))


def next_run(tx: Tx, ledger: Ledger, run: int, agent: int) -> RunRecord:
    """The run to claim: the placed one itself, a parent for its script, or the next child of a placed parent."""
    record = ledger.get(run)
    assert record is not None
    if not record.is_parent:
        return record
    if needs_script(tx.disk, record, agent):
        tx.seen.add("parent script")
        return record
    row = tx.disk.rows[run]
    spec = tx.disk.jobs[row.job]
    made = record.children_planned - record.remaining
    index, remaining = made + 1, record.remaining - 1
    if spec.search is not None:
        index, remaining = count_child(tx, row.job)
        return make_child(tx, ledger, run, index, remaining, tx.disk.proposals[row.job][index - 1])
    if spec.shares_children:
        index = tx.disk.made[row.job] = tx.disk.made.get(row.job, 0) + 1
        remaining = (spec.total or 0) - index
    elif spec.total is not None and row.outer is not None:
        index = made * spec.outer_runs + row.outer + 1
    return make_child(tx, ledger, run, index, remaining)


def count_child(tx: Tx, job: int) -> tuple[int, int]:
    """The number of a search's next child, and how many are proposed behind it."""
    standing = tx.disk.searches[job]
    tx.disk.searches[job] = replace(standing, made=standing.made + 1)
    return standing.made + 1, standing.ready - 1


def make_child(
    tx: Tx, ledger: Ledger, run: int, index: int, remaining: int, proposal: Proposal | None = None
) -> RunRecord:
    parent, row = ledger.get(run), tx.disk.rows[run]
    assert parent is not None
    spec = tx.disk.jobs[row.job]
    argv, params = row.argv, row.params
    if proposal is not None and spec.search is not None:
        given = dict(proposal.params)
        argv = with_params(argv, given, prefix=spec.search.prefix, slots=spec.search.slots)
        params = {**params, **given}
    name = run_name(row.number, index)
    child = Row(
        name, row.number, index, row.job, row.target, row.queue, row.outer, argv, params, row.outputs, row.label
    )
    ledger.apply(machine.make_child(parent, index, name, remaining))
    return insert_run(tx, ledger, child, spec, parent=parent)


def drain(tx: Tx, ledger: Ledger, jobs: set[int]) -> None:
    """Where the last child that parents share was made, the others have none to wait for; of a search, none for now."""
    for job in sorted(jobs):
        if not _is_all_made(tx.disk, job):
            continue
        others = parents_of(tx.disk, job)
        ledger.load(others)
        for run in others:
            parent = ledger.get(run)
            if parent is not None and not parent.is_terminal and parent.remaining:
                tx.seen.add("parent drained")
                ledger.apply(_without_more(parent, tx.now))


def _is_all_made(disk: Disk, job: int) -> bool:
    spec = disk.jobs[job]
    if spec.search is not None:
        return disk.searches[job].ready == 0
    return spec.shares_children and disk.made.get(job, 0) == spec.total


def _without_more(parent: RunRecord, now: float) -> Step:
    if not parent.stage:
        return machine.drain(parent, now)
    is_open = parent.stage == Stage.OPEN
    return machine.stock(parent, ready=0, planned=parent.children_planned, is_open=is_open, now=now)
