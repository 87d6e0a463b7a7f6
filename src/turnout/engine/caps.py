"""A run cannot record without end: what is too much is left out, and its history says so, once. The run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

from turnout.model.event import EventName
from turnout.model.limits import MOST_BYTES, MOST_EVENTS, MOST_NAMES
from turnout.schedule.record import Data
from turnout.store.amounts import Kind, sizes, was_refused
from turnout.store.ledger import Ledger
from turnout.store.values import storable_name
from turnout.store.writer import Tx

V = TypeVar("V")
_NAMED = 10


class Caps:
    """For one transaction; the runs it is asked about are in `ledger`."""

    def __init__(self, tx: Tx, ledger: Ledger) -> None:
        self._tx = tx
        self._ledger = ledger
        self._sizes: dict[tuple[int, Kind], dict[str, int]] = {}
        self._told: set[tuple[int, str]] = set()

    def admit(self, run: int, kind: Kind, given: Mapping[str, V]) -> dict[str, V]:
        """Those that may be kept: all, until the run has as many or as much as it may. A name that it has already may
        get another value, unless that is too large."""
        key = (run, kind)
        if key not in self._sizes:
            self._sizes[key] = sizes(self._tx, kind, run)
        have = self._sizes[key]
        total = sum(map(len, have)) + sum(have.values())
        kept: dict[str, V] = {}
        refused: list[str] = []
        for given_name, value in given.items():
            name = storable_name(given_name)
            size = len(json.dumps(value)) if kind == "params" else len(str(value))
            more = size - have[name] if name in have else size + len(name)
            if total + more > MOST_BYTES or (name not in have and len(have) >= MOST_NAMES):
                refused.append(name)
                continue
            total, have[name] = total + more, size
            kept[given_name] = value
        if refused:
            why = f"a run keeps at most {MOST_NAMES} of them, and {MOST_BYTES} bytes together"
            self._tell(run, kind, {"names": refused[:_NAMED], "why": why})
        return kept

    def note(self, run: int, name: EventName, data: Data) -> None:
        """Puts what was kept into the run's history, as long as that is not full of such already."""
        record = self._ledger.get(run)
        if record is not None and record.event_seq < MOST_EVENTS:
            self._ledger.note(run, name, data)
        else:
            self._tell(run, "events", {"why": f"after {MOST_EVENTS} events, only the newest values are kept"})

    def _tell(self, run: int, what: str, data: dict[str, object]) -> None:
        if (run, what) not in self._told:
            self._told.add((run, what))
            if not was_refused(self._tx, what, run):
                self._ledger.note(run, EventName.REFUSED, {"what": what, **data})
