"""An archive on the hub's disk, on its way in: read through once and checked, then as often as it is needed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from turnout.blobs.base import Blobs
from turnout.wire.archive import BadArchive, Counts, Part, Reader, unpack_rows

_PIECE = 1 << 20


class Staged:
    """Making one reads the head, so that wrong formats are told at once. For one thread at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._reader = Reader(file)
        self._rows: dict[str, list[tuple[int, int]]] = {}
        self._output: list[tuple[str, int, int]] = []
        self.counts: Counts = {}
        self.id = self._told("id")
        self.workspace = self._told("workspace")

    def read(self, blobs: Blobs) -> None:
        """Reads and checks all of it; blobs are kept on the way. BadArchive when anything is wrong."""
        small: list[tuple[str, bytes]] = []
        size = 0
        for part in self._reader.parts():
            if part.kind == "blobs":
                if part.size > _PIECE:
                    blobs.put_stream(part.name, part.pieces())
                    continue
                small.append((part.name, part.content()))
                size += part.size
                if size > 8 * _PIECE:
                    blobs.put_many(small)
                    small, size = [], 0
            else:
                self._note(part)
        blobs.put_many(small)
        self.counts = self._reader.counts

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        for start, size in self._rows.get(table, ()):
            self._file.seek(start)
            for line in io.BytesIO(unpack_rows(table, self._file.read(size))):  # never a list: they may be millions
                yield _row(table, line)

    def output(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        for name, start, size in self._output:
            run, _, attempt = name.rpartition("-")
            yield run, int(attempt), self._pieces(start, size)

    def _note(self, part: Part) -> None:
        start = self._reader.position
        if part.kind == "rows":
            self._rows.setdefault(part.name, []).append((start, part.size))
            self._reader.tally_rows(part.name, part.lines())
        else:
            self._output.append((part.name, start, part.size))

    def _pieces(self, start: int, size: int) -> Iterator[bytes]:
        while size:
            self._file.seek(start)
            piece = self._file.read(min(size, _PIECE))
            start, size = start + len(piece), size - len(piece)
            yield piece

    def _told(self, name: str) -> str:
        value = self._reader.head.get(name)
        if not isinstance(value, str) or not value:
            raise BadArchive(f"its head does not tell its {name}")
        return value


def _row(table: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadArchive(f"a row of {table} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadArchive(f"a row of {table} is not an object")
    return row
