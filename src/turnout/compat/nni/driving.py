"""A service at work: its loop in a thread beside, its listener, and asking it from another thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from turnout.compat.nni.service import ask, member_of, raised

T = TypeVar("T")
#: How long a main loop may take to return after `clean_up`, in seconds.
_FAREWELL = 5.0


class Driver:
    """For one thread, which may be any. All of the service runs in one thread of its own with an event loop, but for a
    `run` that is a plain method."""

    def __init__(self, service: object, on_metric: Callable[[Any], None]) -> None:
        self.service = service
        self.trouble = ""
        """why its main loop ended, if that raised"""
        self._on_metric = on_metric
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._main: asyncio.Future[Any] | None = None

    @property
    def is_begun(self) -> bool:
        return self._loop is not None

    @property
    def has_returned(self) -> bool:
        """Whether its main loop is over by itself."""
        return self._main is not None and self._main.done() and not self._main.cancelled()

    def begin(self, metadata: Mapping[str, str]) -> None:
        """Tells it what it has to know first, and starts its main loop. A key that it does not want is its affair.
        Raising means that nothing has begun."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="training service", daemon=True)
        self._thread.start()
        try:
            self.do(self._begin(metadata))
        except BaseException:
            self._end_thread()
            raise

    def ask(self, name: str, *given: Any) -> Any:
        """What the service answers; whatever it raises."""
        return self.do(ask(self.service, name, *given))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The same of several questions in one go."""
        assert self._loop is not None, "it was begun"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def end(self) -> None:
        """Cleans up, and ends its thread. What the service raises meanwhile is printed."""
        if self._loop is not None:
            self.do(self._end())
            self._end_thread()

    def _end_thread(self) -> None:
        assert self._loop is not None and self._thread is not None, "it was begun"
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_FAREWELL)
        self._loop = None

    async def _begin(self, metadata: Mapping[str, str]) -> None:
        for key, value in metadata.items():
            await _tolerant(ask(self.service, "set_cluster_metadata", key, value))
        await ask(self.service, "add_trial_job_metric_listener", self._on_metric)
        self._main = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        main = member_of(self.service, "run")
        try:
            answer = main() if inspect.iscoroutinefunction(main) else await _in_a_thread(main)
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:  # its own affair; whoever wants something of it is told
            traceback.print_exc()
            self.trouble = raised(self.service, "run", error)

    async def _end(self) -> None:
        await _tolerant(ask(self.service, "remove_trial_job_metric_listener", self._on_metric))
        await _tolerant(ask(self.service, "clean_up"))
        if self._main is not None:
            await asyncio.wait([self._main], timeout=_FAREWELL)
            self._main.cancel()
            await asyncio.wait([self._main], timeout=_FAREWELL)


async def _tolerant(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception:  # what cannot be done here stops nothing else; the log has it
        traceback.print_exc()


async def _in_a_thread(work: Callable[[], Any]) -> Any:
    """A thread of its own, which nobody waits for when the process ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def tell(answer: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(answer) if error is None else done.set_exception(error)

    def act() -> None:
        answer, error = None, None
        try:
            answer = work()
        except Exception as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, answer, error)

    threading.Thread(target=act, name="training service, run", daemon=True).start()
    return await done
