"""Calls through Parsl's HighThroughputExecutor: on workers here, or on those of a configuration."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from turnout.errors import InvalidInput, Unavailable
from turnout.futures.calling import call_packed
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost, MissingExtra
from turnout.futures.folders import executor_folder
from turnout.futures.holding import Holding
from turnout.futures.launching import python_module
from turnout.futures.remote import Message
from turnout.futures.resending import Resending
from turnout.futures.shelf import open_shelf

try:
    import zmq
    from parsl.executors import HighThroughputExecutor
    from parsl.executors.high_throughput.errors import ManagerLost, WorkerLost
except ImportError as error:
    raise MissingExtra("Parsl", "parsl") from error

from turnout.futures.parsl_blocks import Blocks

_GLANCE = 0.5  # seconds between two looks at the processes
_DEATHS = 5  # blocks that may end, one after the other, without anything having come of a call
_HOW = {"task_executor": {"f": "turnout.futures.parsl.make_here"}}
_SEVERAL = {"task_executor": {"f": "turnout.futures.parsl.make_several_here"}}


class ParslEngine(Holding, Resending):
    """`workers` processes on this machine, that talk with keys of their own; or those of `config`: a `parsl.Config`,
    its HighThroughputExecutor, or, to start more than once, a function that makes one. Parsl's own global state is
    left alone."""

    most_together = 8

    def __init__(
        self, workers: int, needs: Needs, *, config: Any | Callable[[], Any] | None = None, per_gpu: int = 1
    ) -> None:
        super().__init__(needs)
        self._count = workers
        self._config = config
        self._per_gpu = per_gpu
        self._submitting = threading.Lock()

    def open(self) -> None:
        with contextlib.ExitStack() as undo:
            folder = undo.enter_context(executor_folder("parsl"))
            self.shelf = undo.enter_context(open_shelf()) if self._config is None else None
            self._wrong = ""
            self._parsl = self._local(folder) if self._config is None else _executor_of(self._config)
            self._blocks = Blocks(self._parsl, self._blocks_wanted(), self.needs, self._per_gpu)
            undo.callback(self._blocks.close)
            self._start(folder, undo)
            self._is_closing = threading.Event()
            self._thread = threading.Thread(target=self._watch, name="turnout parsl", daemon=True)
            self._thread.start()
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()
        self._undo.close()

    def scale(self, workers: int) -> None:
        if self._config is not None:
            raise InvalidInput("how many workers there are, the configuration says", hint="set it in its provider")
        if self._is_on:
            self._blocks.scale(workers)
        self._count = workers
        self.fill()

    @property
    def workers(self) -> int | None:
        return self._count if self._config is None else None

    def hand_on(self, message: Message) -> None:
        if self._wrong:
            raise EngineLost(self._wrong, hint="make another executor")
        packed = message.packed()
        with self._submitting:
            future = self._parsl.submit_payload(_HOW, packed)
        future.add_done_callback(lambda future: self._tell(message, future))

    def hand_on_together(self, messages: Sequence[Message]) -> None:
        if self._wrong:
            raise EngineLost(self._wrong, hint="make another executor")
        packed = pickle.dumps([message.packed() for message in messages], 5)
        with self._submitting:
            future = self._parsl.submit_payload(_SEVERAL, packed)
        future.add_done_callback(lambda future: self._tell_together(messages, future))

    def take_back(self, message: Message) -> bool:
        """Parsl takes nothing back."""
        return False

    def _local(self, folder: str) -> Any:
        from turnout.futures.parsl_blocks import LocalProcesses

        return HighThroughputExecutor(
            label="turnout", provider=LocalProcesses(self.needs, folder), address="127.0.0.1", max_workers_per_node=1,
            cores_per_worker=1e-3, heartbeat_period=1, heartbeat_threshold=10, encrypted=True,
            interchange_launch_cmd=python_module("parsl.executors.high_throughput.interchange", folder),
        )  # fmt: skip

    def _blocks_wanted(self) -> int:
        provider = self._parsl.provider
        return self._count if self._config is None else max(1, provider.init_blocks, provider.min_blocks)

    def _start(self, folder: str, undo: contextlib.ExitStack) -> None:
        self._parsl.run_dir = folder
        self._parsl.run_id = str(uuid.uuid4())
        self._parsl.provider.script_dir = os.path.join(folder, "scripts")
        for each in (self._parsl.provider.script_dir, self._parsl.logdir):
            os.makedirs(each, exist_ok=True)
        undo.callback(self._parsl.shutdown)
        try:
            self._parsl.start()
        except Exception as error:
            raise Unavailable(f"Parsl cannot be started: {error}", hint="see the cause above") from error
        self._parsl.outgoing_q.zmq_socket.setsockopt(zmq.LINGER, 0)  # what nobody reads must not keep us from ending
        undo.callback(self._blocks.end_all)
        self._blocks.tend()

    def _tell(self, message: Message, future: Any) -> None:
        """In the thread in which Parsl listens."""
        error = future.exception()
        if error is None:
            self._blocks.deaths = 0
            self.ended(message, pickle.loads(future.result()))
        elif isinstance(error, (WorkerLost, ManagerLost)):
            self.free(message)
            self.died(message, str(error))
        else:
            self.lost(message, EngineLost(f"Parsl lost the call ({type(error).__name__}: {error})"))

    def _tell_together(self, messages: Sequence[Message], future: Any) -> None:
        """As `_tell`, of several."""
        error = future.exception()
        if error is None:
            self._blocks.deaths = 0
            for message, outcome in zip(messages, pickle.loads(future.result()), strict=True):
                self.ended(message, pickle.loads(outcome))
        elif isinstance(error, (WorkerLost, ManagerLost)):
            self.part(messages)
        else:
            for message in messages:
                self.lost(message, EngineLost(f"Parsl lost the call ({type(error).__name__}: {error})"))

    def _watch(self) -> None:
        """In a thread of its own: processes that end are replaced, unless they do nothing else."""
        while not self._is_closing.wait(_GLANCE) and not self._wrong:
            if self._parsl.interchange_proc.poll() is not None:
                self._give_up("Parsl's interchange is gone")
            elif self._parsl.bad_state_is_set:
                self._give_up(f"Parsl gave up: {self._parsl.executor_exception}")
            elif self._blocks.deaths > _DEATHS:
                self._give_up("Parsl's workers end as soon as they are started")
            else:
                try:
                    self._blocks.tend()
                except Exception as error:  # whatever keeps it from being seen after, calls must not wait for ever
                    self._give_up(f"Parsl's workers cannot be seen after: {error}")
                self.fill()

    def _give_up(self, wrong: str) -> None:
        self._wrong = wrong
        self.lose_all(EngineLost(wrong, hint="make another executor"))


def make_here(packed: bytes) -> bytes:
    """What workers do; Parsl finds it by its name."""
    return call_packed(packed)


def make_several_here(packed: bytes) -> bytes:
    """The same, of several calls, one after the other."""
    return pickle.dumps([call_packed(each) for each in pickle.loads(packed)], 5)


def _executor_of(config: Any) -> Any:
    found = config() if callable(config) else config
    found = getattr(found, "executors", [found])[0]
    if not isinstance(found, HighThroughputExecutor):
        raise InvalidInput(f"{type(found).__name__} cannot be used", hint="give a HighThroughputExecutor of Parsl")
    if found.interchange_proc is not None:
        raise InvalidInput("Parsl cannot start an executor twice", hint="give a function that makes one")
    return found
