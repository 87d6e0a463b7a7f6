"""Metrics among the lines that a trial prints: NNI's library does so where it takes its platform for a remote one."""

from __future__ import annotations

import re
from typing import Any

from turnout.wire import nni

_MARK = b"NNISDK_ME"
#: A quotation mark may be in a record: it ends with the last one of its line. What comes before it is none of it.
_LINE = re.compile(rb"NNISDK_MEb?'(.*)'\s*\Z", re.DOTALL)
_LONGEST = 10**6


class Printed:
    """Finds them in output that comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> bytes:
        """The records of the lines that end in this piece, as the library writes them to its file."""
        text = self._rest + piece
        end = text.rfind(b"\n") + 1
        self._rest = text[end:]
        if len(self._rest) > nni.LONGEST:  # what is before a record, or is too long for one, is not kept
            begin = self._rest.find(_MARK)
            is_record = begin >= 0 and len(self._rest) - begin <= nni.LONGEST
            self._rest = self._rest[begin if is_record else -len(_MARK) :]
        if _MARK not in text:
            return b""
        return b"".join(record(found[1]) for line in text[:end].split(b"\n") if (found := _LINE.search(line)))


def record(told: bytes) -> bytes:
    """What the library says, as in its file; nothing where it is too long for that."""
    return b"ME%06d%b\n" % (len(told) + 1, told) if len(told) + 1 < _LONGEST else b""


def points(records: bytes, when: float) -> list[dict[str, Any]]:
    """The same as a run's own process would log them."""
    return nni.records(records, when)[0]
