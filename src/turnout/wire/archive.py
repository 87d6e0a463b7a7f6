"""One file for a whole workspace: a plain tar of parts that are named after what is in them.

``turnout-archive.json`` comes first and says the format, ``manifest.json`` last: how many of everything there are, and
the sha256 of every byte before it. In between lie ``rows/TABLE-N.jsonl.gz``, ``output/RUN-ATTEMPT.txt`` and
``blobs/SHA256``. A reader accepts these names and nothing else, in one pass, and writes nothing anywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zlib
from typing import Any, BinaryIO, Dict, Iterable, Iterator, Optional, Set, Tuple

FORMAT = 1
_HEAD, _MANIFEST, _ERROR = "turnout-archive.json", "manifest.json", "error.json"
_NAME = re.compile(
    r"(?:(rows)/([a-z_]{1,40})-\d{1,9}\.jsonl\.gz|(output)/(run[0-9.]{1,40}-\d{1,9})\.txt|(blobs)/([0-9a-f]{64}))\Z"
)
_BLOCK = 512
_PIECE = 1 << 20
_LARGEST_NOTE = 1 << 20
_LARGEST_ROWS = 256 << 20
Counts = Dict[str, int]


class BadArchive(ValueError):
    """The file is no archive, is one of another format, or is not as it was written. `hint` says what to do."""

    hint = "export it again, or copy it again"


class NoArchive(BadArchive):
    hint = "`turnout export WORKSPACE FILE` writes an archive"


class OtherFormat(BadArchive):
    hint = "import it with the turnout that wrote it, or a newer one; or export it there again with this version"


class Failed(BadArchive):
    """Whoever wrote the archive could not go on, and said why; `told` is that error as a dictionary."""

    def __init__(self, told: Dict[str, Any]) -> None:
        super().__init__(str(told.get("message", "")))
        self.told = told


class Writer:
    """Gives the bytes of an archive, piece by piece, in the order of the calls: `head`, parts, then `end` or `fail`."""

    def __init__(self, time: int) -> None:
        self._time = time
        self._digest = hashlib.sha256()
        self._bytes = 0
        self.counts: Counts = {}

    def head(self, told: Dict[str, Any]) -> Iterator[bytes]:
        return self._part(_HEAD, json.dumps({"format": FORMAT, **told}, indent=1).encode())

    def rows(self, table: str, number: int, lines: bytes) -> Iterator[bytes]:
        """`lines` are JSON, one object a line."""
        self._count(f"rows.{table}", lines.count(b"\n"))
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        return self._part(f"rows/{table}-{number:04}.jsonl.gz", packer.compress(lines) + packer.flush())

    def output(self, run: str, attempt: int, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """All that an attempt printed. ValueError when `pieces` are not of that size together."""
        self._count("output", 1)
        self._count("output_bytes", size)
        return self._stream(f"output/{run}-{attempt}.txt", size, pieces)

    def blob(self, digest: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        self._count("blobs", 1)
        self._count("blob_bytes", size)
        return self._stream(f"blobs/{digest}", size, pieces)

    def end(self) -> Iterator[bytes]:
        told = {"counts": self.counts, "bytes": self._bytes, "sha256": self._digest.hexdigest()}
        yield from self._part(_MANIFEST, json.dumps(told, indent=1).encode())
        yield b"\0" * (2 * _BLOCK)

    def fail(self, told: Dict[str, Any]) -> Iterator[bytes]:
        """In the middle of a part, the reader finds the archive cut short instead."""
        return self._part(_ERROR, json.dumps(told).encode())

    def _count(self, what: str, more: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def _part(self, name: str, content: bytes) -> Iterator[bytes]:
        return self._stream(name, len(content), (content,))

    def _stream(self, name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, self._time, 0o600
        yield self._take(member.tobuf(tarfile.GNU_FORMAT))
        left = size
        for piece in pieces:
            left -= len(piece)
            yield self._take(piece)
        if left:
            raise ValueError(f"{name} has {size - left} bytes, not {size}")
        yield self._take(b"\0" * (-size % _BLOCK))

    def _take(self, piece: bytes) -> bytes:
        self._digest.update(piece)
        self._bytes += len(piece)
        return piece


class Part:
    """``rows``, ``output`` or ``blobs``, and which; its bytes can be read once, before the next part is asked for."""

    def __init__(self, reader: "Reader", kind: str, name: str, size: int) -> None:
        self.kind, self.name, self.size = kind, name, size
        self._reader = reader
        self._left = size

    def pieces(self) -> Iterator[bytes]:
        while self._left:
            piece = self._reader.exactly(min(self._left, _PIECE))
            self._left -= len(piece)
            yield piece

    def content(self) -> bytes:
        return b"".join(self.pieces())

    def lines(self) -> bytes:
        """Rows, unpacked. BadArchive when they are damaged or unreasonably many."""
        if self.size > _LARGEST_ROWS:
            raise BadArchive(f"the rows of {self.name} are too many: {self.size} bytes")
        return unpack_rows(self.name, self.content())


class Reader:
    """Reads an archive once, from its beginning. `head` is there at once; `counts` when `parts` has come to its end.

    That end is reached only when every byte before it is as it was written; until then nothing that was read is to be
    trusted. BadArchive everywhere, for whatever is wrong.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.position = 0
        self._found: Counts = {}
        self._names: Set[str] = set()
        self.counts: Counts = {}
        self.head = self._note(_HEAD, self._begin())
        if self.head.get("format") != FORMAT:
            found = str(self.head.get("format"))[:20]
            wrote = str(self.head.get("turnout"))[:20]
            raise OtherFormat(f"the archive has format {found}, of turnout {wrote}; this one reads format {FORMAT}")

    def parts(self) -> Iterator[Part]:
        """All parts in order; what of a part was not read is passed over."""
        while True:
            digest, position = self._digest.hexdigest(), self.position
            name, size = self._member()
            if name == _ERROR:
                raise Failed(self._note(name, size))
            if name == _MANIFEST:
                self._finish(self._note(name, size), digest, position)
                return
            found = _NAME.match(name)
            if not found:
                raise BadArchive(f"{name[:80]!r} is not a part of an archive")
            if name in self._names:
                raise BadArchive(f"{name!r} is twice in the archive")
            self._names.add(name)
            kind, what = [each for each in found.groups() if each is not None]
            part = Part(self, kind, what, size)
            yield part
            for _ in part.pieces():
                pass
            self._padding(size)
            self._tally(kind, size)

    def tally_rows(self, table: str, lines: bytes) -> None:
        """So many rows of `table` were there; to be told of every part of them before the end."""
        self._add(f"rows.{table}", lines.count(b"\n"))

    def exactly(self, count: int) -> bytes:
        pieces = []
        missing = count
        while missing:
            piece = self._stream.read(missing)
            if not piece:
                raise BadArchive(f"the archive is cut short at byte {self.position + count - missing}")
            pieces.append(piece)
            missing -= len(piece)
        content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._taken(content)
        return content

    def _taken(self, content: bytes) -> None:
        self._digest.update(content)
        self.position += len(content)

    def _begin(self) -> int:
        """Passes the header of the first part, whose name no other file begins with, and gives that part's size."""
        name = _HEAD.encode() + b"\0"
        start = self._stream.read(len(name))
        if not start or not name.startswith(start):
            raise NoArchive("this is not an archive of turnout")
        self._taken(start)
        return self._member(start)[1]

    def _member(self, start: bytes = b"") -> Tuple[str, int]:
        """The name and size of the next part; `start` are bytes of its header that were read before."""
        block = start + self.exactly(_BLOCK - len(start))
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise BadArchive(f"the archive is damaged at byte {self.position - _BLOCK}: {error}") from error
        if member.type != tarfile.REGTYPE or member.size < 0:
            raise BadArchive(f"{member.name[:80]!r} is not a file")
        return member.name, member.size

    def _note(self, name: str, size: int) -> Dict[str, Any]:
        if size > _LARGEST_NOTE:
            raise BadArchive(f"{name} has {size} bytes")
        try:
            told = json.loads(self.exactly(size))
        except (ValueError, RecursionError) as error:
            raise BadArchive(f"{name} is damaged: {error}") from error
        self._padding(size)
        if not isinstance(told, dict):
            raise BadArchive(f"{name} is damaged: it is not an object")
        return told

    def _padding(self, size: int) -> None:
        if self.exactly(-size % _BLOCK).strip(b"\0"):
            raise BadArchive(f"the archive is damaged before byte {self.position}")

    def _tally(self, kind: str, size: int) -> None:
        if kind != "rows":
            self._add(kind, 1)
            self._add("output_bytes" if kind == "output" else "blob_bytes", size)

    def _add(self, what: str, more: int) -> None:
        self._found[what] = self._found.get(what, 0) + more

    def _finish(self, manifest: Dict[str, Any], digest: str, position: int) -> None:
        if (manifest.get("sha256"), manifest.get("bytes")) != (digest, position):
            raise BadArchive("the archive is damaged: its bytes are not those its manifest speaks of")
        if manifest.get("counts") != self._found:
            raise BadArchive(f"the archive holds {self._found}, and its manifest says {manifest.get('counts')}")
        if self.exactly(2 * _BLOCK).strip(b"\0") or self._stream.read(1):
            raise BadArchive("there is something behind the end of the archive")
        self.counts = self._found


def unpack_rows(table: str, content: bytes) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        lines = unpacker.decompress(content, _LARGEST_ROWS)
    except zlib.error as error:
        raise BadArchive(f"the rows of {table} are damaged: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise BadArchive(f"the rows of {table} are damaged or too many")
    return lines


def check(stream: BinaryIO, watch: Optional[Any] = None) -> Reader:
    """Reads all of an archive and checks it: every byte, every blob by its name, the number of everything.

    `watch`, if given, is called with the position now and then. The reader that is returned has `head` and `counts`.
    """
    reader = Reader(stream)
    for part in reader.parts():
        if part.kind == "rows":
            reader.tally_rows(part.name, part.lines())
        elif part.kind == "blobs":
            digest = hashlib.sha256()
            for piece in part.pieces():
                digest.update(piece)
            if digest.hexdigest() != part.name:
                raise BadArchive(f"blob {part.name} is damaged")
        if watch is not None:
            watch(reader.position)
    return reader
