"""Where each small blob lies: a dict of the newest and a compact sorted table of all the others.

The table is a file that can be made again from the packs at any time, so it is written without ceremony and believed
only when its checksum holds. Digests spread evenly; a fan-out by their first twelve bits leaves few to look at.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

_HEAD = struct.Struct("<8sIIQ")  # magic, crc32 of the rest, length of the JSON head, number of blobs
_MAGIC = b"turnidx1" if sys.byteorder == "little" else b"turnidxB"
_PLACE = struct.Struct("=IQQ")
_FAN = 1 << 12


class Place(NamedTuple):
    """The content lies in pack number `pack`, `size` bytes from `offset` (behind its header)."""

    pack: int
    offset: int
    size: int


class Index:
    """Digest (32 raw bytes) -> Place. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self.fresh: dict[bytes, Place] = {}
        self._gone: set[bytes] = set()  # in the table, but no longer true
        self._count = 0
        self._fan = array("I", bytes(4 * (_FAN + 1)))
        self._digests = b""
        self._places = b""

    @property
    def changed(self) -> bool:
        """Whether there is anything that the saved table does not say."""
        return bool(self.fresh or self._gone)

    def __len__(self) -> int:
        return self._count - len(self._gone) + len(self.fresh)

    def find(self, digest: bytes) -> Place | None:
        place = self.fresh.get(digest)
        return place if place is not None or digest in self._gone else self._in_table(digest)

    def absent(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those that `find` would not find."""
        new = {digest for digest in digests if digest not in self.fresh}
        return {d for d in new if d in self._gone or self._in_table(d) is None} if self._count else new

    def update(self, places: Mapping[bytes, Place]) -> None:
        """Set the places of digests; the latest one counts."""
        if self._count:
            self._gone.update(digest for digest in places if self._in_table(digest) is not None)
        self.fresh.update(places)

    def drop(self, digest: bytes) -> None:
        """Forget a digest, known or not."""
        self.fresh.pop(digest, None)
        if self._in_table(digest) is not None:
            self._gone.add(digest)

    def items(self) -> Iterator[tuple[bytes, Place]]:
        """All, in no order that means anything. Nothing may be added or dropped meanwhile."""
        yield from self.fresh.items()
        for at, place in enumerate(_PLACE.iter_unpack(self._places)):
            digest = self._digests[at * 32 : at * 32 + 32]
            if digest not in self._gone:
                yield digest, Place(*place)

    def some(self, count: int) -> list[bytes]:
        """About `count`, taken from somewhere in the table and from what is new, in proportion."""
        fresh = min(len(self.fresh), 1 + count * len(self.fresh) // (len(self) or 1))
        start = random.randint(0, len(self.fresh) - fresh)
        found = list(itertools.islice(self.fresh, start, start + fresh))
        if self._count:
            first = random.randrange(self._count)
            places = [(first + step) % self._count for step in range(min(count - fresh, self._count))]
            found += [self._digests[at * 32 : at * 32 + 32] for at in places]
        return [digest for digest in found if digest in self.fresh or digest not in self._gone]

    def save(self, path: str, packs: dict[int, int]) -> None:
        """Write all of it, as true for the first `packs[number]` bytes of each pack; then the dict is empty."""
        rows = sorted(self.items())
        digests = b"".join([digest for digest, _ in rows])
        places = b"".join([_PLACE.pack(*place) for _, place in rows])
        head = json.dumps({str(number): length for number, length in packs.items()}).encode()
        crc = zlib.crc32(places, zlib.crc32(digests, zlib.crc32(head)))
        temporary = path + ".new"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(_HEAD.pack(_MAGIC, crc, len(head), len(rows)))
            file.writelines((head, digests, places))
        os.rename(temporary, path)
        self._set_table(digests, places)

    def load(self, path: str) -> dict[int, int] | None:
        """Take over the table at `path`; the pack lengths it is true for, or None when there is no sound one."""
        try:
            with open(path, "rb") as file:
                raw = file.read()
            magic, crc, head_size, count = _HEAD.unpack_from(raw)
        except (OSError, struct.error):
            return None
        start = _HEAD.size + head_size
        middle, end = start + count * 32, start + count * (32 + _PLACE.size)
        if magic != _MAGIC or len(raw) != end or zlib.crc32(memoryview(raw)[_HEAD.size :]) != crc:
            return None
        self._set_table(raw[start:middle], raw[middle:])
        return {int(number): length for number, length in json.loads(raw[_HEAD.size : start]).items()}

    def _in_table(self, digest: bytes) -> Place | None:
        bucket = digest[0] << 4 | digest[1] >> 4
        first, last = self._fan[bucket], self._fan[bucket + 1]
        if first == last:
            return None
        block = self._digests[first * 32 : last * 32]
        at = block.find(digest)
        while at > 0 and at % 32:
            at = block.find(digest, at + 1)
        return Place(*_PLACE.unpack_from(self._places, (first + at // 32) * _PLACE.size)) if at >= 0 else None

    def _set_table(self, digests: bytes, places: bytes) -> None:
        self.fresh, self._gone = {}, set()
        self._digests, self._places, self._count = digests, places, len(digests) // 32
        heads = array("H", digests)[::16]
        if sys.byteorder == "little":
            heads.byteswap()
        self._fan = array("I", [bisect_left(heads, bucket << 4) for bucket in range(_FAN + 1)])
