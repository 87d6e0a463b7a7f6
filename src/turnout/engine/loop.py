"""The only loop: every so often, and at once when something changed, look after the fleet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from turnout.engine.fleet import Fleet

_log = logging.getLogger(__name__)


class Loop:
    """One thread. `wake` from anywhere makes it look now; `interval` bounds how late it looks otherwise."""

    def __init__(self, fleet: Fleet, *, interval: float, on_round: Callable[[], None] = lambda: None) -> None:
        self._fleet = fleet
        self._interval = interval
        self._on_round = on_round
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._fleet.recover()
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._fleet.tend(time.monotonic())
                self._on_round()
            except Exception:
                _log.exception("a round of the engine failed; the next one tries again")
            self._wake.wait(self._interval)
            self._wake.clear()
