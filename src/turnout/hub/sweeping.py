"""Once a day, what nobody needs is removed from the blobs: uploads that no job and no run ever referred to.

What a snapshot of the store names is kept, and what anybody asked for or sent within the last day. Every submission
and every report that names a snapshot asks for all of it first (`hub.snapshots`), so one that arrives while a sweep is
under way loses nothing: either the sweep sees it, or it is safe for a day, or it is told to send what is gone again.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from turnout.blobs import Blobs, Usage
from turnout.errors import Conflict, Internal, TurnoutError, Unavailable
from turnout.home import write_private
from turnout.hub.snapshots import Snapshots
from turnout.store.snapshots import Kind, Reference, references
from turnout.store.store import Store
from turnout.wire.manifest import Entry

_log = logging.getLogger(__name__)
DAY = 86400.0
_PAGE = 500
_REST = 4.0  # times as long as it worked, it lets others work


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was removed, and what is not needed either but was wanted within the last hour."""

    removed: Usage
    later: Usage


class Sweeper:
    """`directory` is where it remembers when it last swept, and which databases the blobs were used with: as long as
    there was more than one, nothing is removed, for each knows only its own snapshots."""

    def __init__(self, store: Store, blobs: Blobs, directory: Path, database: str) -> None:
        self._store = store
        self._blobs = blobs
        self._snapshots = Snapshots(blobs)
        self._last = directory / "swept"
        self._users = directory / "databases"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._due_at = self._next_time()
        self._is_only_user = self._remember(database)

    def start_if_due(self) -> None:
        """Begins to sweep in a thread of its own if the last time was more than a day ago. Cheap if not."""
        if time.time() < self._due_at or self._stopping.is_set():
            return
        self._due_at = time.time() + DAY
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when it no longer sweeps. What it has not done it does another day."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30)

    def sweep(self, *, older_than: float = DAY) -> Usage | None:
        """What was removed; None when it was stopped before. TurnoutError when nobody knows what is needed: a snapshot
        of the store cannot be read, or the blobs were used with another database as well. Nothing is removed then."""
        self._check_user()
        needed = self._needed()
        return None if needed is None else self._blobs.gc(needed, older_than)

    def collect(self, *, dry_run: bool = False) -> Collected:
        """Removes at once what the last hour did not want; says what that was, or would be. Raises as `sweep`."""
        self._check_user()
        needed = self._needed(rest=0.0)
        if needed is None:
            raise Unavailable("the hub is stopping", hint="try again in a moment")
        found = self._blobs.unneeded(needed)
        return Collected(removed=found.now if dry_run else self._blobs.gc_at_once(needed), later=found.later)

    def _run(self) -> None:
        try:
            removed = self.sweep()
            if removed is not None:
                write_private(self._last, str(time.time()))
                _log.info("removed %d blobs (%d bytes) that nothing refers to", removed.blobs, removed.bytes)
        except TurnoutError as error:
            _log.warning("unused blobs are not removed: %s", error)
        except Exception:
            _log.exception("unused blobs are not removed")

    def _check_user(self) -> None:
        if not self._is_only_user:
            hint = f"remove {self._users} when only this one is left"
            raise Conflict(f"the blobs were used with several databases ({hint})")

    def _needed(self, *, rest: float = _REST) -> set[str] | None:
        """Every blob that a snapshot in the store names, or is the manifest of; None when it was stopped before."""
        manifests: set[str] = set()
        needed: set[str] = set()
        for kind in Kind:
            below: int | None = None
            is_last = False
            while not is_last:
                began = time.monotonic()
                with self._store.read() as connection:
                    page = references(connection, kind, below=below, count=_PAGE)
                for reference in page.references:
                    if reference.manifest not in manifests:
                        manifests.add(reference.manifest)
                        needed.update(entry.digest for entry in self._entries(reference))
                below, is_last = page.below, page.below is None
                if self._stopping.wait(rest * (time.monotonic() - began)):
                    return None
        return needed | manifests

    def _entries(self, reference: Reference) -> list[Entry]:
        try:
            return self._snapshots.entries(reference.manifest)
        except TurnoutError as error:
            raise Internal(f"what belongs to the files of {reference.owner} is not known: {error}") from error

    def _next_time(self) -> float:
        """A day after the last time. A time that is still to come was written by a clock that was wrong."""
        try:
            last = float(self._last.read_text())
        except (OSError, ValueError):
            return 0.0
        return last + DAY if last <= time.time() else 0.0

    def _remember(self, database: str) -> bool:
        """Notes who uses the blobs; whether nobody else ever did, as far as it can be told."""
        users: set[str] = set()
        try:
            with suppress(FileNotFoundError):
                users = set(self._users.read_text().splitlines())
            if database not in users:
                write_private(self._users, "".join(f"{user}\n" for user in sorted(users | {database})))
        except OSError as error:
            _log.warning("it cannot be noted who uses the blobs, and so none is removed: %s", error)
            return False
        return users <= {database}
