"""Are the kept files whole? Blobs are read and compared with their digests, and snapshots with the blobs they name."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from turnout.blobs import Blobs
from turnout.errors import TurnoutError
from turnout.hub.snapshots import Snapshots
from turnout.store.snapshots import Kind, Reference, references
from turnout.store.store import Store

_QUICK_SECONDS = 1.0  # for blobs, and as long for snapshots
_MOST_NAMED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurt:
    """A snapshot that is not whole. `files` are those that are lost (at most a hundred are named); none are named when
    the list of files itself is lost."""

    owner: str
    kind: str
    files: list[str]
    count: int


@dataclass(slots=True)
class Checkup:
    """`blobs` there are, `read` were read, `damaged` are the digests of those that were bad: they count as missing now.
    `snapshots` were looked at, `hurt` are those that lack something."""

    blobs: int
    read: int = 0
    damaged: list[str] = field(default_factory=list)
    snapshots: int = 0
    hurt: list[Hurt] = field(default_factory=list)
    deep: bool = False


def check_blobs(store: Store, blobs: Blobs, *, deep: bool) -> Checkup:
    """Looks at all, or for about two seconds at a part: some blobs, others each time, and the newest snapshots."""
    found = Checkup(blobs.usage().blobs, deep=deep)
    if deep:
        found.read, found.damaged = found.blobs, blobs.check()
    else:
        sample = blobs.sample(_QUICK_SECONDS)
        found.read, found.damaged = sample.read, sample.damaged
    deadline = None if deep else time.monotonic() + _QUICK_SECONDS
    _look_at_snapshots(store, blobs, found, deadline)
    return found


def _look_at_snapshots(store: Store, blobs: Blobs, found: Checkup, deadline: float | None) -> None:
    """Newest first, jobs and runs by turns."""
    snapshots = Snapshots(blobs)
    whole: set[str] = set()
    below: dict[Kind, int | None] = dict.fromkeys(Kind)
    left = list(Kind)
    while left:
        for kind in list(left):
            with store.read() as connection:
                page = references(connection, kind, below=below[kind], count=200)
            for reference in page.references:
                if deadline is not None and time.monotonic() > deadline:
                    return
                found.snapshots += 1
                if reference.manifest in whole:
                    continue
                hurt = _compare(reference, snapshots, blobs)
                if hurt is None:
                    whole.add(reference.manifest)
                else:
                    found.hurt.append(hurt)
            below[kind] = page.below
            if page.below is None:
                left.remove(kind)


def _compare(reference: Reference, snapshots: Snapshots, blobs: Blobs) -> Hurt | None:
    try:
        entries = snapshots.entries(reference.manifest)
    except TurnoutError:
        return Hurt(owner=reference.owner, kind=reference.kind, files=[], count=0)
    absent = set(blobs.missing(entry.digest for entry in entries if entry.digest))
    files = [entry.path for entry in entries if entry.digest in absent]
    return (
        Hurt(owner=reference.owner, kind=reference.kind, files=files[:_MOST_NAMED], count=len(files)) if files else None
    )
