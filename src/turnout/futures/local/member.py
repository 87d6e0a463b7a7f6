"""One worker process, as its executor sees it."""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from turnout.futures.engine import Needs
from turnout.futures.local.frames import CALLS, DROP, DROPPED, FREED, FUNCTION, LEARN, PLACE, SEGMENT, frame
from turnout.futures.local.inbox import Inbox
from turnout.futures.local.segments import Views

if TYPE_CHECKING:
    from turnout.futures.local.calls import Call

_START = "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; from turnout.futures.local.worker import main; "
_PATIENCE = 2.0  # seconds a worker gets to end by itself


class Member:
    """For the crew, which has the lock. `most`: large buffers that are kept of each other."""

    def __init__(self, needs: Needs, gpus: list[str], env: Mapping[str, str], most: int, ooms: int) -> None:
        self.needs = needs
        self.gpus = gpus
        self.calls: dict[int, Call] = {}
        """what it has to make, in this order, and what it may have made and not told of"""
        self.load = 0.0
        """seconds for which it has to do"""
        self.known: set[int] = set()
        self.lent: set[int] = set()
        self.freed: list[int] = []
        self.views = Views(self.freed.append, most)
        self.is_ready = False
        self.is_leaving = False
        self.is_stuck = False
        """its last calls were taken back, for it is at a long one"""
        self.heard = time.monotonic()
        self.deadline: float | None = None
        self.cause: Exception | None = None
        """why we killed it"""
        self.ooms = ooms
        self.events = selectors.EVENT_READ
        """what its line is watched for"""
        self._out = bytearray()
        self._epoch = 0
        self._open(env, most)
        _LIVING.add(self)
        self.hear = Inbox(self.line).take

    def _open(self, env: Mapping[str, str], most: int) -> None:
        with contextlib.ExitStack() as theirs:
            self.line, line = socket.socketpair()
            theirs.enter_context(line)
            self.line.setblocking(False)
            self._taken, self._tokens = os.pipe()
            os.set_blocking(self._taken, False)
            os.set_blocking(self._tokens, False)
            place = os.memfd_create("turnout", os.MFD_CLOEXEC)
            theirs.callback(os.close, place)
            os.ftruncate(place, PLACE.size)
            self._place = mmap.mmap(place, PLACE.size)
            life, self._life = os.pipe()
            theirs.callback(os.close, life)
            files = (line.fileno(), self._taken, place, life)
            code = f"{_START}main({', '.join(map(str, files))}, {most})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *sys.path], pass_fds=files, start_new_session=True,
                stdin=subprocess.DEVNULL, env=env,
            )  # fmt: skip
        self.pid = self._process.pid
        self.ended = os.pidfd_open(self.pid)

    @property
    def at(self) -> int:
        """The number of the call it is at, or was when it died; 0 = none."""
        return int(PLACE.unpack(self._place[:])[0])

    def called_at(self, number: int) -> float | None:
        """When the function of this call was called; None while that is not so."""
        at, when = PLACE.unpack(self._place[:])
        return when if at == number and when else None

    def learn(self, number: int, data: bytes) -> None:
        if number and number not in self.known:
            self.known.add(number)
            self._out += frame(LEARN, [FUNCTION.pack(number), data])

    def make(self, parts: list[bytes], count: int) -> None:
        """So many calls. Their tokens go first: who finds none knows that all were taken back."""
        os.write(self._tokens, bytes([self._epoch]) * count)
        self._out += frame(CALLS, parts)

    def take_back(self, most: int) -> list[Call]:
        """So many of the last calls it has not begun, in their order. It gets nothing until it is heard again."""
        try:
            count = len(os.read(self._taken, most))
        except BlockingIOError:
            return []
        self._epoch = (self._epoch + 1) % 256
        self.is_stuck = True
        self._out += frame(DROP, [DROPPED.pack(count, self._epoch)])
        taken = list(self.calls)[len(self.calls) - count :]
        return [self.calls.pop(number) for number in taken]

    def send(self) -> bool:
        """What is to be said, as far as it goes; False when there is more."""
        if self.freed:
            told = [self.freed.pop() for _ in range(len(self.freed))]
            self._out += frame(FREED, [SEGMENT.pack(each) for each in told])
        while self._out:
            try:
                sent = self.line.send(self._out)
            except BlockingIOError:
                return False
            except OSError:  # it is dead, which is told elsewhere
                self._out.clear()
                break
            del self._out[:sent]
        return True

    def dismiss(self) -> None:
        """It ends by itself once it has made its calls."""
        self.is_leaving = True
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """With all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """It has ended, or does so in a moment: its exit code, as in `subprocess`. Nothing of it is left then."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self.kill()
        _LIVING.discard(self)
        self.line.close()
        for file in (self._taken, self._tokens, self._life, self.ended):
            os.close(file)
        return code

    def forget(self) -> None:
        """In a fork of the process that has it: it does not live on for us."""
        os.close(self._life)


_LIVING: weakref.WeakSet[Member] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_LIVING):
        each.forget()
    _LIVING.clear()


os.register_at_fork(after_in_child=_forget_all)
