"""Snapshots as the hub has them: a manifest, and every blob it names. One that lacks any is not accepted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from turnout.blobs import Blobs
from turnout.blobs.recent import uptime
from turnout.errors import Internal, InvalidInput, NotFound
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

_SURE_SECONDS = 600.0  # far less than the hour for which what somebody asked for is kept
_KEPT = 10_000


class Snapshots:
    """Every method may be called from any thread."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._whole: OrderedDict[str, float] = OrderedDict()  # manifest -> when it was found whole

    def absent(self, manifests: Iterable[str]) -> list[str]:
        """Those that are not here as a whole. All blobs of the others stay here for most of an hour, so that a
        transaction that refers to them has time. InvalidInput for a blob that is no manifest."""
        asked = list(dict.fromkeys(manifests))
        missing = set(self._blobs.missing(asked))
        return [digest for digest in asked if digest in missing or not self._is_whole(digest)]

    def entries(self, digest: str) -> list[Entry]:
        """What is in a snapshot. NotFound, Internal when its manifest is damaged, InvalidInput when it is none."""
        try:
            return manifest.decode(self._blobs.read(digest))
        except BadManifest as error:
            raise InvalidInput(f"blob {digest} is not the manifest of a snapshot: {error}") from error

    def _is_whole(self, digest: str) -> bool:
        now = uptime()
        if digest in self._whole and now - self._whole[digest] < _SURE_SECONDS:
            return True
        try:
            named = {entry.digest for entry in self.entries(digest) if entry.digest}
        except (NotFound, Internal):
            return False
        if self._blobs.missing(named):
            return False
        self._whole[digest] = now
        while len(self._whole) > _KEPT:
            self._whole.popitem(last=False)
        return True
