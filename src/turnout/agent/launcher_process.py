"""The launcher: a process with one thread and little memory that forks supervisors and gives them their orders.

The line to the agent carries small tuples, each behind its length. From the agent: ``("env", job, environment)``
(what the runs of a job share, sent once), ``("forget", job)``, ``("start", order, environment)``, ``("sweep",)``. To
the agent: ``("started", key, pid, start time)`` and, when that supervisor is done, ``("ended", key)``; or
``("failed", key, error)``. The launcher ends when the agent's end closes. Supervisors do not: they belong to nobody,
and go when their attempt is recorded.

Pages are the price here. Whatever launcher or supervisor writes to after a fork is copied, and even reading an object
writes to it (its reference count). Hence `marshal` and not `json`: both ends are the same interpreter, and a running
supervisor takes 0.4 MB less. And hence supervisors are kept: one that has ended its attempt is given the next, which
for a short command is a third of the work of a fork. Each still has one attempt at a time, and that attempt has no
other.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import os
import resource
import select
import signal
import struct
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from turnout.agent import tree
from turnout.agent.spawn import Environment
from turnout.agent.supervisor import BLOCKED, Order, supervise

MAX_MESSAGE = 16 << 20
_LENGTH = struct.Struct("<I")
_READ = 1 << 16
_IDLE_SECONDS = 0.05  # runs that follow each other come within this; one that may take long begins in a fresh one
_ATTEMPTS_EACH = 500  # then a fresh one takes over, whatever small things may have piled up
_SWEEP_SECONDS = 2.0
_ORDERS, _DONE = 3, 4  # a supervisor's ends of its two pipes

Message = Tuple[Any, ...]
_OPERATIONS = {"env": "_define", "forget": "_forget", "start": "_start", "sweep": "_sweep"}


class Messages:
    """Cuts a byte stream into messages. What is too long or makes no sense comes out as an empty one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, received: bytes) -> Iterator[Message]:
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
                yield ()
            elif len(self._buffer) < end:
                return
            else:
                body = bytes(self._buffer[_LENGTH.size : end])
                del self._buffer[:end]
                yield _unpack(body)


def pack(message: Message) -> bytes:
    """One message, as `Messages` reads it."""
    body = marshal.dumps(message)
    return _LENGTH.pack(len(body)) + body


def _unpack(body: bytes) -> Message:
    try:
        message = marshal.loads(body)
    except (ValueError, TypeError, EOFError):
        return ()
    return message if isinstance(message, tuple) else ()


def serve(line: int, keep: int) -> None:
    """The launcher's life, from the fork to the end of the agent."""
    gc.collect()  # first: what is found here closes files by their numbers, which will soon be those of others
    launcher = _Launcher(_detach(line), keep)
    gc.freeze()
    gc.disable()
    try:
        launcher.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the agent is gone
    except Exception:
        launcher.tell("failed", "", traceback.format_exc())


def _detach(line: int) -> int:
    """Keep nothing of the agent's but the line: a lock or a pipe of its would live as long as the longest run."""
    os.setsid()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    if not tree.LINUX:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # macOS drops what has no handler, blocked or not
    tree.become_subreaper()
    line = fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, _DONE + 1)
    highest = max(map(int, os.listdir("/dev/fd")))
    os.closerange(3, line)
    os.closerange(line + 1, highest + 1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2, _ORDERS, _DONE} - {null}:
        os.dup2(null, fd, inheritable=fd <= 2)
    return line


@dataclass
class _Supervisor:
    process: tree.ProcessId
    orders: int
    """our end of the pipe that brings it its next order"""
    key: Optional[str] = None
    """what it is doing; None = it waits"""


class _Launcher:
    def __init__(self, line: int, keep: int) -> None:
        self._line = line
        self._keep = keep
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError):  # macOS has a maximum that is not the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._files[1], self._files[1]))  # there are two pipes to each
        self._environments: Dict[int, Environment] = {}
        self._supervisors: Dict[int, _Supervisor] = {}  # by our end of the pipe that tells when it is done
        self._idle: List[int] = []
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def serve(self) -> None:
        """Obey until the agent's end closes; OSError when that happens in the middle of an answer."""
        incoming = Messages()
        while True:
            ready = [fd for fd, _ in self._poll.poll(_IDLE_SECONDS * 1000 if self._idle else None)]
            if not ready:
                self._dismiss(len(self._idle))
            for fd in ready:
                if fd in self._supervisors:
                    self._hear(fd)
            if self._line in ready:  # last, since what it asks for may open descriptors of numbers just closed
                received = os.read(self._line, _READ)
                if not received:
                    return
                for message in incoming.feed(received):
                    self._obey(message)
            self._reap()

    def tell(self, *message: Any) -> None:
        """To the agent. OSError when it is gone."""
        raw = pack(message)
        while raw:
            raw = raw[os.write(self._line, raw) :]

    def _hear(self, fd: int) -> None:
        """A supervisor is done, or gone."""
        done = os.read(fd, 1)
        supervisor = self._supervisors[fd]
        key, supervisor.key = supervisor.key, None
        if done:
            self._idle.append(fd)
            self._dismiss(len(self._idle) - self._keep)
        else:
            self._drop(fd)
            while tree.is_alive(supervisor.process):  # its files are closed a moment before it is gone
                time.sleep(0.0002)
        if key is not None:
            self.tell("ended", key)

    def _dismiss(self, count: int) -> None:
        for _ in range(count):
            self._drop(self._idle[0])

    def _drop(self, fd: int) -> None:
        """Hang up; a supervisor that waits takes that as its end."""
        self._poll.unregister(fd)
        os.close(fd)
        os.close(self._supervisors.pop(fd).orders)
        if fd in self._idle:
            self._idle.remove(fd)

    def _obey(self, message: Message) -> None:
        """Do as the message says. One that makes no sense is answered, never raised."""
        try:
            getattr(self, _OPERATIONS[message[0]])(*message[1:])
        except (LookupError, TypeError, ValueError) as error:
            self.tell("failed", "", f"bad message: {error!r}")

    def _define(self, job: int, env: Environment) -> None:
        self._environments[job] = env

    def _forget(self, job: int) -> None:
        self._environments.pop(job, None)

    def _start(self, fields: Message, own: Environment) -> None:
        key = str(fields[0])
        try:
            order = Order._make(fields)
            if not order.argv or not os.path.isabs(order.dir):
                raise ValueError("it needs a command and an absolute directory")
            if order.job not in self._environments:
                raise ValueError(f"the environment of job {order.job} is not known")
            env = {**self._environments[order.job], **own}
            fd = self._hand_over(order, env) or self._fork(order, env)
        except OSError as error:
            self.tell("failed", key, f"no supervisor could be made: {error.strerror}")
        except (TypeError, ValueError) as error:
            self.tell("failed", key, f"bad order: {error}")
        else:
            supervisor = self._supervisors[fd]
            supervisor.key = key
            self.tell("started", key, supervisor.process.pid, supervisor.process.start)

    def _hand_over(self, order: Order, env: Environment) -> Optional[int]:
        """Give the order to a supervisor that waits; None when none took it."""
        raw = pack((tuple(order), env)) if self._idle else b""
        while self._idle:
            fd = self._idle.pop()
            supervisor = self._supervisors[fd]
            try:
                if os.write(supervisor.orders, raw) == len(raw):
                    return fd
            except OSError:
                pass
            # It is dead or stopped, or this is too much at once. Half an order must never be completed by another one.
            tree.signal_process(supervisor.process, signal.SIGKILL)
            self._drop(fd)
        return None

    def _fork(self, order: Order, env: Environment) -> int:
        """A new supervisor, with this order. OSError when there is no room for a process."""
        orders, our_orders = os.pipe()
        our_done, done = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                try:
                    os.dup2(orders, _ORDERS, inheritable=False)
                    os.dup2(done, _DONE, inheritable=False)
                    # All that the launcher has open goes, above all its ends of the pipes to others.
                    os.closerange(_DONE + 1, max(self._line, our_done, done, *self._supervisors) + 1)
                    resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
                    _attend(order, env)
                finally:
                    os._exit(0)
        except OSError:
            os.close(our_orders)
            os.close(our_done)
            raise
        finally:
            os.close(orders)
            os.close(done)
        os.set_blocking(our_orders, False)
        self._supervisors[our_done] = _Supervisor(tree.ProcessId(pid, tree.start_time(pid) or 0), our_orders)
        self._poll.register(our_done, select.POLLIN)
        return our_done

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


def _attend(order: Order, env: Environment) -> None:
    """A supervisor's life: this attempt, then those that come by the pipe, until nobody is at its other end."""
    os.setsid()
    tree.become_subreaper()
    incoming = Messages()
    left = _ATTEMPTS_EACH
    while supervise(order, env) and left:
        left -= 1
        os.write(_DONE, b"+")
        following: Optional[Message] = None
        while following is None:
            received = os.read(_ORDERS, _READ)
            if not received:
                return
            following = next(incoming.feed(received), None)
        order, env = Order._make(following[0]), following[1]


def encode(env: Mapping[str, str]) -> Environment:
    """An environment as the kernel takes it."""
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
