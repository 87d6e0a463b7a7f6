"""When a job is over, the command its submitter gave is run, with the job as JSON on its input.

At least once: it is done again when the hub died before it could write down that it was. Never in the way: one thread
runs them one after the other, each for a minute at most.
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


class Notices:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Starts on what is due, unless it is at it. Cheap if nothing is."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._store.read() as connection:
            found = due_notices(connection)
        if found:
            self._thread = threading.Thread(target=self._tell, args=(found,), name="notices", daemon=True)
            self._thread.start()

    def _tell(self, found: list[Due]) -> None:
        for due in found:
            try:
                self._run(due)
                self._store.write(lambda tx: told(tx, due.job))  # noqa: B023
            except TurnoutError as error:
                _log.warning("the end of job%d was not told: %s", due.job, error)
                return
            except Exception:
                _log.exception("the end of job%d was not told", due.job)
                return

    def _run(self, due: Due) -> None:
        with self._store.read() as connection:
            (view,) = show_jobs(connection, [due.job])
            environment = load_environment(connection, due.environment)
        process = subprocess.Popen(
            ["/bin/sh", "-c", due.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(json.dumps(view).encode(), timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _log.warning("the notice of job%d took longer than %g s and was ended", due.job, _SECONDS)
            return
        if process.returncode:
            tail = said[-500:].decode("utf-8", "replace").strip()
            _log.warning("the notice of job%d ended with %d: %s", due.job, process.returncode, tail)
