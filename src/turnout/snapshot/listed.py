"""What a list of frozen files tells of itself."""

from __future__ import annotations

from functools import cached_property

from turnout.wire import manifest
from turnout.wire.manifest import Entry


class Listed:
    """For whatever has `entries`, which never change."""

    entries: tuple[Entry, ...]

    @cached_property
    def manifest(self) -> bytes:
        """The manifest, itself a blob."""
        return manifest.encode(self.entries)

    @cached_property
    def digest(self) -> str:
        """The digest of the manifest: the name of the snapshot."""
        return manifest.digest_of(self.manifest)

    @property
    def files(self) -> int:
        return len(self.entries)

    @property
    def total_bytes(self) -> int:
        return sum(entry.size for entry in self.entries)
