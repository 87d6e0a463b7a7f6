"""Children of parents: several at once, as rows and as steps of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from turnout.model.event import EventName
from turnout.model.search import Search
from turnout.model.spec import RunSpec
from turnout.schedule import machine
from turnout.schedule.record import RunRecord
from turnout.search.arguments import with_params
from turnout.store.jobs import Job
from turnout.store.ledger import Ledger
from turnout.store.queue import Entry, bear_children
from turnout.store.writer import Tx

#: When so few proposals are left, the search is looked at.
_FEW = 128


class Planned(NamedTuple):
    """A child: its number, what it does where that is not what its parent says, and how many are left behind it."""

    number: int
    command: RunSpec | None
    remaining: int


def make_children(
    tx: Tx, ledger: Ledger, parent: Entry, job: Job, planned: Sequence[Planned]
) -> list[tuple[Entry, RunRecord]]:
    """Makes these children of a parent that is in the ledger, and queues them."""
    commands = [(each.number, each.command) for each in planned]
    is_launched = job.spec.search is not None and job.spec.direct  # each by itself, and not by who takes from a queue
    born = bear_children(tx, ledger, parent, commands, job.spec.retry, own_queues=is_launched)
    made = []
    for plan, child in zip(planned, born, strict=True):
        record = ledger.get(parent.record.id)
        assert record is not None
        ledger.apply(machine.make_child(record, plan.number, child.name, plan.remaining))
        ledger.note(child.record.id, EventName.CREATED, {})
        created = ledger.get(child.record.id)
        assert created is not None
        made.append((child, ledger.apply(machine.enqueue(created, tx.now))))
    if job.spec.search is not None and planned and planned[-1].remaining <= _FEW:
        tx.touch(f"search:{job.id}")
    return made


def command_with(parent: Entry, search: Search, params: dict[str, object]) -> RunSpec:
    """The parent's command with what was proposed."""
    argv = with_params(parent.argv, params, prefix=search.prefix, slots=search.slots)
    return RunSpec(argv=argv, params={**parent.params, **params})
