"""``metapipe.models.PBSJob`` and ``SGEJob``: jobs of a batch system, by its commands."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from turnout.compat.metapipe.calling import call
from turnout.compat.metapipe.job import Job
from turnout.compat.metapipe.states import State

#: Clocks of a cluster may differ by so many seconds.
_SKEW = 60.0
#: In a record of Grid Engine's accounting.
_FIELD = re.compile(r"(?m)^(\w+) +(\S+)")


class BatchJob(Job):
    """Subclasses say how it is submitted, and `state` how it is; once over, it is not asked about again."""

    def __init__(self, alias: str, command: Any, depends_on: Sequence[str] = (), queue: str | None = None) -> None:
        super().__init__(alias, command, depends_on)
        self.queue = queue
        self.exit_code: int | None = None

    def submit(self) -> None:
        if self.attempts == 0:
            self.make()
        self.attempts += 1
        self.exit_code = None
        self.id = self.read_id(call(self.cmd))
        self.waiting = False

    def read_id(self, said: str) -> str:
        """The job's id, from what the submitting command printed. ValueError when it is not in there."""
        raise NotImplementedError

    def state(self) -> State:
        """How it is; `exit_code` is known when it is over."""
        raise NotImplementedError

    def _state(self) -> State:
        if self.id is None:
            return State.SILENT
        if self.exit_code is None:
            return self.state()
        return State.ERROR if self.exit_code else State.COMPLETE

    def is_running(self) -> bool:
        return self._state() is State.RUNNING

    def is_queued(self) -> bool:
        return self._state() is State.QUEUED

    def is_complete(self) -> bool:
        return self._state() is State.COMPLETE

    def is_error(self) -> bool:
        return self._state() is State.ERROR

    def _over(self, code: int) -> State:
        self.exit_code = code
        return State.ERROR if code else State.COMPLETE


class PBSJob(BatchJob):
    """Of PBS, in all its kinds."""

    STATES: ClassVar[dict[str, State]] = dict.fromkeys("REBTUS", State.RUNNING) | dict.fromkeys("QHWM", State.QUEUED)

    @property
    def cmd(self) -> list[str]:
        return ["qsub", *(["-q", self.queue] if self.queue else []), self.filename]

    def read_id(self, said: str) -> str:
        return said[: said.index(".")]

    def state(self) -> State:
        said = call(["qstat", "-f", self.id])
        if said.returncode != 0:  # PBS Pro shows those that are over only when asked to
            said = call(["qstat", "-x", "-f", self.id])
        found = re.search(r"job_state = (\w)", said)
        code = re.search(r"exit_status = (-?\d+)", said, re.IGNORECASE)
        if found is None:
            return State.SILENT
        if found[1] in "CFX":
            return self._over(int(code[1]) if code else 1)
        return self.STATES.get(found[1], State.SILENT)

    def cancel(self) -> None:
        call(["qdel", self.id])


class SGEJob(BatchJob):
    """Of Grid Engine."""

    since = ""

    def submit(self) -> None:
        self.since = time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() - _SKEW))
        super().submit()

    @property
    def cmd(self) -> list[str]:
        return ["qsub", "-cwd", "-V", "-S", "/bin/bash", *(["-q", self.queue] if self.queue else []), self.filename]

    def read_id(self, said: str) -> str:
        found = re.search(r"Your job (\d+)", said)
        if found is None:
            raise ValueError(f"qsub said {said!r}")
        return found[1]

    def state(self) -> State:
        rows = [line.split() for line in call(["qstat", "-u", "*"]).splitlines()]
        found = next((row[4] for row in rows if len(row) > 4 and row[0] == self.id), None)
        if found is None:
            return self._recorded()
        if "E" in found:
            return State.ERROR
        return State.QUEUED if "q" in found else State.RUNNING

    def _recorded(self) -> State:
        """What its accounting has, which comes a moment after the end. Numbers begin again some day: what began before
        this job, or has another name, is another."""
        said = call(["qacct", "-b", self.since, "-j", self.id])
        records = [dict(_FIELD.findall(each)) for each in re.split(r"(?m)^={3,}$", said)]
        mine = [each for each in records if each.get("jobname") == os.path.basename(self.filename)]
        if not mine:
            return State.SILENT
        return self._over(int(mine[-1]["exit_status"]) or int(mine[-1]["failed"] != "0"))

    def cancel(self) -> None:
        call(["qdel", self.id])
