"""Who listens to an event, and telling them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Listener = Callable[..., Any]


class EventEmitter:
    """As Node's, under its names and Python's. From any thread; a listener is called in the one that emits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, list[Listener]] = {}

    def on(self, event: str, listener: Listener) -> EventEmitter:
        """It hears of the event from now on; one that is given twice hears twice."""
        with self._lock:
            self._listeners.setdefault(event, []).append(listener)
        return self

    def once(self, event: str, listener: Listener) -> EventEmitter:
        """It hears of the event the next time only."""

        def heard(*given: Any) -> Any:
            self.off(event, heard)
            return listener(*given)

        heard.listener = listener  # type: ignore[attr-defined]
        return self.on(event, heard)

    def off(self, event: str, listener: Listener) -> EventEmitter:
        """It hears no more of it, once for each time that it was given; one that does not listen is no error."""
        with self._lock:
            known = self._listeners.get(event, [])
            for index in reversed(range(len(known))):
                if listener in (known[index], getattr(known[index], "listener", None)):
                    del known[index]
                    break
        return self

    def emit(self, event: str, *given: Any) -> bool:
        """Tells all who listen now, in their order; whether there was anybody. What one raises is raised here, and the
        others behind it do not hear: as with Node's."""
        with self._lock:
            known = list(self._listeners.get(event, ()))
        for listener in known:
            listener(*given)
        return bool(known)

    def remove_all_listeners(self, event: str | None = None) -> EventEmitter:
        with self._lock:
            if event is None:
                self._listeners.clear()
            else:
                self._listeners.pop(event, None)
        return self

    def listener_count(self, event: str) -> int:
        with self._lock:
            return len(self._listeners.get(event, ()))

    addListener = add_listener = on
    removeListener = remove_listener = off
    removeAllListeners = remove_all_listeners
    listenerCount = listener_count
