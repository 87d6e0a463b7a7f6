"""``python -m turnout.futures.celery_worker --broker redis://… --queue NAME --key-file FILE``: a worker for an executor
that calls through Celery.

It makes only calls that are signed with the key in FILE, which nobody else may read (``openssl rand -hex 32 > FILE;
chmod 600 FILE``); the executor is made with the same: ``CeleryEngine(broker, needs, queue=NAME, key=read_key(FILE))``.
So many calls at a time as ``--workers`` says, each in a process of its own. Without ``--broker``, ``CELERY_BROKER_URL``
says where Redis is, which keeps a password out of sight.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnout.futures.calling import call_packed
from turnout.futures.celery_app import TASK, UNSEEN, connect, large_name, make_app, prefix
from turnout.futures.local.devices import VISIBLE
from turnout.futures.signing import Forged, Signer, read_key

_KEPT_SECONDS = 3600
_KEPT = 100_000  # outcomes that Redis keeps at most of an executor that takes none

_GLANCE = 0.3  # seconds between two looks at the processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a worker has to know. `gpus`: those of each of its processes. `folder`: for files of its own."""

    broker: str
    queue: str
    key: bytes = field(repr=False)
    workers: int
    gpus: list[str]
    folder: str | None = None


class Answers:
    """Puts outcomes where the executor looks for them; in each process with a connection of its own."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._signer = Signer(told.key)
        self._redis: tuple[int, Any] = (0, None)

    def open(self, number: str, text: str) -> tuple[str, bytes]:
        """Where what comes of it has to go, and the call; Forged unless it is signed."""
        try:
            signed = base64.b64decode(text) if text else self._large(number)
            opened: tuple[str, bytes] = self._signer.open("call", number, signed)
        except (TypeError, ValueError) as error:
            raise Forged(f"the call {number} cannot be read") from error
        return opened

    def put(self, number: str, where: str, outcome: Any) -> None:
        """In the stream `where`."""
        signed = self._signer.sign("outcome", number, outcome)

        def add() -> None:
            pipe = self._connection().pipeline(transaction=False)
            pipe.xadd(where, {number: signed}, maxlen=_KEPT, approximate=True)
            pipe.expire(where, _KEPT_SECONDS)  # it may have come after its executor, which has cleared up
            pipe.delete(large_name(self._told.queue, number))
            pipe.execute()

        _patiently(add)

    def _large(self, number: str) -> bytes:
        """Nothing when nobody wants it any more."""
        return _patiently(lambda: self._connection().get(large_name(self._told.queue, number))) or b""

    def _connection(self) -> Any:
        if self._redis[0] != os.getpid():
            self._redis = os.getpid(), connect(self._told.broker)
        return self._redis[1]


def _patiently(ask: Callable[[], Any]) -> Any:
    """What Redis says; None when it is away for half a minute, which who waits for the outcome sees, too."""
    give_up = time.monotonic() + UNSEEN
    while time.monotonic() < give_up:
        try:
            return ask()
        except Exception:
            time.sleep(0.2)
    return None


def serve(told: Told) -> None:
    """Until it is told to end."""
    from billiard.process import current_process
    from celery import signals

    processes: list[Any] = [current_process(), multiprocessing.current_process()]
    for each in processes:
        each._config["tempdir"] = told.folder
    app = make_app(told.broker, told.queue)
    answers = Answers(told)

    @app.task(name=TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def make(self: Any, text: str) -> None:
        number = self.request.id
        try:
            where, packed = answers.open(number, text)
        except Forged as error:
            print(f"refused: {error.message}", file=sys.stderr)
        else:
            _allow_children()
            answers.put(number, where, call_packed(packed))

    @signals.task_failure.connect(weak=False)  # type: ignore[untyped-decorator]
    def tell_of_death(task_id: str, exception: BaseException, args: Any, **_: Any) -> None:
        with contextlib.suppress(Forged):
            answers.put(task_id, answers.open(task_id, *args)[0], str(exception))

    @signals.worker_process_init.connect(weak=False)  # type: ignore[untyped-decorator]
    def see_gpus(**_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if told.gpus:
            os.environ[VISIBLE] = told.gpus[current_process().index]

    @signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
    def be_quiet(**_: Any) -> None:
        for name in ("celery", "kombu", "multiprocessing"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    threading.Thread(target=_keep_calls, args=(told,), daemon=True).start()
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    app.Worker(
        concurrency=told.workers, pool=_pool(), queues=[told.queue], without_gossip=True,
        without_mingle=True, without_heartbeat=True, hostname=f"turnout-{os.getpid()}@{told.queue}", quiet=True,
    ).start()  # fmt: skip


def _pool() -> Any:
    from celery.concurrency.prefork import TaskPool

    class Pool(TaskPool):  # type: ignore[misc]
        """Sees that a process is gone at once, and not only every five seconds."""

        def register_with_event_loop(self, loop: Any) -> Any:
            found = super().register_with_event_loop(loop)
            loop.call_repeatedly(_GLANCE, self._pool.maintain_pool)
            return found

    return Pool


def _allow_children() -> None:
    """A process of Celery's is a daemon to Python's own library too, which lets those start no process."""
    process: Any = multiprocessing.current_process()
    if process._config.get("daemon"):
        own: Any = multiprocessing.process
        process._config.update(daemon=False, authkey=own.AuthenticationString(os.urandom(32)))


def _keep_calls(told: Told) -> None:
    """Tells Redis time and again which calls this worker still has, so that no other one is given them."""
    from celery.worker import state

    redis = connect(told.broker)
    while True:
        time.sleep(UNSEEN / 6)
        tags = [each.message.delivery_tag for each in list(state.reserved_requests)]
        with contextlib.suppress(Exception):  # Redis is away
            if tags:
                redis.zadd(prefix(told.queue) + "unacked_index", dict.fromkeys(tags, time.time()), xx=True)


def _read() -> Told:
    parser = argparse.ArgumentParser(prog="python -m turnout.futures.celery_worker")
    parser.add_argument("--broker", default=os.environ.get("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0"))
    parser.add_argument("--queue", default="default", help="as the executor has it")
    parser.add_argument("--key-file", type=Path, required=True, help="who has this key can have any code run here")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="calls at a time")
    args = parser.parse_args()
    return Told(broker=args.broker, queue=args.queue, key=read_key(args.key_file), workers=args.workers, gpus=[])


def _end_with_program() -> None:
    """The executor that started this one holds the other end of our input."""
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


def serve_executor() -> None:
    """For an executor that says on our input what has to be known, and ends it to end us."""
    line = b""
    while not line.endswith(b"\n"):
        if not (read := os.read(0, 1 << 16)):
            return
        line += read
    said = json.loads(line)
    threading.Thread(target=_end_with_program, daemon=True).start()
    serve(Told(**{**said, "key": bytes.fromhex(said["key"])}))


if __name__ == "__main__":
    serve(_read())
