"""Calls through Celery, with Redis between: on workers here, or on those that were started for it elsewhere."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import secrets
import signal
import subprocess
import threading
import time
import uuid

from turnout.errors import InvalidInput, Unavailable
from turnout.futures.celery_app import TASK, connect, large_name, make_app, prefix
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost
from turnout.futures.folders import executor_folder
from turnout.futures.launching import python
from turnout.futures.local.devices import Devices
from turnout.futures.local.environment import environment
from turnout.futures.packing import LARGE
from turnout.futures.remote import Message
from turnout.futures.resending import Resending
from turnout.futures.shelf import Shelved, open_shelf
from turnout.futures.signing import Forged, Signer

import redis  # isort: skip  # of Celery, which `celery_app` asks for
from kombu.exceptions import OperationalError  # isort: skip

_PATIENCE = 10.0  # seconds for Redis to come back
_GLANCE = 0.5  # seconds between two looks at the worker
_BATCH = 500
_ENDS = 3  # workers that may end, one after the other, without anything having come of a call
_AGAIN = {"max_retries": 3, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.3}
_AWAY = (redis.RedisError, OSError, OperationalError)


class CeleryEngine(Resending):
    """Through Redis at the address `broker`, ``redis://…``, and a worker with `workers` processes that is started here;
    or, with None, through workers that were started with the same `queue` and `key`, see `celery_worker`. Calls, and
    what comes of them, are pickles: none is opened that is not signed with `key`."""

    def __init__(
        self, broker: str, needs: Needs, *, workers: int | None = None, key: bytes | None = None,
        queue: str | None = None, per_gpu: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(needs)
        if workers is None and (key is None or queue is None):
            raise InvalidInput("workers that others start need a queue and a key", hint="give queue=…, key=…")
        self._broker = broker
        self._count = workers
        self._per_gpu = per_gpu
        self._key = key or secrets.token_bytes(32)
        self._signer = Signer(self._key)
        self._queue = queue
        self._sending = threading.Lock()
        self._messages: dict[str, Message] = {}
        self._numbers: dict[Message, str] = {}
        self._large: set[str] = set()

    def open(self) -> None:
        self._name = self._queue or uuid.uuid4().hex
        self._stream = f"{prefix(self._name)}outcomes:{uuid.uuid4().hex}"
        self._wrong = ""
        self._ends = 0
        with contextlib.ExitStack() as undo:
            try:
                self._redis = undo.enter_context(contextlib.closing(connect(self._broker)))
                self._store = undo.enter_context(contextlib.closing(connect(self._broker)))
                self._server = self._redis.info("server")["run_id"]
            except _AWAY as error:
                raise Unavailable(f"Redis cannot be reached: {error}", hint="is redis-server running?") from error
            self._app = make_app(self._broker, self._name)
            undo.callback(self._app.close)
            self._producer = self._app.amqp.Producer(undo.enter_context(self._app.connection_for_write()))
            undo.callback(self._clear)
            self._worker: subprocess.Popen[bytes] | None = None
            self.shelf = None
            if self._count is not None:
                self.shelf = undo.enter_context(open_shelf())
                self._worker = self._start_worker(self._count, undo)
            self._is_closing = False
            self._thread = threading.Thread(target=self._hear, name="turnout celery", daemon=True)
            self._thread.start()
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._is_closing = True
        with contextlib.suppress(*_AWAY), contextlib.closing(connect(self._broker)) as other:
            other.xadd(self._stream, {"": ""})  # wakes who listens
        self._thread.join()
        self._messages.clear()
        self._numbers.clear()
        self._large.clear()
        self._undo.close()

    def scale(self, workers: int) -> None:
        if self._count is None:
            raise InvalidInput("workers that others started are not ours to change", hint="start or end some there")
        if self._is_on and workers != self._count:
            if self.needs.gpus:
                raise InvalidInput("a worker of Celery cannot get more GPUs", hint="stop the executor, start another")
            change = "pool_grow" if workers > self._count else "pool_shrink"
            self._ask_worker(change, abs(workers - self._count))
        self._count = workers

    def send(self, message: Message) -> None:
        if self._wrong:
            raise EngineLost(self._wrong, hint="make another executor")
        number = uuid.uuid4().hex
        signed = self._signer.sign("call", number, (self._stream, message.packed()))
        is_large = len(signed) > LARGE  # then what Celery carries is a mere note that it lies in Redis
        text = "" if is_large else base64.b64encode(signed).decode("ascii")
        self._messages[number] = message
        self._numbers[message] = number
        try:
            with self._sending:
                if is_large:
                    self._large.add(number)
                    self._store.set(large_name(self._name, number), signed)
                self._app.send_task(
                    TASK, (text,), task_id=number, producer=self._producer, ignore_result=True, argsrepr="",
                    retry=True, retry_policy=_AGAIN,
                )  # fmt: skip
        except _AWAY as error:
            self._forget_number(message)
            raise EngineLost(f"Redis cannot be reached: {error}", hint="is redis-server running?") from error

    def recall(self, message: Message) -> None:
        number = self._forget_number(message)
        if number is not None:
            with contextlib.suppress(*_AWAY), self._sending:
                self._app.control.revoke(number, connection=self._producer.connection)

    def _forget_number(self, message: Message) -> str | None:
        """And removes what lies in Redis of it."""
        number = self._numbers.pop(message, None)
        if number is not None:
            self._messages.pop(number, None)
            if number in self._large:
                self._large.discard(number)
                with contextlib.suppress(*_AWAY), self._sending:
                    self._store.delete(large_name(self._name, number))
        return number

    def _hear(self) -> None:
        """In a thread of its own: takes what came of calls, and looks whether Redis and the worker are still there."""
        last, away = "0-0", None
        while not self._is_closing:
            try:
                if away is not None:
                    self._meet_again()
                    away = None
                found = self._redis.xread({self._stream: last}, count=_BATCH, block=int(_GLANCE * 1000))
                entries = found[0][1] if found else []
                for each, fields in entries:
                    last = each
                    self._tell(fields)
                if entries:
                    self._redis.xtrim(self._stream, minid=last)
                elif self._worker is not None and self._worker.poll() is not None and not self._wrong:
                    self._replace(self._worker)
            except _AWAY as error:
                away = away or time.monotonic()
                if time.monotonic() - away > _PATIENCE:
                    self.lose_all(EngineLost(f"Redis cannot be reached: {error}", hint="is redis-server running?"))
                time.sleep(0.05)

    def _meet_again(self) -> None:
        """A Redis that was started anew knows of nothing that we sent."""
        server = self._redis.info("server")["run_id"]
        if server != self._server:
            self._server = server
            self.lose_all(EngineLost("Redis was started anew, and has lost the call"))

    def _replace(self, worker: subprocess.Popen[bytes]) -> None:
        """It ended. What waits in Redis is made by the next one; what it had begun is to blame, perhaps."""
        how = f"the worker of Celery ended with code {worker.returncode}"
        self._ends += 1
        _end(worker)
        if self._ends > _ENDS:
            self._wrong = f"{how}, and so did {_ENDS} before it"
            self.lose_all(EngineLost(self._wrong, hint="make another executor"))
            return
        names = [prefix(self._name) + each for each in ("unacked", "unacked_index")]
        begun = [json.loads(each)[0]["headers"]["id"] for each in self._redis.hvals(names[0])]
        next_one = self._launch()
        self._redis.delete(*names)
        self._worker = next_one
        for message in [self._messages[each] for each in begun if each in self._messages]:
            self._forget_number(message)
            self.died(message, how)

    def _tell(self, fields: dict[bytes, bytes]) -> None:
        for name, signed in fields.items():
            message = self._messages.get(name.decode("ascii", "replace"))
            try:
                outcome = self._signer.open("outcome", name.decode("ascii", "replace"), signed)
            except Forged:
                continue
            self._ends = 0
            if message is None:  # cancelled
                discard(outcome)
                continue
            self._forget_number(message)
            if isinstance(outcome, str):
                self.died(message, outcome)
            else:
                self.ended(message, pickle.loads(outcome))

    def lost(self, message: Message, error: BaseException) -> None:
        self._forget_number(message)
        super().lost(message, error)

    def _start_worker(self, count: int, undo: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        devices = Devices(self.needs.gpus * count, self._per_gpu)
        undo.callback(devices.close)
        gpus = [",".join(devices.take(self.needs.gpus)) for _ in range(count)] if self.needs.gpus else []
        folder = undo.enter_context(executor_folder("celery"))
        self._told = {"broker": self._broker, "queue": self._name, "gpus": gpus, "folder": folder}
        started = self._launch()
        undo.callback(lambda: _end(self._worker or started))
        return started

    def _launch(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            python("from turnout.futures.celery_worker import serve_executor; serve_executor()"),
            stdin=subprocess.PIPE, start_new_session=True, env=environment(self.needs, []),
        )  # fmt: skip
        told = {**self._told, "key": self._key.hex(), "workers": self._count}
        assert worker.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended; that is seen when it is looked at
            worker.stdin.write(json.dumps(told).encode() + b"\n")
            worker.stdin.flush()
        return worker

    def _ask_worker(self, what: str, count: int) -> None:
        """Unavailable when it does not answer."""
        give_up = time.monotonic() + _PATIENCE
        while time.monotonic() < give_up:
            with self._sending:
                if self._app.control.broadcast(what, arguments={"n": count}, reply=True, limit=1, timeout=1.0):
                    return
        raise Unavailable("the worker of Celery does not answer", hint="try again")

    def _clear(self) -> None:
        """Removes what is ours from Redis."""
        with contextlib.suppress(*_AWAY), contextlib.closing(connect(self._broker)) as other:
            other.delete(self._stream)
            if self._queue is None:
                for name in list(other.scan_iter(prefix(self._name) + "*", count=1000)):
                    other.delete(name)


def discard(outcome: str | bytes) -> None:
    """Nobody takes it."""
    if isinstance(outcome, bytes):
        for each in pickle.loads(outcome)[2]:
            if isinstance(each, Shelved):
                each.remove()


def _end(worker: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        assert worker.stdin is not None
        worker.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
