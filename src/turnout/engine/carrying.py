"""Runs of a pipeline that goes on from an earlier one: instead of being queued, some are taken over as they ended."""

from __future__ import annotations

from collections.abc import Collection

from turnout.schedule import machine
from turnout.schedule.record import Refusal
from turnout.store import carrying
from turnout.store.ledger import Ledger
from turnout.store.writer import Tx


def carry(tx: Tx, ledger: Ledger, runs: Collection[int]) -> set[int]:
    """Those of these runs, which may begin now, that were taken over. Settle the ledger afterwards."""
    if not runs or not carrying.is_any(tx.connection):
        return set()
    found = carrying.found_for(tx, runs)
    carrying.take_over(tx, found)
    ledger.load(found)
    carried = set()
    for run, earlier in found.items():
        record = ledger.get(run)
        step = machine.carry(record, earlier.name, tx.now) if record is not None else Refusal.DUPLICATE
        if not isinstance(step, Refusal):
            ledger.apply(step)
            carried.add(run)
    return carried
