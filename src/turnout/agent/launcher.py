"""The agent's end of the line to its launcher, the warm process that makes supervisors.

Python forks in a millisecond when the process is small and has no threads; a new interpreter takes ten times that. So
the agent forks one *launcher* first of all, before it imports or starts anything large (`start`), and asks it for
supervisors.

A launcher that is killed takes no run with it. The agent sees `LauncherDied`; having threads by then, it should not
fork another one but execute itself anew and take over what runs (`record.examine`).
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Dict, List, Union

from turnout.agent import launcher_process
from turnout.agent.launcher_process import Message, Messages, encode, pack
from turnout.agent.supervisor import Order
from turnout.agent.tree import ProcessId

_READ = 1 << 16


class LauncherDied(ConnectionError):
    """The launcher is gone. What was asked for and not answered may have been started or not: the directories tell."""


@dataclass(frozen=True)
class Started:
    """A supervisor has the order of this key. Whether it executes the command, the record tells."""

    key: str
    process: ProcessId


@dataclass(frozen=True)
class Ended:
    """The supervisor of this key is done with it, or died. `record.examine` tells what became of the attempt."""

    key: str


@dataclass(frozen=True)
class Failed:
    """No supervisor could be had for this key; nothing happened. The key is empty when the launcher could not tell."""

    key: str
    error: str


Answer = Union[Started, Ended, Failed]


def start(keep: int = 0) -> Launcher:
    """Fork the launcher. Call this first, while the process has no threads and few modules: all it has is copied.

    Up to `keep` supervisors that have ended their attempt stay for the next order, which saves two thirds of the work
    of a short run. With 0 each ends with its attempt.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            launcher_process.serve(theirs.fileno(), keep)
        finally:
            os._exit(0)
    theirs.close()
    return Launcher(pid, ours)


class Launcher:
    """The handle. Nothing here blocks: what the line does not take at once goes out with a later call.

    Not thread-safe: use it from one thread.
    """

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line
        self._line.setblocking(False)
        self._unsent = bytearray()
        self._incoming = Messages()

    def fileno(self) -> int:
        """To wait for with select or poll; readable means that `read` has something to say."""
        return self._line.fileno()

    @property
    def is_behind(self) -> bool:
        """Whether something is still unsent: wait until the line is writable, then `flush`."""
        return bool(self._unsent)

    def define(self, job: int, env: Dict[str, str]) -> None:
        """The environment that the runs of `job` share. Again = replaced, for the starts that follow."""
        self._send("env", job, encode(env))

    def forget(self, job: int) -> None:
        """The environment of `job` is not needed any more. Idempotent."""
        self._send("forget", job)

    def start(self, order: Order) -> None:
        """Ask for a supervisor; `read` brings Started and, later, Ended; or Failed. The job must have been defined."""
        self._send("start", tuple(order._replace(env={})), encode(order.env))

    def sweep(self) -> None:
        """Have all killed that supervisors of this launcher left behind when they were killed themselves."""
        self._send("sweep")

    def flush(self) -> None:
        """Send what the line takes of the unsent. LauncherDied when nobody is there."""
        try:
            while self._unsent:
                del self._unsent[: self._line.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise LauncherDied(f"launcher {self.pid} is gone") from error

    def read(self) -> List[Answer]:
        """The answers that have come, perhaps none. LauncherDied when there will be no more."""
        self.flush()
        try:
            received = self._line.recv(_READ)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LauncherDied(f"launcher {self.pid} is gone") from error
        if not received:
            raise LauncherDied(f"launcher {self.pid} is gone")
        return [_answer(message) for message in self._incoming.feed(received)]

    def close(self) -> None:
        """Let the launcher go; runs go on. Idempotent."""
        if self._line.fileno() >= 0:
            self._line.close()
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _send(self, *message: Any) -> None:
        self._unsent += pack(message)
        self.flush()


def _answer(message: Message) -> Answer:
    kind, key = message[:2]
    if kind == "started":
        return Started(key, ProcessId(message[2], message[3]))
    return Ended(key) if kind == "ended" else Failed(key, message[2])
