"""Calls through Dask: on workers here, or on those of a scheduler that exists."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from turnout.errors import InvalidInput, Unavailable
from turnout.futures.calling import Outcome, call
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost, MissingExtra, WorkerDied
from turnout.futures.local.devices import Devices
from turnout.futures.local.environment import environment
from turnout.futures.remote import Message, Remote

try:
    import distributed
except ImportError as error:
    raise MissingExtra("Dask", "dask") from error

_DEATHS = 2  # workers that a call may kill before it is given up with the next
_MANY, _TOGETHER = 20, 0.01  # calls under way from which on results wait for each other, and the seconds they do
_PATIENCE = 10.0  # seconds for an outcome that is there


class Buffer:
    """A large one, that Dask moves without looking into it, and does not copy where it need not."""

    def __init__(self, raw: Any) -> None:
        self.raw = bytearray(raw) if isinstance(raw, bytes) or memoryview(raw).readonly else raw

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Buffer, (pickle.PickleBuffer(self.raw) if protocol >= 5 else bytes(self.raw),)

    def __sizeof__(self) -> int:
        return memoryview(self.raw).nbytes


def call_here(function: bytes, arguments: bytes, buffers: Sequence[Buffer] = (), *more: Any) -> Outcome:
    """On a worker."""
    ended, data, found, seconds = call(function, arguments, [each.raw for each in buffers], *more)
    return ended, data, [Buffer(each) for each in found], seconds


class Dask(Remote):
    """Through the client that `connect` gives."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self._sent: dict[Message, Any] = {}

    @abstractmethod
    def connect(self) -> Any:
        """A `distributed.Client`. What it raises, it leaves nothing behind of."""

    @abstractmethod
    def disconnect(self) -> None:
        """Ends what `connect` began; the client is closed."""

    def open(self) -> None:
        try:
            self._client = self.connect()
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"Dask cannot be reached: {error}", hint="is its scheduler running?") from error
        self._done: queue.SimpleQueue[tuple[Message, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._hear, name="turnout dask", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._done.put(None)
        self._thread.join()
        try:
            self._client.close()
        finally:
            self._sent.clear()
            self.disconnect()

    def send(self, message: Message) -> None:
        function, arguments, *more = message.words
        if message.buffers:
            more[0] = [Buffer(each) for each in message.buffers]
        future = self._client.submit(call_here, function, arguments, *more, pure=False)
        self._sent[message] = future
        future.add_done_callback(lambda future: self._done.put((message, future)))

    def recall(self, message: Message) -> None:
        future = self._sent.pop(message, None)
        if future is not None:
            future.cancel()

    def _hear(self) -> None:
        """In a thread of its own: fetches all results that are there together, which costs as much as fetching one."""
        while True:
            batch = [self._done.get()]
            if len(self._sent) > _MANY:
                time.sleep(_TOGETHER)
            while not self._done.empty():
                batch.append(self._done.get())
            known = [each for each in batch if each is not None]
            for (message, _), outcome in zip(known, self._fetch([future for _, future in known]), strict=True):
                self._sent.pop(message, None)
                if isinstance(outcome, Exception):
                    self.lost(message, outcome)
                else:
                    ended, data, buffers, seconds = outcome
                    self.ended(message, (ended, data, [each.raw for each in buffers], seconds))
            if None in batch:
                return

    def _fetch(self, done: list[Any]) -> list[Any]:
        """Of each its outcome, or why there is none."""
        try:
            fine = [each for each in done if each.status == "finished"]
            found = dict(zip(fine, self._client.gather(fine), strict=True)) if fine else {}
        except Exception:  # something of it was lost on the way
            found = {}
        return [found[each] if each in found else _outcome(each) for each in done]


def _outcome(future: Any) -> Any:
    try:
        return future.result(timeout=_PATIENCE)
    except distributed.scheduler.KilledWorker as error:
        return WorkerDied(f"the process that made the call died, and so did {_DEATHS} before it: {error}")
    except Exception as error:
        return EngineLost(f"Dask lost the call ({type(error).__name__}: {error})", hint="is its scheduler running?")


class DaskLocal(Dask):
    """`workers` processes on this machine, that talk over TLS with a key of their own."""

    def __init__(self, workers: int, needs: Needs, *, per_gpu: int = 1) -> None:
        super().__init__(needs)
        self._count = workers
        self._per_gpu = per_gpu

    def connect(self) -> Any:
        with contextlib.ExitStack() as undo:
            self._devices = Devices(self.needs.gpus * self._count, self._per_gpu)
            undo.callback(self._devices.close)
            folder = tempfile.mkdtemp(prefix="turnout-dask-")
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            tls = distributed.Security.temporary()
            cluster = start_scheduler(tls, folder)
            undo.callback(cluster.close)
            self._host = Host({"scheduler": cluster.scheduler_address, "tls": as_told(tls), "folder": folder})
            undo.callback(self._host.close)
            self._gpus: dict[str, list[str]] = {}
            self._start_missing()
            client = distributed.Client(cluster, set_as_default=False)
            self._undo = undo.pop_all()
            return client

    def disconnect(self) -> None:
        self._undo.close()

    def scale(self, workers: int) -> None:
        self._devices.resize(self.needs.gpus * workers)
        self._count = workers
        if self._is_on:
            self._start_missing()
            surplus = [name for name in self._gpus if int(name) >= workers]
            self._host.tell({"stop": surplus})
            for name in surplus:
                self._devices.give_back(self._gpus.pop(name))

    def _start_missing(self) -> None:
        names = [str(number) for number in range(self._count) if str(number) not in self._gpus]
        self._gpus.update({name: self._devices.take(self.needs.gpus) for name in names})
        each = {name: worker_told(self.needs, self._gpus[name]) for name in names}
        if each:
            self._host.tell({"start": each})


class Host:
    """A process with workers; see `dask_host`, to which it is first `told` where the scheduler is."""

    def __init__(self, told: dict[str, Any]) -> None:
        code = "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; import runpy; "
        code += "runpy.run_module('turnout.futures.dask_host', run_name='__main__', alter_sys=True)"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._say(told)

    def tell(self, what: dict[str, Any]) -> None:
        """Returns when it is done; Unavailable when it cannot be."""
        self._say(what)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"done\n":
            raise Unavailable("workers of Dask cannot be started", hint="what they printed is above")

    def close(self) -> None:
        """Ends it, with its workers."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that it is gone is seen when its answer is read
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()


def start_scheduler(tls: Any, folder: str, host: str = "127.0.0.1") -> Any:
    """A scheduler in this process, that leaves its files in `folder`, as a cluster without workers. Unavailable when it
    cannot be."""
    options = {
        "host": host, "port": 0, "protocol": "tls://", "security": tls, "dashboard": False,
        "dashboard_address": "127.0.0.1:0", "allowed_failures": _DEATHS,
        "local_directory": folder,
    }  # fmt: skip
    scheduler = {"cls": distributed.Scheduler, "options": options}
    try:
        return distributed.SpecCluster(workers={}, scheduler=scheduler, security=tls, silence_logs=logging.CRITICAL)
    except RuntimeError as error:
        hint = "give an address of this machine that the workers can reach"
        raise Unavailable(f"no scheduler of Dask can be started at {host}: {error}", hint=hint) from error


def as_told(tls: Any) -> dict[str, str]:
    """The certificate and its key, for a worker."""
    return {
        "tls_ca_file": tls.tls_ca_file, "tls_worker_cert": tls.tls_worker_cert, "tls_worker_key": tls.tls_worker_key,
    }  # fmt: skip


def worker_told(needs: Needs, gpus: list[str]) -> dict[str, Any]:
    env = environment(needs, gpus)
    return {
        "env": {name: value for name, value in env.items() if os.environ.get(name) != value},
        "memory": needs.memory,
    }


class DaskExisting(Dask):
    """The workers of a scheduler at `address`, whoever started it; turnout has to be installed where they are."""

    def __init__(self, address: str, needs: Needs, *, security: Any = None) -> None:
        super().__init__(needs)
        self._address = address
        self._security = security

    def connect(self) -> Any:
        return distributed.Client(
            self._address, security=self._security, set_as_default=False, timeout=_PATIENCE, name="turnout"
        )

    def disconnect(self) -> None:
        """Who started it ends it."""

    def scale(self, workers: int) -> None:
        raise InvalidInput(
            "the workers of a scheduler that exists are not ours to start", hint="ask who started the scheduler"
        )
