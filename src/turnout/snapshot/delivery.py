"""Bringing a snapshot to a store: only what is missing there, and only what the manifest says.

Between capture and upload a file may change. What is read again is hashed again, so that is noticed; the file is then
taken as it is now, and the snapshot that is returned says so.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from turnout.snapshot import secrets
from turnout.snapshot.problems import Kind, Problems
from turnout.snapshot.reading import KEPT_SIZE, OPENING, Changing, read_stable
from turnout.snapshot.snapshot import Snapshot
from turnout.snapshot.walk import identity
from turnout.wire.manifest import Entry

_ROUNDS = 3
_BLOCK = 1 << 20


class Sink(Protocol):
    """Where blobs go: a store, or the way to one."""

    def missing(self, digests: Iterable[str]) -> list[str]: ...
    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None: ...
    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None: ...


def deliver(snapshot: Snapshot, sink: Sink) -> Snapshot:
    """Put everything of `snapshot` into `sink`, its manifest last, and return the snapshot as it was delivered.

    Returning means that the sink has all of it. The result is another snapshot when files changed since the capture.
    SnapshotRefused when one vanished, does not stand still, or has become something that must not be taken; what was
    sent by then stays in the sink. What the sink raises passes through. May be repeated.
    """
    for _ in range(_ROUNDS):
        delivery = _Delivery(snapshot)
        delivery.send(sink)
        if not delivery.unsettled:
            if sink.missing([snapshot.digest]):
                _put(sink, snapshot.digest, snapshot.manifest)
            return snapshot
        entries = tuple(delivery.unsettled.get(entry.path, entry) for entry in snapshot.entries)
        snapshot = replace(snapshot, entries=entries)
    problems = Problems()
    for path in delivery.unsettled:
        problems.add(path, "keeps changing while it is sent", Kind.CHANGING)
    raise problems.refusal(snapshot.root)


class _Different(Exception):
    """A file is no longer what the manifest says. Comes out of the chunks a sink is reading, so that it keeps none."""


class _Delivery:
    """One round: send what is missing; `unsettled` are the files that were different by then, as they are now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._problems = Problems()
        self.unsettled: dict[str, Entry] = {}

    def send(self, sink: Sink) -> None:
        one_of = {entry.digest: entry for entry in self._snapshot.entries if not entry.link}
        absent = [one_of[digest] for digest in sink.missing(one_of)]
        small = [entry for entry in absent if entry.size <= KEPT_SIZE]
        if small:
            sink.put_many(self._contents(small))
        for entry in absent:
            if entry.size > KEPT_SIZE:
                try:
                    sink.put_stream(entry.digest, _Content(self._snapshot.root, entry))
                except _Different:
                    self._read_again(entry)
        self._problems.raise_if_any(self._snapshot.root)

    def _contents(self, entries: Iterable[Entry]) -> Iterator[tuple[str, bytes]]:
        kept = self._snapshot.contents
        for entry in entries:
            content = kept.get(entry.digest)
            if content is not None:
                yield entry.digest, content
                continue
            now, head = self._read_again(entry)
            if len(head) == now.size <= KEPT_SIZE:
                yield now.digest, head
                if now.digest == entry.digest:
                    self.unsettled.pop(entry.path, None)

    def _read_again(self, entry: Entry) -> tuple[Entry, bytes]:
        """The file as it is now, noted as unsettled, and its content or the beginning of it; b"" when it is refused."""
        path, policy, problems = entry.path, self._snapshot.policy, self._problems
        full = os.path.join(self._snapshot.root, path)
        try:
            digest, head, (size, *_), mode = read_stable(None, full, identity(os.lstat(full)))
        except (Changing, OSError) as error:
            reason = "keeps changing while it is read" if isinstance(error, Changing) else f"is gone ({error.strerror})"
            problems.add(path, reason, Kind.CHANGING)
            return entry, b""
        now = self.unsettled[path] = Entry(path, mode, size, digest)
        verdict = secrets.judge(path, head)
        if policy.refuses_size(path, size, problems) or policy.refuses_secret(path, verdict, problems):
            return now, b""
        return now, head


@dataclass(frozen=True, slots=True)
class _Content:
    """A file's content in blocks, from its beginning as often as a sink needs it. Reading it may raise _Different."""

    root: str
    entry: Entry

    def __iter__(self) -> Iterator[bytes]:
        found = hashlib.sha256()
        try:
            file_number = os.open(os.path.join(self.root, self.entry.path), OPENING)
            with open(file_number, "rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    found.update(block)
                    yield block
        except OSError as error:
            raise _Different from error
        if found.hexdigest() != self.entry.digest:
            raise _Different


def _put(sink: Sink, digest: str, content: bytes) -> None:
    if len(content) > KEPT_SIZE:
        sink.put_stream(digest, (content,))
    else:
        sink.put_many([(digest, content)])
