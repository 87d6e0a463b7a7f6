"""What of pipelines could not be decided at submit: runs of late steps are made, and runs looked at at their gates.

Nothing of it survives. What is to be decided stands in the store, and the next hub finds it there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from turnout.blobs import BlobStore
from turnout.engine.gates import look_at
from turnout.engine.late_runs import make_runs
from turnout.store import late, pipelines
from turnout.store.jobs import load_jobs
from turnout.store.late import AtGate, LateStep
from turnout.store.store import Connection, Store

_log = logging.getLogger(__name__)
_TOPIC = "pipelines"
_AGAIN = 5.0  # seconds, after a look that failed
_EVERY = 60.0  # else: another hub may have died that would have told
_FAREWELL = 30.0


class Expander:
    """`stir` from any thread, after each commit, with its topics. `end` has all runs of a pipeline cancelled; it is
    called in its thread."""

    def __init__(self, store: Store, blobs: BlobStore, end: Callable[[int], None]) -> None:
        self._store = store
        self._blobs = blobs
        self._end = end
        self._news = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="pipelines", daemon=True)

    def start(self) -> None:
        self._news.set()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._news.set()
        self._thread.join(_FAREWELL)

    def stir(self, topics: frozenset[str]) -> None:
        if _TOPIC in topics:
            self._news.set()

    def look(self) -> bool:
        """Makes the runs of all steps for which it is time, looks at those that are at their gates, and ends pipelines
        that shall end with the first failure. For its thread, or where that was not started. What goes wrong with one
        is told, and is in no other's way; False = something did."""
        with self._store.read() as connection:
            due, waiting = late.due_steps(connection), late.at_gates(connection)
            failed = [job for job in pipelines.open_pipelines(connection) if _shall_end(connection, job)]
        went = [_is_done(partial(self._end, job)) for job in failed]
        went += [_is_done(partial(self._make, step)) for step in due]
        went += [_is_done(partial(self._look_at, found)) for found in waiting]
        return all(went)

    def _make(self, step: LateStep) -> None:
        make_runs(self._store, self._blobs, step)

    def _look_at(self, found: AtGate) -> None:
        look_at(self._store, self._blobs, found)

    def _run(self) -> None:
        patience = _EVERY
        while self._is_woken(patience):
            patience = _EVERY if _is_done(self.look) else _AGAIN

    def _is_woken(self, patience: float) -> bool:
        """After so many seconds at most; False = the hub stops."""
        self._news.wait(patience)
        self._news.clear()
        return not self._is_stopping


def _is_done(work: Callable[[], bool | None]) -> bool:
    try:
        return work() is not False
    except Exception:
        _log.exception("a step of a pipeline could not be seen to; another look follows")
        return False


def _shall_end(connection: Connection, pipeline: int) -> bool:
    is_meant = load_jobs(connection, {pipeline})[pipeline].spec.fail_fast
    return is_meant and pipelines.has_failures(connection, pipeline)
