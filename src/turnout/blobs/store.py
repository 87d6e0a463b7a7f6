"""Blobs in a local directory: small ones in packs, large ones as files."""

from __future__ import annotations

import hashlib
import io
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from turnout import errors
from turnout.blobs import faults
from turnout.blobs.base import Sample, Unneeded, Usage
from turnout.blobs.large import LargeBlobs
from turnout.blobs.marks import Marks
from turnout.blobs.packs import LARGEST
from turnout.blobs.recent import Recent
from turnout.blobs.small import SmallBlobs

_BATCH = 8 << 20  # bytes of small blobs gathered for one write and one fsync
_SAMPLED = 5000  # small blobs, and as many large ones, chosen to be looked at
_SAMPLED_SIZE = 64 << 20
_RECENT_SECONDS = 3600.0


class BlobStore:
    """A `turnout.blobs.Blobs` in `directory` (made, 0700, when missing) of at most `quota` bytes.

    Owned by one process, whose lock on the state directory is the caller's affair; any thread of it may call. Opening
    after a crash cuts what was torn and finds all that was acknowledged. `close` only makes the next opening faster.
    """

    def __init__(self, directory: Path | str, *, quota: int | None = None) -> None:
        root = os.fspath(directory)
        self._quota = quota
        with faults.disk("opened"):
            for path in (root, f"{root}/packs", f"{root}/files"):
                if not os.path.isdir(path):
                    os.mkdir(path, 0o700)
            self._small = SmallBlobs(f"{root}/packs", f"{root}/index")
            self._large = LargeBlobs(f"{root}/files")
            self._marks = Marks(f"{root}/unwanted")
        self._wanting = threading.Lock()  # held while saying what is there, and while a collection decides
        self._recent = Recent(_RECENT_SECONDS)

    def close(self) -> None:
        """Save the index. Closing twice, or using the store afterwards, is fine."""
        with faults.writing():
            self._small.save()

    def missing(self, digests: Iterable[str]) -> list[str]:
        wanted = {digest: faults.raw(digest) for digest in digests}
        with self._wanting, faults.writing():
            self._marks.release(wanted)
            self._recent.note(wanted.values())
            absent = self._small.absent(wanted.values())
            return [digest for digest, raw in wanted.items() if raw in absent and digest not in self._large.sizes]

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        with _Writer(self._put_small) as writer:
            for digest, content in blobs:
                raw = hashlib.sha256(content).digest()
                if raw.hex() != digest:
                    raise faults.mismatch(digest)
                if len(content) > LARGEST:
                    self._put_large(digest, (content,))
                else:
                    writer.add(raw, content)

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        """As `Blobs.put_stream`; a blob that is there already leaves the rest of `chunks` unread."""
        faults.raw(digest)
        source, start = iter(chunks), b""
        for chunk in source:
            start += chunk
            if len(start) > LARGEST:
                self._put_large(digest, chain((start,), source))
                return
        self.put_many([(digest, start)])

    def read(self, digest: str) -> bytes:
        raw = faults.raw(digest)
        with faults.reading():
            if digest in self._large.sizes:
                with self._large.open(digest) as file:
                    return file.read()
            return self._small.read(raw)

    def read_many(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = {digest: faults.raw(digest) for digest in digests}
        ordered = dict.fromkeys(raw.hex() for raw in self._small.in_disk_order(wanted.values()))
        for digest in chain(ordered, (digest for digest in wanted if digest not in ordered)):
            yield digest, self.read(digest)

    def open(self, digest: str) -> BinaryIO:
        raw = faults.raw(digest)
        with faults.reading():
            return self._large.open(digest) if digest in self._large.sizes else io.BytesIO(self._small.read(raw))

    def size(self, digest: str) -> int:
        size = self._small.size(faults.raw(digest))
        if size is None:
            size = self._large.sizes.get(digest)
        if size is None:
            raise faults.unknown(digest)
        return size

    def usage(self) -> Usage:
        sizes = self._large.sizes.copy()
        return Usage(blobs=len(self._small) + len(sizes), bytes=self._small.disk_bytes() + sum(sizes.values()))

    def unneeded(self, keep: Set[str]) -> Unneeded:
        found = [digest for digest in self._all() if digest not in keep]
        with self._wanting:
            lately = [digest for digest in found if bytes.fromhex(digest) in self._recent]
        return Unneeded(now=self._usage_of(set(found) - set(lately)), later=self._usage_of(lately))

    def gc_at_once(self, keep: Set[str]) -> Usage:
        return self._collect(keep, 0.0, time.time(), spare_recent=True)

    def gc(self, keep: Set[str], older_than: float, *, now: float | None = None) -> Usage:
        """As `Blobs.gc`; `now` replaces the wall clock."""
        return self._collect(keep, older_than, time.time() if now is None else now, spare_recent=False)

    def _usage_of(self, digests: Collection[str]) -> Usage:
        sizes = [self._small.size(bytes.fromhex(digest)) or self._large.sizes.get(digest, 0) for digest in digests]
        return Usage(blobs=len(sizes), bytes=sum(sizes))

    def _collect(self, keep: Set[str], older_than: float, now: float, *, spare_recent: bool) -> Usage:
        found = [digest for digest in self._all() if digest not in keep]
        with self._wanting, faults.writing():
            unwanted = {digest: self._marks.since.get(digest, now) for digest in found}
            ripe = {digest for digest, since in unwanted.items() if now - since >= older_than}
            if spare_recent:
                ripe = {digest for digest in ripe if bytes.fromhex(digest) not in self._recent}
            removed = self._usage_of(ripe)
            self._small.drop(map(bytes.fromhex, ripe))
            self._large.remove(digest for digest in ripe if digest in self._large.sizes)
            with suppress(OSError):  # on a full disk: what is not remembered is found again the next time
                self._marks.replace({digest: since for digest, since in unwanted.items() if digest not in ripe})
        with faults.writing():
            self._small.compact()
        return removed

    def check(self) -> list[str]:
        self._large.forget()
        return [digest for digest in self._all() if not self._is_sound(digest)]

    def sample(self, seconds: float) -> Sample:
        """As `Blobs.sample`. Files over 64 MB, and those that did not change since they were last read, stay unread."""
        deadline = time.monotonic() + seconds
        sizes = self._large.sizes.copy()
        large = [digest for digest, size in sizes.items() if size <= _SAMPLED_SIZE]
        chosen = [raw.hex() for raw in self._small.some(_SAMPLED)] + random.sample(large, min(_SAMPLED, len(large)))
        random.shuffle(chosen)
        damaged: list[str] = []
        for read, digest in enumerate(chosen):
            if time.monotonic() > deadline:
                return Sample(read=read, damaged=damaged)
            if not self._is_sound(digest):
                damaged.append(digest)
        return Sample(read=len(chosen), damaged=damaged)

    def _all(self) -> list[str]:
        return [*(raw.hex() for raw in self._small.digests()), *self._large.sizes.copy()]

    def _is_sound(self, digest: str) -> bool:
        try:
            self.open(digest).close()
        except errors.NotFound:
            return True  # collected while we were looking
        except errors.Internal:
            return False
        return True

    def _put_small(self, batch: dict[bytes, bytes]) -> None:
        with self._wanting, faults.writing():
            self._marks.release(digest.hex() for digest in batch)
            self._recent.note(batch)
            absent = self._small.absent(batch)
        new = {digest: batch[digest] for digest in absent} if len(absent) < len(batch) else batch
        if new:
            self._check_quota(sum(map(len, new.values())))
            with faults.writing():
                self._small.put(new)

    def _put_large(self, digest: str, chunks: Iterable[bytes]) -> None:
        if self.missing((digest,)):
            self._large.put(digest, self._within_quota(chunks))

    def _within_quota(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            self._check_quota(size)
            yield chunk

    def _check_quota(self, more: int) -> None:
        if self._quota is not None and (used := self.usage().bytes) + more > self._quota:
            raise faults.over_quota(more, used, self._quota)


class _Writer:
    """Gathers small blobs and hands them on in batches; one is on its way to the disk while the next comes together.

    Leaving it means that all are written, also when it is left by an error of whoever brings them.
    """

    def __init__(self, write: Callable[[dict[bytes, bytes]], None]) -> None:
        self._write = write
        self._batch: dict[bytes, bytes] = {}
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None

    def add(self, digest: bytes, content: bytes) -> None:
        self._batch[digest] = content
        self._size += len(content)
        if self._size >= _BATCH:
            self._wait()
            self._thread = self._thread or ThreadPoolExecutor(1)
            full, self._batch, self._size = self._batch, {}, 0
            self._writing = self._thread.submit(self._write, full)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._wait()
            if self._batch:
                self._write(self._batch)
        finally:
            if self._thread is not None:
                self._thread.shutdown()
