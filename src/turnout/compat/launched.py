"""Launches of systems that were not written for us: what a handle says, and a journal of those there are."""

from __future__ import annotations

import json
import os
from typing import Self

from turnout.plugin.provider import Handle


class Told:
    """What a handle of a launch says: a dataclass of texts and numbers, with the launch's token among them."""

    def handle(self) -> Handle:
        return json.dumps(vars(self), sort_keys=True)

    @classmethod
    def read(cls, handle: Handle) -> Self | None:
        """None for a handle that is none of ours."""
        try:
            return cls(**json.loads(handle))
        except (ValueError, TypeError):
            return None


class Journal:
    """Which launch has which handle, in a file, for systems that cannot be asked for that."""

    def __init__(self, path: str) -> None:
        self._path = path

    def keep(self, handles: dict[str, Handle]) -> None:
        """By token. Returning means that it is on the disk."""
        with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "w") as file:
            # What comes before may be half a line: then it ends here.
            file.write("\n" + "".join(json.dumps([token, handle]) + "\n" for token, handle in handles.items()))
            file.flush()
            os.fsync(file.fileno())

    def find(self, token: str) -> Handle | None:
        try:
            with open(self._path, encoding="utf-8") as file:
                kept = [_entry(line) for line in file if token in line]
        except FileNotFoundError:
            return None
        return next((handle for found, handle in kept if found and found == token), None)

    def forget(self) -> None:
        if os.path.exists(self._path):
            os.unlink(self._path)


def _entry(line: str) -> tuple[str, Handle]:
    """Token and handle; nothing for a line that was not written to its end."""
    try:
        token, handle = json.loads(line)
    except ValueError:
        return "", ""
    return token, handle
