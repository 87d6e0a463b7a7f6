"""Parents in the queue: which of their children comes next, and whether their script has to run first."""

from __future__ import annotations

from turnout.model.event import EventName
from turnout.schedule import machine
from turnout.schedule.record import RunRecord
from turnout.store.jobs import Job
from turnout.store.ledger import Ledger
from turnout.store.queue import Entry, children_left, count_child, insert_child, open_parents, script_has_run
from turnout.store.writer import Tx


class Family:
    """For one transaction in which an agent takes runs."""

    def __init__(self, tx: Tx, agent: int) -> None:
        self._tx = tx
        self._agent = agent
        self._scripts: set[int] = set()
        self._left: dict[int, int] = {}

    def copies(self, entry: Entry, job: Job) -> int:
        """How many runs this entry of the queue stands for now: one, or the children that a parent may make."""
        record = entry.record
        if not record.is_parent:
            return 1
        if job.spec.parent_script is not None and not script_has_run(self._tx, record.id, self._agent):
            self._scripts.add(record.id)
            return 1
        if job.spec.shares_children:
            assert job.spec.total is not None
            if job.id not in self._left:
                self._left[job.id] = children_left(self._tx, job.id, job.spec.total)
            return self._left[job.id]
        return record.remaining

    def next_run(self, ledger: Ledger, entry: Entry, job: Job) -> tuple[Entry, RunRecord]:
        """The run to claim: the entry's own, a parent's for its script, or the next child of a parent."""
        record = ledger.get(entry.record.id)
        assert record is not None
        if not record.is_parent or record.id in self._scripts:
            return entry, record
        index, remaining = self._next_index(record, entry, job)
        command = job.spec.runs[index - 1] if len(job.spec.runs) > 1 else None
        child = insert_child(self._tx, entry, index, job.spec.retry, command)
        ledger.apply(machine.make_child(record, index, child.name, remaining))
        ledger.add(child.record)
        ledger.note(child.record.id, EventName.CREATED, {})
        created = ledger.get(child.record.id)
        assert created is not None
        return child, ledger.apply(machine.enqueue(created, self._tx.now))

    def drain(self, ledger: Ledger) -> None:
        """Where the last child that parents share was made, the others have none to wait for."""
        for job, left in self._left.items():
            if left == 0:
                others = open_parents(self._tx, job)
                ledger.load(others)
                for run in others:
                    parent = ledger.get(run)
                    if parent is not None and parent.remaining:
                        ledger.apply(machine.drain(parent, self._tx.now))

    def _next_index(self, record: RunRecord, entry: Entry, job: Job) -> tuple[int, int]:
        """The child's number, and how many are left behind it."""
        if job.spec.shares_children:
            index = count_child(self._tx, job.id)
            self._left[job.id] -= 1
            return index, self._left[job.id]
        made = record.children_planned - record.remaining
        if job.spec.total is None or entry.outer is None:
            return made + 1, record.remaining - 1
        return made * job.spec.outer_runs + entry.outer + 1, record.remaining - 1
