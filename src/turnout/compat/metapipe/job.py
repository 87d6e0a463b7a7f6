"""``metapipe.models.Job``: what every job type is made from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any, ClassVar

from turnout.compat.metapipe.calling import call as call

#: What a job type has to have of its own. `is_queued` has a default, as it is for external queues only.
REQUIRED = ("cmd", "submit", "is_running", "is_complete", "is_error")


class Job:
    """One command of a pipeline, and how it is executed: subclasses say that.

    `alias` is its name (``2.1``), `depends_on` are the aliases of those that have to be complete before it, `command`
    makes its script (``command.eval()``), and `filename` is the file that `make` writes it to. `attempts` are how often
    it was submitted, `waiting` is true until then, and `id` is what another system calls it. `need` is what it has to
    be given, a `turnout.plugin.provider.Need`, where it executes a run of turnout.
    """

    MAX_RETRY: ClassVar[int] = 5
    """how often it is submitted at most, before it has failed"""

    JOB_FILE_PATTERN: ClassVar[str] = "metapipe.{}.job"

    def __init__(self, alias: str, command: Any, depends_on: Sequence[str] = ()) -> None:
        self.alias = alias
        self.command = command
        self.depends_on = list(depends_on)
        self.attempts = 0
        self.filename = self.JOB_FILE_PATTERN.format(alias)
        self.id: Any = None
        self.waiting = True
        self.need: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.alias}>"

    def make(self) -> None:
        """Writes the script. It is one for bash, and begins in this directory, wherever it is started: many batch
        systems begin elsewhere, and what a pipeline names is relative to here."""
        with open(self.filename, "w", encoding="utf-8") as file:
            file.write(for_bash(beginning_in(os.getcwd(), self.command.eval())))

    @property
    def should_retry(self) -> bool:
        return self.attempts < self.MAX_RETRY

    def is_fail(self) -> bool:
        """Whether it is in error and will not be submitted again. Metapipe's document does not have it, its queue asks
        for it."""
        return not self.should_retry and bool(self.is_error())

    # --- for subclasses ---------------------------------------------------------------------------------------------

    @property
    def cmd(self) -> list[str]:
        """The command that submits it (or executes it, where there is no queue system), as a list of words."""
        raise NotImplementedError(f"{type(self).__name__} has no cmd")

    def submit(self) -> None:
        """Submits it, and does not wait for its end. Raising means that it was not submitted. May take the job."""
        raise NotImplementedError(f"{type(self).__name__} has no submit")

    def is_running(self) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no is_running")

    def is_queued(self) -> bool:
        """For those that are submitted to another system's queue."""
        return False

    def is_complete(self) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no is_complete")

    def is_error(self) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no is_error")


def lacking(found: Any) -> list[str]:
    """What a class has not, or only as `Job` itself has it, of what a job type needs."""
    own = {name: getattr(found, name, None) for name in REQUIRED}
    return [name for name, each in own.items() if each is None or each is getattr(Job, name)]


def beginning_in(directory: str, script: str) -> str:
    """The script, with a change of directory before its first command: comments stay first, for batch systems read
    their options there."""
    lines = script.splitlines(keepends=True)
    commands = (at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    first = next(commands, len(lines))
    change = f"cd -- {shlex.quote(directory)} || exit\n"
    return "".join([*lines[:first], change, *lines[first:]]).rstrip("\n") + "\n"


def for_bash(script: str) -> str:
    """The script with a first line that says so, if it has none that says another program. Some batch systems refuse
    others, or take the user's own shell."""
    return script if script.startswith("#!") else f"#!/bin/bash\n{script}"
