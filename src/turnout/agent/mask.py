"""Secrets in what a run prints: covered on this node, before anything of it leaves."""

from __future__ import annotations

import re
from typing import Iterable

_SHORTEST = 4  # shorter ones stand in every other word; who reads those would only learn where they are
_COVER = b"*"


class Mask:
    """Stars in the place of each secret, a byte for a byte: what lies behind stays where it is.

    A secret of several lines is covered line by line, for what prints it may indent or join them.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        lines = {line.strip().encode("utf-8", "surrogateescape") for secret in secrets for line in secret.splitlines()}
        self._words = sorted((line for line in lines if len(line) >= _SHORTEST), key=len, reverse=True)
        # Looking ahead finds those that overlap too, so that what is covered does not depend on where one begins.
        self._found = re.compile(b"(?=(" + b"|".join(map(re.escape, self._words)) + b"))")

    def __bool__(self) -> bool:
        return bool(self._words)

    @property
    def reach(self) -> int:
        """How many bytes on either side decide about a byte."""
        return len(self._words[0]) - 1 if self._words else 0

    def cover(self, content: bytes) -> bytes:
        """The same with all secrets covered that are whole in it."""
        if not self._words:
            return content
        covered = bytearray(content)
        for match in self._found.finditer(content):
            covered[match.start() : match.end(1)] = _COVER * len(match[1])
        return bytes(covered)

    def unsure(self, end: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret, of which the rest is still to come."""
        for size in range(min(self.reach, len(end)), 0, -1):
            if any(word.startswith(end[-size:]) for word in self._words if len(word) > size):
                return size
        return 0
