"""Calls through Ray: on workers here, or on those of a cluster that exists."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import pickle
import queue
import secrets
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from turnout.errors import Conflict, InvalidInput, Unavailable
from turnout.futures.calling import call_packed
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost, MissingExtra, WorkerDied
from turnout.futures.folders import executor_folder
from turnout.futures.holding import Holding
from turnout.futures.local.devices import VISIBLE, Devices
from turnout.futures.local.environment import environment
from turnout.futures.remote import Message
from turnout.futures.shelf import open_shelf

try:
    import ray
except ImportError as error:
    raise MissingExtra("Ray", "ray") from error

_DIED = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
_LONGEST_FOLDER = 20
_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for any address of this machine
_GLANCE = 1.0  # seconds between two looks at Ray's processes
#: Calls under way up to which Ray tells of each by itself, which costs a sixth of a call. Of more, the eldest
#: are asked for together, now and then, and now and then all.
_MANY, _GROUP = 20, 200
_PAUSE = 0.02  # seconds between two times
_FINE = 10_000  # parts of a processor that Ray knows
_MORE = ()  # news that there are some to ask for
#: What Ray reads when it starts: no news of us to its makers; GPUs that nobody asked for stay as they are; and only who
#: knows the token may speak with it. Ray keeps the first token that it sees for as long as this process goes on.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}  # fmt: skip


class RayEngine(Holding):
    """`workers` calls at a time on this machine, through ports that answer only who has a token of this process; or,
    with `address`, as many as the cluster there has room for, where turnout has to be installed. Ray knows one cluster
    for each process: Conflict when it is in use."""

    def __init__(self, workers: int, needs: Needs, *, address: str | None = None, per_gpu: int = 1) -> None:
        super().__init__(needs)
        self._count = workers
        self._address = address
        self._per_gpu = per_gpu
        self._sent: dict[Message, Any] = {}
        self._unwatched: dict[Message, Any] = {}
        self._using = threading.Lock()

    def open(self) -> None:
        if ray.is_initialized():
            raise Conflict("Ray is in use in this process", hint="stop the other executor, or call ray.shutdown()")
        with contextlib.ExitStack() as undo:
            try:
                self._begin(undo)
            except (OSError, RuntimeError, ValueError) as error:
                raise Unavailable(f"Ray cannot be started or reached: {error}", hint="see what it printed") from error
            self._wrong = ""
            self._ways: dict[tuple[int, float], Any] = {}
            self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self._thread = threading.Thread(target=self._hear, name="turnout ray", daemon=True)
            self._thread.start()
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._done.put(None)
        self._thread.join()
        self._sent.clear()
        self._unwatched.clear()
        self._undo.close()

    def scale(self, workers: int) -> None:
        if self._address is not None:
            raise InvalidInput("the workers of a cluster that exists are not ours to start", hint="ask who started it")
        if self._is_on and self.needs.gpus and workers > self._most:
            raise InvalidInput("workers of Ray cannot get more GPUs", hint="stop the executor, and start another")
        self._count = workers
        self.fill()

    @property
    def workers(self) -> int | None:
        return None if self._address is not None else self._count

    def hand_on(self, message: Message) -> None:
        task = self._tasks.get(message)
        if task is None:  # cancelled meanwhile
            return
        apart: list[Any] = []
        packed = message.packed(apart)
        with self._using:  # else Ray would be started anew, by itself
            if self._wrong:
                raise EngineLost(self._wrong, hint="make another executor")
            reference = self._way(task.terms.retries).remote(packed, *apart)
        self._sent[message] = reference
        if len(self._sent) <= _MANY:
            reference.future().add_done_callback(lambda future: self._done.put((message, future.result)))
        else:
            self._unwatched[message] = reference
            if len(self._unwatched) == 1:
                self._done.put(_MORE)

    def take_back(self, message: Message) -> bool:
        """What comes of it nevertheless is heard, and thrown away."""
        reference = self._sent.get(message)
        if reference is not None:
            with contextlib.suppress(Exception):  # it is over
                ray.cancel(reference)
        return True

    def _begin(self, undo: contextlib.ExitStack) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        undo.callback(ray.shutdown)
        self._daemons: list[int] = []
        if self._address is not None:
            ray.init(address=self._address, **options)
            return
        self._most = self._count
        gpus = Devices(self.needs.gpus * self._count, self._per_gpu)
        undo.callback(gpus.close)
        folder = undo.enter_context(executor_folder("ray", _short_folder()))
        self.shelf = undo.enter_context(open_shelf())
        started: list[int] = []
        undo.callback(_end, started)  # what it started may outlive it
        undo.callback(ray.shutdown)
        taken = list(dict.fromkeys(each for _ in range(self._count) for each in gpus.take(self.needs.gpus)))
        with _surroundings(self.needs, taken):
            ray.init(
                num_cpus=self._count * self.needs.cpus, num_gpus=len(taken), include_dashboard=False,
                _node_ip_address=_LOOPBACK, _temp_dir=folder, **options,
            )  # fmt: skip
        for each in _children({"gcs_server", "raylet"}):
            self._daemons.append(os.pidfd_open(each))
            undo.callback(os.close, self._daemons[-1])
        started += _opened(_descendants())
        undo.callback(lambda: started.extend(_opened(_descendants())))  # there are more, as a rule

    def _way(self, retries: int) -> Any:
        """What makes a call, and makes it again so often. Ray shall make as many at a time as there are to be workers:
        each has its share of all the processors that Ray knows of, which are as many as there were workers for."""
        share = float(self.needs.cpus)
        if self._address is None:
            share = math.floor(self._most * self.needs.cpus / self._count * _FINE) / _FINE
        if (retries, share) not in self._ways:
            needs = {"num_cpus": share, "num_gpus": self.needs.gpus / self._per_gpu}
            self._ways[retries, share] = ray.remote(make_here).options(max_retries=retries, **needs)
        return self._ways[retries, share]

    def _hear(self) -> None:
        """In a thread of its own, for tasks may do anything when they are told."""
        asked = asked_for_all = 0.0
        while True:
            try:
                known = self._done.get(timeout=_PAUSE if self._unwatched else _GLANCE)
            except queue.Empty:
                if self._daemons and not self._wrong and select.select(self._daemons, [], [], 0)[0]:
                    self._give_up()
            else:
                if known is None:
                    return
                if known is not _MORE:
                    self._tell(*known)
            now = time.monotonic()
            if self._unwatched and now - asked > _PAUSE:
                asked = now
                is_for_all = now - asked_for_all > _GLANCE
                asked_for_all = now if is_for_all else asked_for_all
                self._ask(list(itertools.islice(self._unwatched.items(), None if is_for_all else _GROUP)))

    def _ask(self, these: list[tuple[Message, Any]]) -> None:
        """Tells of those that are over."""
        try:
            over = set(ray.wait([reference for _, reference in these], num_returns=len(these), timeout=0)[0])
        except Exception as error:
            self._unwatched.clear()
            self.lose_all(_reason(error))
            return
        these = [(message, reference) for message, reference in these if reference in over]
        try:
            values = ray.get([reference for _, reference in these])
        except Exception:  # of one of them, which is seen when each is asked for
            for message, reference in these:
                self._tell(message, partial(ray.get, reference))
        else:
            for (message, _), value in zip(these, values, strict=True):
                self._tell(message, partial(_itself, value))

    def _give_up(self) -> None:
        """A part of Ray is gone that was started here. Ray itself would end this process, a minute later."""
        with self._using:
            self._wrong = "Ray's processes on this machine have ended"
            ray.shutdown()
        self._unwatched.clear()
        self.lose_all(EngineLost(self._wrong, hint="make another executor"))

    def _tell(self, message: Message, get: Callable[[], Any]) -> None:
        self._sent.pop(message, None)
        self._unwatched.pop(message, None)
        try:
            outcome = get()
        except BaseException as error:
            self.lost(message, _reason(error))
        else:
            packed, buffers = (outcome, []) if isinstance(outcome, bytes) else outcome
            self.ended(message, pickle.loads(packed, buffers=map(bytearray, buffers)))


def _itself(value: Any) -> Any:
    return value


def make_here(packed: bytes, *buffers: Any) -> bytes | tuple[bytes, list[pickle.PickleBuffer]]:
    """As `call_packed`. Arrays are writable, as they are elsewhere: Ray's own memory is not."""
    apart: list[pickle.PickleBuffer] = []
    data = call_packed(packed, list(map(bytearray, buffers)), apart)
    return (data, apart) if apart else data


def _reason(error: BaseException) -> Exception:
    if isinstance(error, _DIED):
        return WorkerDied(f"the process that made the call died: {_first_line(error)}")
    return EngineLost(
        f"Ray lost the call ({type(error).__name__}: {_first_line(error)})", hint="is its cluster running?"
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _children(names: set[str]) -> list[int]:
    """Processes that we started, of programs with these names."""
    return [pid for pid, (name, parent) in _processes().items() if name in names and parent == os.getpid()]


def _descendants() -> list[int]:
    """What the programs of Ray that we started have started themselves."""
    known, found = _processes(), _children({"gcs_server", "raylet"})
    for each in found:  # which grows
        found += [pid for pid, (_, parent) in known.items() if parent == each]
    return found


def _processes() -> dict[int, tuple[str, int]]:
    """Of all: the name of its program, and its parent."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = entry.read_text().partition("(")[2].rpartition(")")
            found[int(entry.parent.name)] = name, int(rest.split()[1])
    return found


def _opened(processes: list[int]) -> list[int]:
    """File descriptors of those that are still there."""
    found = []
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(each))
    return found


def _end(processes: list[int]) -> None:
    """Those of these file descriptors."""
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(each, signal.SIGKILL)
        os.close(each)


@contextlib.contextmanager
def _surroundings(needs: Needs, gpus: list[str]) -> Iterator[None]:
    """Processes that are started now have the environment of workers, and find the modules that we find."""
    paths = os.pathsep.join(each or os.getcwd() for each in sys.path)
    wanted = {**environment(needs, gpus), **_SETTINGS, "PYTHONPATH": paths}
    if not needs.gpus:
        wanted.pop(VISIBLE, None)
    before = dict(os.environ)
    os.environ.update(wanted)
    os.environ.pop("RAY_AUTH_MODE", None)  # without it, Ray wants the token
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def _short_folder() -> str:
    """Where temporary files go, unless the sockets that Ray makes there would have names too long for sockets."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
