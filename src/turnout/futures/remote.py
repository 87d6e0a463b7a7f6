"""What engines share that hand calls to another library: packing, waiting for arguments, and what came of it."""

from __future__ import annotations

import pickle
import threading
from abc import abstractmethod
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, ClassVar

import cloudpickle

from turnout.errors import Conflict, InvalidInput
from turnout.futures.calling import Outcome
from turnout.futures.engine import Engine, Needs, Task
from turnout.futures.errors import EngineLost, WorkerDied
from turnout.futures.functions import Functions
from turnout.futures.packing import Awaits, pack_arguments
from turnout.futures.shelf import Shelf, Shelved
from turnout.futures.waiting import one_after_another, when_done


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One call; `name` is that of its function, for people. Buffers may lie on a shelf, in `folder`."""

    name: str
    function: bytes
    arguments: bytes
    buffers: list[Any]
    seconds: float | None
    folder: str

    def packed(self, apart: list[pickle.PickleBuffer] | None = None) -> bytes:
        """For `calling.call_packed`. Buffers that lie on no shelf are added to `apart`, if there is such a list; else
        they are in it."""
        words = self.function, self.arguments, self.buffers, self.seconds, self.folder
        return pickle.dumps(words, 5, buffer_callback=None if apart is None else apart.append)


class Remote(Engine):
    """For each worker `needs`, for the one call it is at. A subclass has `open`, `close`, `send`, `recall` and `scale`;
    where its workers are on this machine, `open` gives it a `shelf`.
    Every task is told of exactly once, whatever the library does: what it never answered for is failed by `stop`."""

    limits_memory: ClassVar[bool] = False
    """whether a worker that takes more than it may have is ended"""

    def __init__(self, needs: Needs) -> None:
        if needs.memory and not self.limits_memory:
            what = f"memory: nobody keeps the workers of a {type(self).__name__} from taking more"
            raise InvalidInput(what, hint="leave it out, or take workers of this machine or of Dask")
        self.needs = needs
        self._lock = threading.Lock()
        self._tasks: dict[Message, Task] = {}
        self._parked: set[Task] = set()
        self._functions = Functions()
        self._is_on = False
        self.shelf: Shelf | None = None

    @abstractmethod
    def open(self) -> None:
        """Connects, and starts what has to be started. What it raises, it leaves nothing behind of."""

    @abstractmethod
    def close(self) -> None:
        """Ends all that `open` began."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Hands it on, and returns at once. `ended` or `lost` is to be called for it, in any thread."""

    @abstractmethod
    def recall(self, message: Message) -> None:
        """Nobody wants it any more: if it was not begun, it should not be."""

    def start(self) -> None:
        self.open()
        self._is_on = True

    def submit(self, task: Task) -> None:
        self._check(task.terms.needs)
        try:
            message = self._packed(task)
        except Awaits as missing:
            self._park(task, missing.these)
            return
        except BaseException as error:
            if task.begin():
                task.fail(error)
            return
        with self._lock:
            is_on = self._is_on
            if is_on:
                self._tasks[message] = task
        if not is_on:
            self._clear_shelf(message)
            raise _stopped()
        task.on_cancel(lambda: self._forget(message))
        try:
            self.send(message)
        except BaseException as error:
            self.lost(message, error)

    def ended(self, message: Message, outcome: Outcome) -> None:
        ended, data, buffers, seconds = outcome
        try:
            found = [each.take() if isinstance(each, Shelved) else each for each in buffers]
        except OSError as error:
            self.lost(message, EngineLost(f"what came of the call is gone: {error}"))
            return
        task = self._taken(message)
        if task is not None and task.begin():
            task.end(ended, data, found, seconds)

    def lost(self, message: Message, error: BaseException) -> None:
        """Nothing came of it; `error` says why."""
        task = self._taken(message)
        if task is not None and task.begin():
            task.fail(error)

    def drop_waiting(self) -> None:
        with self._lock:
            parked, known = list(self._parked), list(self._tasks)
            self._parked.clear()
        for task in parked:
            task.drop()
        for message in known:
            found = self._taken(message)
            if found is not None:
                found.drop()
                self.recall(message)

    def stop(self) -> None:
        with self._lock:
            self._is_on = False
        try:
            self.close()
        finally:
            self._fail_all(WorkerDied("the executor was stopped before the call was made"))

    def lose_all(self, error: Exception) -> None:
        """Of nothing that was sent, anything will be heard."""
        with self._lock:
            left = list(self._tasks)
        for message in left:
            self.lost(message, error)

    def _fail_all(self, error: Exception) -> None:
        with self._lock:
            parked = list(self._parked)
            self._parked.clear()
        for task in parked:
            task.drop()
        self.lose_all(error)

    def _check(self, needs: Needs | None) -> None:
        mine = self.needs
        if needs is None or (needs.cpus <= mine.cpus and needs.gpus <= mine.gpus and needs.memory <= mine.memory):
            return
        if needs.memory > mine.memory:
            has = f"{mine.memory >> 20} MB" if mine.memory else "no limit"
            what = f"a call may have {needs.memory >> 20} MB of memory, and each worker has {has}"
            raise InvalidInput(what, hint="give the executor other workers, or leave it out")
        what = f"a call needs {needs.cpus} processors and {needs.gpus} GPUs"
        has = f"each worker has {mine.cpus} and {mine.gpus}"
        raise InvalidInput(f"{what}, and {has}", hint="give the executor larger workers, or ask for less")

    def _packed(self, task: Task) -> Message:
        function = self._functions.get(task.function)
        known = function.data if function.number else cloudpickle.dumps(task.function, 5)
        name = getattr(task.function, "__name__", "call")
        arguments, buffers = pack_arguments(task.args, task.kwargs)
        put = self.shelf.put(buffers) if self.shelf is not None else buffers
        folder = "" if self.shelf is None else self.shelf.folder
        return Message(name, known, arguments, put, task.terms.seconds, folder)

    def _park(self, task: Task, these: Sequence[futures.Future[Any]]) -> None:
        with self._lock:
            if not self._is_on:
                raise _stopped()
            self._parked.add(task)

        def resume() -> None:
            with self._lock:
                is_there = task in self._parked
                self._parked.discard(task)
            if is_there:
                try:
                    self.submit(task)
                except BaseException as error:
                    if task.begin():
                        task.fail(error)

        when_done(these, lambda: one_after_another(resume))

    def _forget(self, message: Message) -> None:
        """It was cancelled."""
        task = self._taken(message)
        if task is not None:
            task.begin()
            self.recall(message)

    def _taken(self, message: Message) -> Task | None:
        with self._lock:
            task = self._tasks.pop(message, None)
        if task is not None:
            self._clear_shelf(message)
        return task

    def _clear_shelf(self, message: Message) -> None:
        if self.shelf is not None:
            self.shelf.remove(message.buffers)


def _stopped() -> Conflict:
    return Conflict("this executor is stopped", hint="make another one")
