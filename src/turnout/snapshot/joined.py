"""Several snapshots as one tree: each with the place in it where its files go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from turnout.errors import InvalidInput
from turnout.snapshot.delivery import Sink, deliver
from turnout.snapshot.listed import Listed
from turnout.snapshot.snapshot import Snapshot
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry


@dataclass(frozen=True)
class Part:
    """`place` is where in the tree its files go: "" for the top, or a path without a slash at its end."""

    snapshot: Snapshot
    place: str = ""

    @property
    def entries(self) -> Iterable[Entry]:
        if not self.place:
            return self.snapshot.entries
        return (entry._replace(path=f"{self.place}/{entry.path}") for entry in self.snapshot.entries)


@dataclass(frozen=True)
class Joined(Listed):
    """Made by `join`. Of `git`, the first part tells."""

    parts: tuple[Part, ...]
    entries: tuple[Entry, ...]

    @property
    def git(self) -> dict[str, object] | None:
        return self.parts[0].snapshot.git if self.parts else None

    @property
    def empty(self) -> list[str]:
        """The directories that are not in it, for they hold nothing."""
        return [f"{part.place}/{path}".lstrip("/") for part in self.parts for path in part.snapshot.empty]

    def deliver(self, sink: Sink) -> Joined:
        """As `delivery.deliver` does, of all parts; the manifest of the whole tree comes last."""
        kept = _joined(replace(part, snapshot=deliver(part.snapshot, sink)) for part in self.parts)
        if sink.missing([kept.digest]):
            sink.put_many([(kept.digest, kept.manifest)])
        return kept


def join(parts: Iterable[Part]) -> Joined:
    """InvalidInput when two of them have a file in the same place, or one has a file where another has a directory."""
    joined = _joined(parts)
    try:
        for part in joined.parts:
            if part.place:
                manifest.check_path(part.place)
        if len(joined.parts) > 1 or any(part.place for part in joined.parts):
            manifest.check(joined.entries)
    except BadManifest as error:
        raise InvalidInput(
            f"these directories cannot be one tree: {error}", hint="give each its own place: DIR::PLACE"
        ) from error
    return joined


def _joined(parts: Iterable[Part]) -> Joined:
    kept = tuple(parts)
    return Joined(kept, tuple(entry for part in kept for entry in part.entries))
