"""Parents in the queue: which of their children comes next, and whether their script has to run first."""

from __future__ import annotations

from collections.abc import Sequence

from turnout.engine.children import Planned, command_with, make_children
from turnout.model.spec import RunSpec
from turnout.schedule import machine
from turnout.schedule.record import RunRecord, Stage, Step
from turnout.store import searches
from turnout.store.jobs import Job
from turnout.store.ledger import Ledger
from turnout.store.queue import (
    Entry,
    children_left,
    children_on_nodes,
    count_children,
    open_children,
    open_parents,
    script_has_run,
)
from turnout.store.writer import Tx


class Family:
    """For one transaction in which an agent takes runs."""

    def __init__(self, tx: Tx, agent: int) -> None:
        self._tx = tx
        self._agent = agent
        self._scripts: set[int] = set()
        self._left: dict[int, int] = {}
        self._searches: dict[int, searches.Standing] = {}
        self._on_nodes: dict[int, int] = {}

    def most(self, entry: Entry, job: Job, here: int) -> int | None:
        """How many runs of its job may be at once on this node, which has `here` of them; None = any number. Those of a
        search are counted wherever they are."""
        if job.spec.search is None:
            return job.spec.concurrent
        standing = self._standing(job)
        if standing.concurrent is None:
            return None
        there = self._open(entry, job) if entry.record.is_parent else self._busy(job)
        return max(0, standing.concurrent - max(0, there - here))

    def copies(self, entry: Entry, job: Job) -> int:
        """How many runs this entry of the queue stands for now: one, or the children that a parent may make."""
        record = entry.record
        if not record.is_parent:
            return 1
        if job.spec.parent_script is not None and not script_has_run(self._tx, record.id, self._agent):
            self._scripts.add(record.id)
            return 1
        if job.spec.search is not None:
            if job.id not in self._left:
                self._left[job.id] = self._standing(job).ready
            return min(record.remaining, self._left[job.id])
        if job.spec.shares_children:
            assert job.spec.total is not None
            if job.id not in self._left:
                self._left[job.id] = children_left(self._tx, job.id, job.spec.total)
            return self._left[job.id]
        return record.remaining

    def next_runs(self, ledger: Ledger, entry: Entry, job: Job, count: int) -> list[tuple[Entry, RunRecord]]:
        """The runs to claim: the entry's own, a parent's for its script, or the next children of a parent."""
        record = ledger.get(entry.record.id)
        assert record is not None
        if not record.is_parent or record.id in self._scripts:
            return [(entry, record)]
        return make_children(self._tx, ledger, entry, job, self._planned(record, entry, job, count))

    def drain(self, ledger: Ledger) -> None:
        """Where the last child that parents share was made, the others have none to wait for; those of a search, none
        for now."""
        for job, left in self._left.items():
            if left == 0:
                others = open_parents(self._tx, job)
                ledger.load(others)
                for run in others:
                    parent = ledger.get(run)
                    if parent is not None and parent.remaining:
                        ledger.apply(_without_more(parent, self._tx.now))

    def _planned(self, record: RunRecord, entry: Entry, job: Job, count: int) -> list[Planned]:
        spec = job.spec
        if not spec.shares_children and spec.search is None:
            made, step, start = record.children_planned - record.remaining, 1, 1
            if spec.total is not None and entry.outer is not None:
                step, start = spec.outer_runs, entry.outer + 1
            indices = [(made + each) * step + start for each in range(count)]
            left = record.remaining
        else:
            first = count_children(self._tx, job.id, count)
            indices = list(range(first, first + count))
            left = self._left[job.id]
            self._left[job.id] -= count
        commands = self._commands(entry, job, indices)
        return [Planned(*each, left - number) for number, each in enumerate(zip(indices, commands, strict=True), 1)]

    def _commands(self, entry: Entry, job: Job, indices: list[int]) -> Sequence[RunSpec | None]:
        """What the children with these numbers do, where that is not what their parent says."""
        search = job.spec.search
        if search is not None:
            proposed = searches.params_of(self._tx, job.id, indices[0], len(indices))
            return [command_with(entry, search, params) for params in proposed]
        return [job.spec.runs[index - 1] if len(job.spec.runs) > 1 else None for index in indices]

    def _standing(self, job: Job) -> searches.Standing:
        if job.id not in self._searches:
            found = searches.standing(self._tx.connection, job.id, lock=True)
            assert found is not None, "the search of a job is written with it"
            self._searches[job.id] = found
        return self._searches[job.id]

    def _open(self, entry: Entry, job: Job) -> int:
        """How many runs of a search are not over, wherever they are."""
        if not job.spec.also:
            return entry.record.open_children
        return open_children(self._tx, job.id)

    def _busy(self, job: Job) -> int:
        """How many runs of a search nodes have: those that are made but wait do not take the place of others."""
        if job.id not in self._on_nodes:
            self._on_nodes[job.id] = children_on_nodes(self._tx, job.id)
        return self._on_nodes[job.id]


def _without_more(parent: RunRecord, now: float) -> Step:
    if not parent.stage:
        return machine.drain(parent, now)
    is_open = parent.stage == Stage.OPEN
    return machine.stock(parent, ready=0, planned=parent.children_planned, is_open=is_open, now=now)
