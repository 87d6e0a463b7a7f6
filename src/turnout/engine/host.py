"""The plugin host: classes that come by their path from somebody's project run in a process of their own.

What they print goes to a log; what they raise, a crash and a hang are failures of the call, and harm nothing else.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from turnout.engine.pipes import Ended, PipedProcess
from turnout.plugin import remote, searching
from turnout.plugin.provider import Failure
from turnout.plugin.remote import Plugin, plain
from turnout.plugin.searching import Searcher

_log = logging.getLogger(__name__)
_METHODS = {**remote.METHODS, **searching.METHODS}
PROGRAM = "turnout.compat.child"
T = TypeVar("T")
_IDLE = 300.0
_LONGEST_LOG = 4 << 20
_LAST_LINES = 20
_PIECE = 1 << 16
_HEARTBEAT = 1.0
#: How long a call that is under way may take when the hub stops; a submission as long as ever.
_FAREWELL = 5.0
#: How long a call may take, in seconds; the others as long as DEFAULT_LIMIT.
LIMITS = {"submit": 300.0, "adjust": 300.0}
DEFAULT_LIMIT = 60.0


class PluginFailure(Failure):
    """A call of a plugin that failed. `trace` is where, in the plugin's own code, or what it said before it died."""

    def __init__(self, message: str, *, kind: str = "transient", retry_after: float = 0.0, trace: str = "") -> None:
        super().__init__(message, kind=kind, retry_after=retry_after)
        self.trace = trace


def in_full(failure: Failure) -> str:
    """What it says, and where it comes from in the plugin's own code, if that is known."""
    trace = failure.trace if isinstance(failure, PluginFailure) else ""
    return f"{failure.message}\n{trace}" if trace else failure.message


class Host:
    """One process for the code of one project. It is started when it is needed, again when it died, and ends when it is
    unused for a while. From any thread; one call at a time."""

    def __init__(
        self, project: Path, python_path: Sequence[str], log: Path, *, copy: tuple[str, str] = ("", ""),
        limit: float | None = None, idle: float = _IDLE,
    ) -> None:  # fmt: skip
        """`copy` are the directories of a copy of the code, which is used, and where that was copied from."""
        self._project = project
        self._python_path = list(python_path)
        self._log = log
        self._copy = copy
        self._limit = limit
        self._idle = idle
        self._lock = threading.Lock()
        self._process: PipedProcess | None = None
        self._timer: threading.Timer | None = None
        self._last_used = 0.0
        self._is_retired = False
        self._submission = ("", 0.0)  # who submits, and until when that may take

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        process = self._process
        return process.pid if process is not None and process.is_alive else None

    def call(self, plugin: Plugin | Searcher, method: str, *arguments: object) -> Any:
        """What the method of the plugin's instance answers. PluginFailure for all that can go wrong."""
        with self._lock:
            if self._is_retired:
                raise PluginFailure(f"{plugin.path} is not asked: the hub is about to stop")
            self._stop_timer()
            process = self._process
            if process is None or not process.is_alive:
                self._end()
                process = self._process = self._start()
            try:
                raw = self._ask(process, plugin, method, arguments)
            finally:
                self._start_timer()
        try:
            return _METHODS[method].answer(raw)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            what = f"{plugin.path} answered {method} with what it may not: {str(raw)[:200]}"
            raise PluginFailure(what, kind="rejected") from error

    def watch(self, plugin: Plugin, method: str, *arguments: object, limit: float | None) -> Iterator[str]:
        """What the method prints, piece by piece, in a process of its own, so that it keeps nobody waiting; `limit`
        None = for as long as it takes. Closing the iterator ends that process."""
        process = self._spawn(None)
        deadline = time.monotonic() + (limit if limit is not None else 1e9)
        try:
            process.send(_request(plugin, method, arguments), deadline)
            yield from _shown(process, deadline)
            _value(process.receive(deadline))
        except TimeoutError:
            raise PluginFailure(f"{plugin.path} did not tell its status within {limit:g} s") from None
        except Ended as error:
            raise PluginFailure(f"the process of {plugin.path} ended ({error})") from error
        finally:
            process.kill()

    def retire(self) -> None:
        """No call begins any more. What is under way goes on."""
        self._is_retired = True

    def close(self) -> None:
        """Ends the process, if it must be amid a call, which then fails. The next call starts another.

        A submission is waited for, for as long as it may take: nobody would know of it, and it would be made again."""
        if not self._lock.acquire(timeout=_FAREWELL) and not self._await_submission():
            process = self._process
            if process is not None:
                process.end()
            self._lock.acquire()
        try:
            self._stop_timer()
            self._end()
        finally:
            self._lock.release()

    def _await_submission(self) -> bool:
        """Whether one was under way and came to its end; then the lock is ours."""
        who, deadline = self._submission
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        _log.info("%s submits; it is waited for, for up to %.0f s", who, left)
        return self._lock.acquire(timeout=left + _FAREWELL)

    def _ask(self, process: PipedProcess, plugin: Plugin | Searcher, method: str, arguments: Sequence[object]) -> Any:
        began = self._size_of_log()
        limit = self._limit or LIMITS.get(method, DEFAULT_LIMIT)
        deadline = time.monotonic() + limit
        self._submission = (plugin.path, deadline) if method == "submit" else ("", 0.0)
        try:
            process.send(_request(plugin, method, arguments), deadline)
            line = process.receive(deadline)
        except TimeoutError:
            process.kill()
            what = f"{plugin.path} did not answer {method} within {limit:g} s; its process was ended"
            raise PluginFailure(what, trace=self._said(began)) from None
        except Ended as error:
            what = f"the process of {plugin.path} ended ({error}) in {method}"
            raise PluginFailure(what, trace=self._said(began)) from error
        return _value(line)

    def _start(self) -> PipedProcess:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if self._size_of_log() > _LONGEST_LOG:
            os.replace(self._log, self._log.with_suffix(".log.1"))
        with open(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as log:
            return self._spawn(log)

    def _spawn(self, output: Any) -> PipedProcess:
        try:
            return PipedProcess(PROGRAM, [*self._copy, *self._python_path], directory=self._project, output=output)
        except OSError as error:
            raise PluginFailure(f"no process for the code of {self._project}: {error.strerror}") from error

    def _said(self, began: int) -> str:
        """The last lines in the log since it was so long; somebody may have removed it."""
        with contextlib.suppress(FileNotFoundError), open(self._log, "rb") as log:
            log.seek(max(began, self._size_of_log() - _PIECE))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-_LAST_LINES:])

        return ""

    def _size_of_log(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _end_if_unused(self) -> None:
        """A call that began a moment ago is left alone."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._last_used >= self._idle:
                self._end()
        finally:
            self._lock.release()

    def _start_timer(self) -> None:
        self._last_used = time.monotonic()
        self._timer = threading.Timer(self._idle, self._end_if_unused)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _request(plugin: Plugin | Searcher, method: str, arguments: Sequence[object]) -> bytes:
    return json.dumps({"plugin": plain(plugin), "method": method, "arguments": plain(list(arguments))}).encode()


def _value(line: bytes) -> Any:
    answer = json.loads(line)
    if "failure" in answer:
        raise PluginFailure(**answer["failure"])
    return answer["value"]


def _shown(process: PipedProcess, deadline: float) -> Iterator[str]:
    """What it prints until it has answered: a program it has started may keep its output open for longer."""
    decode = _decoder()
    is_over = False
    while not is_over:
        readable, _, _ = select.select([process.shown, process.answers], [], [], _HEARTBEAT)
        if process.answers not in readable and time.monotonic() > deadline:
            raise TimeoutError
        if not readable:
            yield ""  # so that who reads can go away
        is_over = process.answers in readable
        while process.shown in readable:
            piece = os.read(process.shown, _PIECE)
            if not piece:
                is_over = True
                break
            yield decode(piece)
            readable, _, _ = select.select([process.shown], [], [], 0)


def _decoder() -> Callable[[bytes], str]:
    import codecs

    return codecs.getincrementaldecoder("utf-8")("replace").decode
