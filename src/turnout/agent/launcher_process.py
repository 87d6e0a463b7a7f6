"""The launcher: a process with one thread and little memory that hands orders to supervisors, and forks them.

The line to the agent carries JSON objects, each behind its length. From the agent: ``env`` (the environment that the
runs of a job share, sent once), ``forget`` (drop that), ``start`` (the fields of `Order`), ``sweep``. To the agent: for each start
``{key, pid, start}`` and, when that supervisor is done, ``{key}``; or ``{key, error}``. The launcher ends when the
agent's end closes. Supervisors do not: they belong to nobody, and go when their attempt is recorded.

A fork is cheap, but the first touch of every page after it is not: for a short command it is half the work. So a
supervisor that has ended its attempt is given the next one if there is one at once; each has one attempt at a time, whole.
"""

from __future__ import annotations

import gc
import json
import marshal
import os
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from turnout.agent import tree
from turnout.agent.spawn import Environment
from turnout.agent.supervisor import BLOCKED, Order, supervise

MAX_MESSAGE = 16 << 20
_LENGTH = struct.Struct("<I")
_READ = 1 << 16
_IDLE_SECONDS = 5.0
_ATTEMPTS_EACH = 500  # then a fresh one takes over, whatever small things may have piled up
_SWEEP_SECONDS = 2.0
_DONE = b"+"


class Messages:
    """Cuts a byte stream into messages. One that is too long is passed over and comes out as an empty one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, received: bytes) -> Iterator[bytes]:
        self._buffer += received
        while True:
            dropped = min(self._skip, len(self._buffer))
            del self._buffer[:dropped]
            self._skip -= dropped
            if self._skip or len(self._buffer) < _LENGTH.size:
                return
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if length > MAX_MESSAGE:
                self._skip = end
                yield b""
            elif len(self._buffer) < end:
                return
            else:
                body = bytes(self._buffer[_LENGTH.size : end])
                del self._buffer[:end]
                yield body


def pack(message: Dict[str, Any]) -> bytes:
    """One message for the line between agent and launcher."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


def serve(line: int, keep: int) -> None:
    """The launcher's life, from the fork to the end of the agent."""
    _detach(line)
    launcher = _Launcher(line, keep)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        launcher.serve()
    except OSError:
        pass  # the agent is gone


def _detach(line: int) -> None:
    """Keep nothing of the agent's but the line: a lock or a pipe of its would live as long as the longest run."""
    os.setsid()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    if not tree.LINUX:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # macOS drops what has no handler, blocked or not
    tree.become_subreaper()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = max(map(int, os.listdir("/dev/fd")))
    os.closerange(3, line)
    os.closerange(line + 1, highest + 1)


@dataclass
class _Supervisor:
    process: tree.ProcessId
    key: Optional[str]
    """what it is doing; None = it waits"""


class _Launcher:
    def __init__(self, line: int, keep: int) -> None:
        self._line = line
        self._keep = keep
        self._environments: Dict[int, Environment] = {}
        self._supervisors: Dict[int, _Supervisor] = {}  # by the descriptor of the line to each
        self._idle: List[int] = []
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def serve(self) -> None:
        """Obey until the agent's end closes; OSError when that happens in the middle of an answer."""
        incoming = Messages()
        while True:
            ready = self._poll.poll(_IDLE_SECONDS * 1000 if self._idle else None)
            if not ready:
                self._dismiss(len(self._idle))
            fds = {fd for fd, _ in ready}
            for fd in fds & self._supervisors.keys():
                if fd in self._supervisors:  # else dismissed just now
                    self._hear(fd)
            if self._line in fds:  # after them, since what it asks for may open a descriptor of a number closed before
                received = os.read(self._line, _READ)
                if not received:
                    return
                for body in incoming.feed(received):
                    self._answer(self._obey(body))
            self._reap()

    def _answer(self, answer: Optional[Dict[str, Any]]) -> None:
        raw = pack(answer) if answer else b""
        while raw:
            raw = raw[os.write(self._line, raw) :]

    def _hear(self, fd: int) -> None:
        """A supervisor is done, or gone."""
        try:
            done = os.read(fd, 1) == _DONE
        except OSError:
            done = False
        supervisor = self._supervisors[fd]
        key, supervisor.key = supervisor.key, None
        if done:
            self._idle.append(fd)
            self._dismiss(len(self._idle) - self._keep)
        else:
            self._drop(fd)
        if key is not None:
            self._answer({"key": key})

    def _dismiss(self, count: int) -> None:
        for _ in range(count):
            self._drop(self._idle[0])

    def _drop(self, fd: int) -> None:
        """Hang up; a supervisor that waits takes that as its end."""
        self._poll.unregister(fd)
        os.close(fd)
        del self._supervisors[fd]
        if fd in self._idle:
            self._idle.remove(fd)

    def _obey(self, body: bytes) -> Optional[Dict[str, Any]]:
        """Do as the message says; returns the answer, if one is due. A bad message is answered, never raised."""
        key = ""
        try:
            message = json.loads(body)
            key = str(message.get("key", ""))
            operation = message.pop("op")
            if operation == "start":
                return self._start(Order(**message))
            if operation == "env":
                self._environments[message["job"]] = _encode(message["env"])
            elif operation == "forget":
                self._environments.pop(message["job"], None)
            elif operation == "sweep":
                self._sweep()
            else:
                return {"key": key, "error": f"unknown operation {operation!r}"}
        except OSError as error:
            return {"key": key, "error": f"no supervisor could be made: {error.strerror}"}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return {"key": key, "error": f"bad message: {error!r}"}
        return None

    def _start(self, order: Order) -> Dict[str, Any]:
        if order.job not in self._environments:
            return {"key": order.key, "error": f"the environment of job {order.job} is not known"}
        if not order.argv or not os.path.isabs(order.dir):
            return {"key": order.key, "error": "an order needs a command and an absolute directory"}
        env = {**self._environments[order.job], **_encode(order.env)}
        fd = self._hand_over(order, env)
        if fd is None:
            fd = self._fork(order, env)
        supervisor = self._supervisors[fd]
        supervisor.key = order.key
        return {"key": order.key, **vars(supervisor.process)}

    def _hand_over(self, order: Order, env: Environment) -> Optional[int]:
        """Give the order to a supervisor that waits; its line, or None when none took it."""
        if not self._idle:
            return None
        body = marshal.dumps((vars(order), env))
        raw = _LENGTH.pack(len(body)) + body
        while self._idle:
            fd = self._idle.pop()
            try:
                if os.write(fd, raw) == len(raw):
                    return fd
            except OSError:
                pass
            # Dead, stopped, or too much for the line at once. Half an order must never be completed by the next one.
            tree.signal_process(self._supervisors[fd].process, signal.SIGKILL)
            self._drop(fd)
        return None

    def _fork(self, order: Order, env: Environment) -> int:
        """A new supervisor with this order; its line. OSError when there is no room for a process."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                try:
                    # All that the launcher has open goes, above all the lines to other supervisors.
                    os.dup2(theirs.fileno(), 3, inheritable=False)
                    os.closerange(4, max([self._line, ours.fileno(), theirs.fileno(), *self._supervisors]) + 1)
                    _attend(3, order, env)
                finally:
                    os._exit(0)
            fd = ours.detach()
        os.set_blocking(fd, False)
        self._supervisors[fd] = _Supervisor(tree.ProcessId(pid, tree.start_time(pid) or 0), None)
        self._poll.register(fd, select.POLLIN)
        return fd

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _sweep(self) -> None:
        """Children that are no supervisors are what dead supervisors left to their subreaper."""
        ours = {supervisor.process.pid for supervisor in self._supervisors.values()}
        deadline = time.monotonic() + _SWEEP_SECONDS
        while tree.signal_own_tree(signal.SIGKILL, ours) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.01)


def _attend(line: int, order: Order, env: Environment) -> None:
    """A supervisor's life: this attempt, then those that come by the line, until nobody is at its other end."""
    os.setsid()
    tree.become_subreaper()
    left = _ATTEMPTS_EACH
    while supervise(order, env) and left:
        left -= 1
        os.write(line, _DONE)
        received = _receive(line)
        if received is None:
            return
        order, env = received


def _receive(line: int) -> Optional[Tuple[Order, Environment]]:
    head = _read_exactly(line, _LENGTH.size)
    body = _read_exactly(line, _LENGTH.unpack(head)[0]) if head else b""
    if not body:
        return None
    fields, env = marshal.loads(body)
    return Order(**fields), env


def _read_exactly(fd: int, size: int) -> bytes:
    """So many bytes, or none when the other end closed before."""
    whole = b""
    while len(whole) < size:
        part = os.read(fd, size - len(whole))
        if not part:
            return b""
        whole += part
    return whole


def _encode(env: Dict[str, str]) -> Environment:
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
