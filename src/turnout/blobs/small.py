"""Small blobs: many in few pack files, and an index that says where.

The packs are the truth. Opening believes the saved index for as far as it covers them and reads the rest, so a crash
at any byte costs at most that reading. Writing and looking up have a lock each: nobody waits for somebody's fsync.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Set

from turnout import errors
from turnout.blobs import faults
from turnout.blobs.index import Index, Place
from turnout.blobs.packs import Packs, remove_durably
from turnout.wire import pack

_UNSAVED = 50_000  # new blobs after which the index is saved: bounds what an opening after a crash must read


class SmallBlobs:
    """The blobs in the packs of `directory`, by raw digest; `index_path` is where the index is saved."""

    def __init__(self, directory: str, index_path: str) -> None:
        self._packs = Packs(directory)
        self._index_path = index_path
        self._writing = threading.Lock()
        self._looking = threading.Lock()
        self._index = Index()
        self._recover()

    def __len__(self) -> int:
        return len(self._index)

    def disk_bytes(self) -> int:
        """What the packs take on disk."""
        return sum(self._packs.lengths.copy().values())

    def absent(self, digests: Iterable[bytes]) -> Set[bytes]:
        """Those that are not here."""
        with self._looking:
            return self._index.absent(digests)

    def size(self, digest: bytes) -> int | None:
        place = self._find(digest)
        return None if place is None else place.size

    def digests(self) -> list[bytes]:
        """All of them, in the order they lie on disk."""
        with self._looking:
            return [digest for digest, _ in sorted(self._index.items(), key=lambda item: item[1])]

    def some(self, count: int) -> list[bytes]:
        """At most about `count` of them, others each time; cheap also when there are millions."""
        with self._looking:
            return self._index.some(count)

    def in_disk_order(self, digests: Iterable[bytes]) -> list[bytes]:
        """Those of `digests` that are here, cheapest to read in this order."""
        with self._looking:
            placed = [(self._index.find(digest), digest) for digest in digests]
        return [digest for _, digest in sorted((place, digest) for place, digest in placed if place is not None)]

    def put(self, blobs: Mapping[bytes, bytes]) -> None:
        """Make content durable by digest, all or (OSError) nothing. The caller has checked the digests."""
        with self._writing:
            self._append(blobs)
            if len(self._index.fresh) > _UNSAVED:
                self._save()

    def read(self, digest: bytes) -> bytes:
        """The content, checked. NotFound; Internal when it is damaged, and then it is no longer here."""
        place = self._find(digest)
        while place is not None:
            content = self._packs.read(place)
            if hashlib.sha256(content).digest() == digest:
                return content
            before, place = place, self._find(digest)
            if place == before:  # not moved by a compaction meanwhile: it is bad where it lies
                self.drop((digest,))
                raise faults.damaged(digest.hex())
        raise faults.unknown(digest.hex())

    def drop(self, digests: Iterable[bytes]) -> None:
        """Forget these. Their room is given back by `compact`."""
        with self._looking:
            for digest in digests:
                self._index.drop(digest)

    def compact(self) -> None:
        """Move what is left out of packs that are mostly forgotten, and delete those packs."""
        with self._writing:
            left: dict[int, list[bytes]] = {number: [] for number in self._packs.lengths}
            kept = dict.fromkeys(left, 0)
            with self._looking:
                for digest, place in self._index.items():
                    left[place.pack].append(digest)
                    kept[place.pack] += place.size + pack.HEADER.size
            sparse = [number for number, length in self._packs.lengths.items() if 2 * kept[number] < length]
            if sparse:
                self._packs.seal(sparse)
                remove_durably(self._index_path)  # it must never promise what is no longer there
                for number in sorted(sparse, key=kept.__getitem__):  # the emptiest make room for the others
                    self._move(left[number])
                    self._packs.remove(number)
                self._save()

    def save(self) -> None:
        """Write the index down, so that the next opening is quick."""
        with self._writing:
            if self._index.changed:
                self._save()

    def _find(self, digest: bytes) -> Place | None:
        with self._looking:
            return self._index.find(digest)

    def _append(self, blobs: Mapping[bytes, bytes]) -> None:
        places = self._packs.append(blobs)
        with self._looking:
            self._index.update(places)

    def _move(self, digests: Iterable[bytes]) -> None:
        moving: dict[bytes, bytes] = {}
        for digest in digests:
            try:
                moving[digest] = self.read(digest)
            except (errors.Internal, errors.NotFound):
                continue  # damaged, and forgotten by now
        if moving:
            self._append(moving)

    def _save(self) -> None:
        with self._looking:
            self._index.save(self._index_path, self._packs.lengths)

    def _recover(self) -> None:
        covered = self._index.load(self._index_path)
        lengths = self._packs.lengths
        if covered is None or any(lengths.get(number, -1) < length for number, length in covered.items()):
            # It must also be gone from disk: once the packs have grown again, it would look true.
            self._index, covered = Index(), {}
            remove_durably(self._index_path)
        for number in sorted(lengths):
            end = covered.get(number, 0)
            for digest, place in self._packs.scan(number, end):
                end = place.offset + place.size
                if self._index.find(digest) is None:
                    self._index.update({digest: place})
            self._packs.cut(number, end)
