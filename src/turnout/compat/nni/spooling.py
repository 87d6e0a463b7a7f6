"""What trials told their service, on the disk until the hub has it."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections import deque
from pathlib import Path
from typing import Any

from turnout.wire import frames

#: So many records of trials that are not known yet are kept; a service may tell of some that nobody here submitted.
_MOST_EARLY = 10_000


class Spools:
    """A file of frames for each launch, below `directory`, by its token. From any thread. What was told of a trial that
    is not known yet waits in memory: a service may tell of it before it has said its id."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._early: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_EARLY)

    def know(self, trial: str, token: str) -> None:
        """That trial is the launch with this token, from now on."""
        with self._lock:
            self._tokens[trial] = token
            early = list(self._early)
            self._early.clear()
            for each, record in early:
                if each == trial:
                    self._append(token, record)
                else:
                    self._early.append((each, record))

    def append(self, trial: str, record: dict[str, Any]) -> None:
        with self._lock:
            if trial in self._tokens:
                self._append(self._tokens[trial], record)
            else:
                self._early.append((trial, record))

    def begin(self, token: str) -> None:
        """There is a file of that launch from now on: it began, whether it tells anything or not."""
        with self._lock:
            self._open(token)

    def has_begun(self, token: str) -> bool:
        """Also in a process before."""
        return self._path(token).exists()

    def read(self, token: str, start: int) -> bytes:
        """All behind the first `start` bytes."""
        try:
            with open(self._path(token), "rb") as file:
                file.seek(start)
                return file.read()
        except FileNotFoundError:
            return b""

    def forget(self) -> None:
        with self._lock:
            self._tokens.clear()
            self._counts.clear()
            self._early.clear()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _append(self, token: str, record: dict[str, Any]) -> None:
        self._open(token)
        with open(self._path(token), "ab") as file:
            file.write(frames.encode(self._counts[token], json.dumps(record).encode()))
        self._counts[token] += 1

    def _open(self, token: str) -> None:
        if token not in self._counts:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path(token).touch(mode=0o600)
            self._counts[token] = _mend(self._path(token))

    def _path(self, token: str) -> Path:
        return self._directory / hashlib.sha256(token.encode()).hexdigest()[:24]


def _mend(path: Path) -> int:
    """How many frames are there, of a process that was before; what it did not write to its end is cut off."""
    whole = list(frames.scan(path.read_bytes()))
    with open(path, "r+b") as file:
        file.truncate(whole[-1].end if whole else 0)
    return len(whole)
