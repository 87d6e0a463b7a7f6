"""Calls through Dask: on workers here, or on those of a scheduler that exists."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
import time
import uuid
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from turnout.errors import InvalidInput, Unavailable
from turnout.futures.calling import Outcome, call
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost, MissingExtra, WorkerDied
from turnout.futures.folders import executor_folder
from turnout.futures.holding import Holding
from turnout.futures.local.devices import Devices
from turnout.futures.remote import Message
from turnout.futures.shelf import Shelved, open_shelf

try:
    import distributed
    from distributed.protocol import dask_deserialize, dask_serialize
except ImportError as error:
    raise MissingExtra("Dask", "dask") from error

from turnout.futures.dask_cluster import DEATHS, Host, as_told, own_client, start_scheduler, worker_told

_MANY, _TOGETHER = 20, 0.03  # calls under way from which on results wait for each other, and the seconds they do
_GLANCE = 1.0  # seconds between two looks at all calls
_PATIENCE = 10.0  # seconds for an outcome that is there


class Buffer:
    """A large one, that Dask moves without looking into it, and does not copy where it need not."""

    def __init__(self, raw: Any) -> None:
        self.raw = bytearray(raw) if isinstance(raw, bytes) or memoryview(raw).readonly else raw

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Buffer, (pickle.PickleBuffer(self.raw) if protocol >= 5 else bytes(self.raw),)

    def __sizeof__(self) -> int:
        return memoryview(self.raw).nbytes


class Kept:
    """What a worker has on a shelf, for as long as Dask wants it, in whichever process or file it has it."""

    def __init__(self, shelved: Shelved) -> None:
        self._shelved = shelved
        self._end = weakref.finalize(self, shelved.remove)

    def __reduce__(self) -> tuple[Any, ...]:
        self._end.detach()
        return Kept, (self._shelved,)


@dask_serialize.register(Buffer)  # type: ignore[untyped-decorator]
def _frames(buffer: Buffer) -> tuple[dict[str, Any], list[Any]]:
    return {}, [memoryview(buffer.raw)]


@dask_deserialize.register(Buffer)  # type: ignore[untyped-decorator]
def _buffer(header: dict[str, Any], frames: list[Any]) -> Buffer:
    return Buffer(frames[0] if len(frames) == 1 else b"".join(frames))


def call_here(packed: bytes, *buffers: Buffer) -> bytes | tuple[bytes, list[Buffer | Kept]]:
    """On a worker; as `call_packed`."""
    ended, data, found, seconds = call(*pickle.loads(packed, buffers=[each.raw for each in buffers]))
    apart: list[pickle.PickleBuffer] = []
    outcome = pickle.dumps((ended, data, found, seconds), 5, buffer_callback=apart.append)
    kept = [Kept(each) for each in found if isinstance(each, Shelved)]
    return (outcome, [*map(Buffer, apart), *kept]) if found else outcome


def _opened(answer: bytes | tuple[bytes, list[Any]]) -> Outcome:
    """What `call_here` said."""
    packed, buffers = answer if isinstance(answer, tuple) else (answer, [])
    outcome: Outcome = pickle.loads(packed, buffers=[each.raw for each in buffers if isinstance(each, Buffer)])
    return outcome


class Dask(Holding):
    """Through the client that `connect` gives."""

    limits_memory = True

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self._sent: dict[Message, str] = {}
        self._under_way: dict[str, tuple[Message, Any]] = {}

    @abstractmethod
    def connect(self) -> Any:
        """A `distributed.Client`. What it raises, it leaves nothing behind of."""

    def look(self) -> None:
        """Called now and then while nothing is heard: calls `lose_all` where nothing will be."""

    @abstractmethod
    def disconnect(self) -> None:
        """Ends what `connect` began; the client is closed."""

    def open(self) -> None:
        try:
            self._client = self.connect()
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"Dask cannot be reached: {error}", hint="is its scheduler running?") from error
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        _listen(self._client, self._news.put)
        self._thread = threading.Thread(target=self._hear, name="turnout dask", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._news.put(None)
        self._thread.join()
        try:
            self._client.close()
        finally:
            self._sent.clear()
            self._under_way.clear()
            self.disconnect()

    @property
    def workers(self) -> int | None:
        return None

    def hand_on(self, message: Message) -> None:
        apart: list[pickle.PickleBuffer] = []
        packed = message.packed(apart)
        key = f"{message.name}-{uuid.uuid4().hex}"
        self._sent[message] = key
        future = self._client.submit(call_here, packed, *map(Buffer, apart), key=key)
        self._under_way[key] = message, future
        if future.done():
            self._news.put(key)

    def take_back(self, message: Message) -> bool:
        known = self._under_way.pop(self._sent.pop(message, ""), None)
        if known is not None:
            known[1].cancel()
        return True

    def _hear(self) -> None:
        """In a thread of its own."""
        is_over = False
        while not is_over:
            news = self._gathered_news()
            is_over = None in news
            known = [each for each in map(self._under_way.get, filter(None, news)) if each is not None]
            known = [(message, future) for message, future in known if future.done()]
            for (message, _), outcome in zip(known, self._fetch([future for _, future in known]), strict=True):
                self._under_way.pop(self._sent.pop(message, ""), None)
                if isinstance(outcome, Exception):
                    self.lost(message, outcome)
                else:
                    self.ended(message, _opened(outcome))

    def _gathered_news(self) -> set[str | None]:
        """Of which calls something came, as far as is known; None = it is over. Together, for to fetch many results
        costs as much as to fetch one. Now and then all calls are looked at, since not all that happens is news."""
        try:
            news = {self._news.get(timeout=_GLANCE)}
        except queue.Empty:
            self.look()
            return {key for key, (_, future) in list(self._under_way.items()) if future.done()}
        if len(self._under_way) > _MANY:
            time.sleep(_TOGETHER)
        while not self._news.empty():
            news.add(self._news.get())
        return news

    def _fetch(self, done: list[Any]) -> list[Any]:
        """Of each its outcome, or why there is none."""
        try:
            fine = [each for each in done if each.status == "finished"]
            found = dict(zip(fine, self._client.gather(fine), strict=True)) if fine else {}
        except Exception:  # something of it was lost on the way
            found = {}
        return [found[each] if each in found else _outcome(each) for each in done]


def _listen(client: Any, tell: Callable[[str], object]) -> None:
    """Tells the key of each call that the scheduler has said something of. A callback for each, as Dask has them,
    costs as much as a fifth of a call."""
    handlers = client._stream_handlers
    for name in ("key-in-memory", "task-erred", "cancelled-keys"):
        handlers[name] = _telling(handlers[name], tell)


def _telling(handle: Callable[..., Any], tell: Callable[[str], object]) -> Callable[..., Any]:
    def handle_and_tell(**said: Any) -> Any:
        answer = handle(**said)
        for key in said.get("keys") or [said.get("key", "")]:
            tell(key)
        return answer

    return handle_and_tell


def _outcome(future: Any) -> Any:
    try:
        return future.result(timeout=_PATIENCE)
    except distributed.scheduler.KilledWorker as error:
        return WorkerDied(f"the process that made the call died, and so did {DEATHS} before it: {error}")
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
            folder = undo.enter_context(executor_folder("dask"))
            self.shelf = undo.enter_context(open_shelf())
            tls = distributed.Security.temporary()
            cluster = start_scheduler(tls, folder)
            undo.callback(cluster.close)
            self._host = Host(
                {"scheduler": cluster.scheduler_address, "tls": as_told(tls), "folder": folder, "host": "127.0.0.1"}
            )
            undo.callback(self._host.close)
            self._gpus: dict[str, list[str]] = {}
            self._start_missing()
            client = own_client(cluster)
            self._undo = undo.pop_all()
            return client

    def disconnect(self) -> None:
        self._undo.close()

    def look(self) -> None:
        if self._host.is_gone:
            self.lose_all(self._lost())

    def hand_on(self, message: Message) -> None:
        if self._host.is_gone:
            raise self._lost()
        super().hand_on(message)

    def _lost(self) -> EngineLost:
        return EngineLost("the process of Dask's workers is gone", hint="make another executor")

    @property
    def workers(self) -> int:
        return self._count

    def scale(self, workers: int) -> None:
        self._devices.resize(self.needs.gpus * workers)
        self._count = workers
        if self._is_on:
            self._start_missing()
            surplus = [name for name in self._gpus if int(name) >= workers]
            self._host.tell({"stop": surplus})
            for name in surplus:
                self._devices.give_back(self._gpus.pop(name))
            self.fill()

    def _start_missing(self) -> None:
        names = [str(number) for number in range(self._count) if str(number) not in self._gpus]
        self._gpus.update({name: self._devices.take(self.needs.gpus) for name in names})
        each = {name: worker_told(self.needs, self._gpus[name]) for name in names}
        if each:
            self._host.tell({"start": each})


class DaskExisting(Dask):
    """The workers of a scheduler at `address`, whoever started it; turnout has to be installed where they are."""

    limits_memory = False

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
