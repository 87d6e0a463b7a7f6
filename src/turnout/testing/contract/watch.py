"""Sees what a piece of code does beside computing: files, processes, connections, threads, sleep."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

#: What Python tells its auditors: https://docs.python.org/3/library/audit_events.html
IO = frozenset({
    "open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.symlink",
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn", "shutil.rmtree",
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "sqlite3.connect", "urllib.Request",
})  # fmt: skip
#: Functions of Python's own.
THREADS = frozenset({"_thread.start_new_thread", "_thread.start_joinable_thread"})
SLEEP = frozenset({"time.sleep"})

_ears = threading.local()


@contextmanager
def heard(events: frozenset[str]) -> Iterator[list[str]]:
    """What this thread does of these while it is open, as ``event: what with``."""
    _listen()
    found: list[str] = []
    _ears.wanted, _ears.found = events, found
    before = sys.getprofile()
    sys.setprofile(_hear_call if events & (THREADS | SLEEP) else before)
    try:
        yield found
    finally:
        sys.setprofile(before)
        _ears.wanted = frozenset()


def _hear_call(frame: FrameType, event: str, function: Any) -> None:
    """Python's auditors are not told of these; its profilers are, under whatever name they were imported."""
    if event == "c_call" and f"{function.__module__}.{function.__name__}" in _ears.wanted:
        if not _is_pythons_own(frame):
            _ears.found.append(f"{function.__name__}: {frame.f_code.co_filename}:{frame.f_lineno}")


@cache
def _listen() -> None:
    """Once per process: an auditor cannot be taken away again."""
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[object, ...]) -> None:
    if event not in getattr(_ears, "wanted", ()):
        return
    if not _is_pythons_own(sys._getframe(1)):
        what = str(args[0]) if args else ""
        _ears.found.append(f"{event}: {what[:100]}")


def _is_pythons_own(frame: FrameType | None) -> bool:
    """Whether Python does it for itself: reads a module that is imported late, or waits for a child to end."""
    if frame is not None and frame.f_code.co_filename == subprocess.__file__ and frame.f_code.co_name == "_wait":
        return True
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
