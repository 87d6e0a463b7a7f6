"""When a job is over, the command its submitter gave is run, with the job as JSON on its input.

At least once: it is done again when the hub died before it could write down that it was, but not by the same hub, however
long its disk is full. Never in the way: one thread runs them one after the other, each for a minute at most; one that
cannot be started is given up.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading

from turnout.errors import TurnoutError
from turnout.store.jobs import load_environment
from turnout.store.notices import Due, due_notices, told
from turnout.store.reads import show_jobs
from turnout.store.store import Store

_log = logging.getLogger(__name__)
_SECONDS = 60.0
_STOP_SECONDS = 10.0


class Notices:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._unwritten: set[int] = set()
        """jobs whose command was run, which could not be written down yet"""

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def look(self) -> None:
        """Starts on what is due, unless it is at it. Cheap if nothing is."""
        if self.is_busy or self._stopping:
            return
        with self._store.read() as connection:
            found = due_notices(connection)
        if found:
            self._thread = threading.Thread(target=self._tell, args=(found,), name="notices", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Begins with no other command, and waits a while for the one that runs: else the next hub runs it again."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _tell(self, found: list[Due]) -> None:
        for due in found:
            if self._stopping:
                return
            try:
                if due.job not in self._unwritten:
                    self._run(due)
                    self._unwritten.add(due.job)
                self._store.write(lambda tx: told(tx, due.job))  # noqa: B023
                self._unwritten.discard(due.job)
            except TurnoutError as error:
                _log.warning("the end of job%d was not told: %s", due.job, error)
                return
            except Exception:
                _log.exception("the end of job%d was not told", due.job)
                return

    def _run(self, due: Due) -> None:
        with self._store.read() as connection:
            views = show_jobs(connection, [due.job])
            environment = load_environment(connection, due.environment) if views else {}
        if not views:
            return  # it was deleted since
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", due.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                cwd="/", env=environment, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # too long, or with a NUL: it never will
            _log.warning("the notice of job%d cannot be started: %s", due.job, error)
            return
        try:
            said, _ = process.communicate(json.dumps(views[0]).encode(), timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _log.warning("the notice of job%d took longer than %g s and was ended", due.job, _SECONDS)
            return
        if process.returncode:
            tail = said[-500:].decode("utf-8", "replace").strip()
            _log.warning("the notice of job%d ended with %d: %s", due.job, process.returncode, tail)
