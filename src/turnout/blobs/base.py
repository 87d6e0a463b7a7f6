"""What any store of blobs promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How many blobs there are and how many bytes they take on disk."""

    blobs: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many blobs were read, and which of them are damaged and count as missing by now."""

    read: int
    damaged: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """What a collection at once would remove `now`, and what it leaves for `later`, since it was wanted lately."""

    now: Usage
    later: Usage


class Blobs(Protocol):
    """Content by sha256 (64 hex digits). Putting is idempotent; what was put is never changed; any thread may call.

    A digest that is not 64 lower-case hex digits is InvalidInput everywhere; one that is not there is NotFound. Content
    is checked against its digest on the way in (InvalidInput) and on the way out (Internal, naming the digest; the blob
    then counts as missing, so putting it again heals the store). No room is Unavailable, and nothing half-visible.
    """

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those that are not there, each once. The others are safe from collection while the upload goes on."""

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        """Keep them. Returning means all are on disk. When `blobs` raises, what came before it may be kept."""

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Keep one blob of any size without holding it in memory. Returning means it is on disk."""

    def read(self, digest: str) -> bytes:
        """The content, checked."""

    def read_many(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each (digest, content), checked, in whatever order is cheapest."""

    def open(self, digest: str) -> BinaryIO:
        """The content, checked, for reading piece by piece; the caller closes it."""

    def size(self, digest: str) -> int:
        """The number of bytes of the content."""

    def usage(self) -> Usage:
        """What all of it takes."""

    def gc(self, keep: Set[str], older_than: float) -> Usage:
        """Remove what is not in `keep` and was found so `older_than` seconds ago already; return what was removed.

        Two phases, so that no upload is cut off: the first call that does not find a blob in `keep` only marks it; a
        call at least `older_than` seconds later removes it, unless `missing` or a put named it in between. Choose
        `older_than` longer than the longest time between asking what is missing and submitting the job that needs it.
        """

    def unneeded(self, keep: Set[str]) -> Unneeded:
        """What is not in `keep`. Changes nothing."""

    def gc_at_once(self, keep: Set[str]) -> Usage:
        """Remove what is not in `keep`, in one phase; what was sent or asked for within the last hour stays. A client
        that slept for longer between asking and submitting is told to send again."""

    def check(self) -> list[str]:
        """Read everything; the digests of the blobs that are damaged, which then count as missing."""

    def sample(self, seconds: float) -> Sample:
        """Read some, others each time, for about so long, however many there are."""
