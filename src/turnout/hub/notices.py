"""When a job is over, the command its submitter gave is run, with the job as JSON on its input.

At least once: it is done again when the hub died before it could write down that it was, but not by the same hub,
however long its disk is full. Never in the way: each has a thread of its own, and a minute at most; one that cannot be
started is given up.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time

from turnout.errors import TurnoutError
from turnout.store.jobs import load_environment
from turnout.store.notices import Due, due_notices, told
from turnout.store.reads import show_jobs
from turnout.store.store import Store

_log = logging.getLogger(__name__)
_SECONDS = 60.0
_STOP_SECONDS = 10.0
_AT_ONCE = 32
#: What another hub on the same database wrote is seen after so many seconds.
_LOOK_SECONDS = 30.0


class Notices:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._telling: dict[int, threading.Thread] = {}
        self._stopping = False
        self._next_look = 0.0
        self._unwritten: set[int] = set()
        """jobs whose command was run, which could not be written down yet"""

    @property
    def is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._telling.values())

    def stir(self) -> None:
        """Something was written, or has to be tried again: it is worth to look. From any thread."""
        self._next_look = 0.0

    def look(self) -> None:
        """Starts on what is due, unless it is at it. Cheap if nothing is."""
        if time.monotonic() < self._next_look:
            return
        self._telling = {job: thread for job, thread in self._telling.items() if thread.is_alive()}
        room = _AT_ONCE - len(self._telling)
        if self._stopping or not room:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS  # before it: what comes meanwhile is looked for again
        with self._store.read() as connection:
            found = due_notices(connection, most=_AT_ONCE)
        for due in [due for due in found if due.job not in self._telling][:room]:
            self._telling[due.job] = threading.Thread(target=self._tell, args=(due,), name="notice", daemon=True)
            self._telling[due.job].start()

    def stop(self) -> None:
        """Begins with no other command, and waits a while for those that run: else the next hub runs them again."""
        self._stopping = True
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._telling.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _tell(self, due: Due) -> None:
        try:
            if due.job not in self._unwritten:
                self._run(due)
                self._unwritten.add(due.job)
            self._store.write(lambda tx: told(tx, due.job))
            self._unwritten.discard(due.job)
        except TurnoutError as error:
            _log.warning("the end of job%d was not told: %s", due.job, error)
        except Exception:
            _log.exception("the end of job%d was not told", due.job)
        self.stir()

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
