"""``metapipe.models.LocalJob``: a job type whose jobs are runs of turnout, here or on any target."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import turnout
from turnout.compat.metapipe.job import Job
from turnout.model.state import TERMINAL

_WAITING = ("created", "queued", "starting")
_TAG = "metapipe"
_of_thread = threading.local()


class LocalJob(Job):
    """A job is a run; its `id` is the run's name.

    On `local` it is executed in this directory. On any other target it gets a copy of this directory's files, and what
    it declares as its outputs lies here before it is complete.
    """

    TARGET: ClassVar[str] = "local"
    WISHES: ClassVar[Mapping[str, Any]] = {}
    """further arguments of `turnout.Client.submit_command`"""

    def __init__(self, alias: str, command: Any, depends_on: Any = (), shell: str = "bash") -> None:
        super().__init__(alias, command, depends_on)
        self.shell = shell
        self.why = ""
        self._last: Mapping[str, Any] = {}
        self._is_back = False

    @classmethod
    def on(cls, target: str, **wishes: Any) -> type[LocalJob]:
        """The job type of a target; `wishes` are further arguments of `turnout.Client.submit_command`."""
        return type(f"{cls.__name__}_{target}", (cls,), {"TARGET": target, "WISHES": {**cls.WISHES, **wishes}})

    @property
    def cmd(self) -> list[str]:
        return [self.shell, os.path.abspath(self.filename)]

    def submit(self) -> None:
        self.make()
        self.attempts += 1
        self._last, self._is_back, self.why = {}, False, ""
        wishes = {**self.WISHES, "target": self.TARGET, "tags": {**self.WISHES.get("tags", {}), _TAG: self.alias}}
        if self._is_here:
            answer = _client().submit_command(self.cmd, **{"snapshot": False, **wishes})
        else:
            command = [self.shell, "-c", self.command.eval()]
            answer = _client().submit_command(command, **{"after": tuple(self.command.outputs) or None, **wishes})
        (self.id,) = answer["runs"]
        self.waiting = False

    def is_running(self) -> bool:
        return bool(self.id) and self._state() not in (*_WAITING, *TERMINAL)

    def is_queued(self) -> bool:
        return bool(self.id) and self._state() in _WAITING

    def is_complete(self) -> bool:
        if not self.id or self._state() != "completed":
            return False
        self._bring_back()
        return True

    def is_error(self) -> bool:
        is_so = bool(self.id) and self._state() in TERMINAL and self._state() != "completed"
        if is_so:
            code = "" if self._last.get("exit_code") is None else f", exit code {self._last['exit_code']}"
            self.why = f"{self.id} {self._state()}{code}; `turnout why {self.id}` tells more"
        return is_so

    def cancel(self) -> None:
        """Ends its run, if there is one that is not over."""
        if self.id and self._state() not in TERMINAL:
            _client().cancel([self.id])

    @property
    def _is_here(self) -> bool:
        return self.TARGET == "local"

    def _state(self) -> str:
        """A run that is over is not asked about again."""
        if self._last.get("name") != self.id or self._last.get("state") not in TERMINAL:
            self._last = _client().run(self.id)
        return str(self._last["state"])

    def _bring_back(self) -> None:
        """What it left, to this directory."""
        if self._is_here or self._is_back:
            return
        with tempfile.TemporaryDirectory(prefix=f".{self.id}.", dir=".") as folder:
            _client().extract(self.id, Path(folder, "run"))
            left = Path(folder, "run", "after")
            for path in sorted(each for each in left.rglob("*") if not each.is_dir()):
                place = path.relative_to(left)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, place)
        self._is_back = True


def _client() -> turnout.Client:
    """One for each thread."""
    found: turnout.Client | None = getattr(_of_thread, "client", None)
    if found is None:
        found = _of_thread.client = turnout.Client()
    return found
