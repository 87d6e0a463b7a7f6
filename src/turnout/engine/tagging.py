"""People tag runs and jobs, and clear tags: all of them in one transaction, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnout.errors import InvalidInput
from turnout.model.event import EventName
from turnout.model.limits import MOST_BYTES, MOST_NAMES
from turnout.store.ledger import Ledger
from turnout.store.queue import names_of
from turnout.store.tagging import change_job_tags, drop_tags, put_tags, tag_sizes
from turnout.store.values import storable, storable_name
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True)
class Tagged:
    """What was meant, by id. `jobs` are tagged themselves; their runs are among `runs`."""

    runs: Sequence[int]
    jobs: Sequence[int]


def set_tags(tx: Tx, meant: Tagged, tags: Mapping[str, str]) -> list[str]:
    """Gives the names of the runs. Raises InvalidInput, and changes nothing, if one would have more than it may."""
    tags = {storable_name(name): storable(value) for name, value in tags.items()}
    ledger = Ledger(tx)
    ledger.load(meant.runs)
    runs = [run for run in meant.runs if ledger.get(run) is not None]  # others were deleted meanwhile
    sizes = tag_sizes(tx, runs)
    for run in runs:
        after = {**sizes[run], **{name: len(value) for name, value in tags.items()}}
        if len(after) > MOST_NAMES or sum(map(len, after)) + sum(after.values()) > MOST_BYTES:
            (name,) = names_of(tx, [run]).values()
            most = f"at most {MOST_NAMES}, and {MOST_BYTES} bytes together"
            raise InvalidInput(f"{name} would have too many tags: {most}", hint="nothing was changed; clear some first")
    put_tags(tx, runs, tags)
    return _tell(tx, ledger, runs, meant.jobs, tags)


def clear_tags(tx: Tx, meant: Tagged, names: Sequence[str]) -> list[str]:
    """Gives the names of the runs that had one of them. Idempotent."""
    names = [storable_name(name) for name in names]
    ledger = Ledger(tx)
    ledger.load(meant.runs)
    sizes = tag_sizes(tx, [run for run in meant.runs if ledger.get(run) is not None])
    runs = [run for run, tags in sizes.items() if not tags.keys().isdisjoint(names)]
    drop_tags(tx, runs, names)
    return _tell(tx, ledger, runs, meant.jobs, dict.fromkeys(names))


def _tell(
    tx: Tx, ledger: Ledger, runs: Sequence[int], jobs: Sequence[int], change: Mapping[str, str | None]
) -> list[str]:
    for run in runs:
        ledger.note(run, EventName.TAGS, dict(change))
    ledger.flush()
    for job in jobs:
        change_job_tags(tx, job, change)
    tx.touch("runs", *(f"job:{job}" for job in jobs))
    names = names_of(tx, runs)
    return [names[run] for run in runs]
