"""Waiting for news without holding a thread: the writer names what changed, coroutines wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Notifier:
    """Belongs to one event loop; `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def publish(self, topics: frozenset[str]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, topics)

    def close(self) -> None:
        """From now on nobody waits: who does is told that there is no news. In the event loop only."""
        self.is_closed = True
        self._wake(frozenset(self._waiting))

    def _wake(self, topics: frozenset[str]) -> None:
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def listen(self, topics: Iterable[str]) -> Listener:
        return Listener(self, frozenset(topics))


class Listener:
    """Begins to listen when entered, so that nothing is missed between looking and waiting."""

    def __init__(self, notifier: Notifier, topics: frozenset[str]) -> None:
        self._notifier = notifier
        self._topics = topics
        self._event = asyncio.Event()

    def __enter__(self) -> Listener:
        for topic in self._topics:
            self._notifier._waiting.setdefault(topic, set()).add(self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        for topic in self._topics:
            waiting = self._notifier._waiting[topic]
            waiting.discard(self._event)
            if not waiting:
                del self._notifier._waiting[topic]

    def wake(self) -> None:
        """As if one of its topics was published. In the event loop only."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """True as soon as one of the topics was published since the last call; False after `seconds`, or at the end."""
        if self._notifier.is_closed:
            return False
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return not self._notifier.is_closed
