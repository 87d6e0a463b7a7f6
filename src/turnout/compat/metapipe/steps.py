"""The jobs that templates come to: those that are known, and those that are known when others are complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from turnout.compat.metapipe.commands import Command, CommandTemplate, files_matching
from turnout.compat.metapipe.needs import all_of, make_known
from turnout.pipeline.plan import Left

JobClass = Callable[[str, Command, list[str]], Any]
#: What a file is known by: when it was changed, how large it is, which one it is.
_Mark = tuple[int, int, int]


class Steps:
    """`pending` are the templates whose jobs are not known yet; `broken` says of some of them why they never will be,
    unless somebody changes something."""

    def __init__(self, templates: Sequence[CommandTemplate], job_class: JobClass) -> None:
        self._job_class = job_class
        self._templates = {each.alias: each for each in templates}
        self._made: dict[str, tuple[str, ...]] = {}  # the aliases of the jobs of each
        self._known: dict[str, Any] = {}  # each job
        self._marks: dict[str, dict[str, _Mark]] = {}
        self.pending = [each for each in templates if each.is_late]
        self.broken: dict[str, str] = {}

    def known(self) -> list[Any]:
        """The jobs that are known before anything begins."""
        return [job for each in self._templates.values() if not each.is_late for job in self._make(each, each.commands)]

    def ready(self, complete: set[str]) -> list[Any]:
        """The jobs of templates that have only waited for those that are complete now. What cannot be made is
        `broken`."""
        made: list[Any] = []
        for each in list(self.pending):
            if each.alias in self.broken or not all(self.is_over(alias, complete) for alias in each.depends_on):
                continue
            try:
                commands = each.expand({step: self._left(step) for step in each.depends_on})
            except ValueError as error:
                self.broken[each.alias] = str(error)
                continue
            self.pending.remove(each)
            made += self._make(each, commands)
        return made

    def _make(self, template: CommandTemplate, commands: Sequence[Command]) -> list[Any]:
        jobs = []
        for command in commands:
            after = all_of(template.depends_on, self._made) if template.is_late else list(command.depends_on)
            jobs.append(self._job_class(command.alias, command, after))
        self._made[template.alias] = tuple(job.alias for job in jobs)
        if template.is_late:
            make_known(template.alias, self._made[template.alias], self._known.values())
        self._known |= {job.alias: job for job in jobs}
        return jobs

    def is_over(self, alias: str, complete: set[str]) -> bool:
        """Whether the job, or all jobs of the template, of that name are complete. One that nobody knows does not
        hinder anything."""
        if alias in complete:
            return True
        if alias in self._made:
            return complete.issuperset(self._made[alias])
        is_coming = alias.partition(".")[0] in self._templates and alias.partition(".")[0] not in self._made
        return alias not in self._known and not is_coming

    # --- files ------------------------------------------------------------------------------------------------------

    def begin(self, job: Any) -> None:
        """It is about to be submitted: what it would leave by its own name goes, and what is there that it may leave by
        a pattern is remembered as it is."""
        for path in _outputs(job):
            if path.startswith(f"mp.{job.alias}") and os.path.isfile(path):
                os.unlink(path)
        self._marks[job.alias] = _marks(job)

    def missing(self, job: Any) -> list[str]:
        """What it declares as its outputs, and did not leave."""
        return [path for path in _outputs(job) if not files_matching(path) and not _is_there(path)]

    def _left(self, step: str) -> list[Left]:
        return [Left(label=alias, files=self._files(self._known[alias])) for alias in self._made[step]]

    def _files(self, job: Any) -> tuple[str, ...]:
        """Those it made or changed; all that match, when it changed none."""
        before, now = self._marks.get(job.alias, {}), _marks(job)
        return tuple(path for path in now if before.get(path) != now[path]) or tuple(now)


def _outputs(job: Any) -> tuple[str, ...]:
    return tuple(getattr(job.command, "outputs", ()))


def _is_there(path: str) -> bool:
    """Also a directory. Its own is read: a network file system may believe for a while that something is not there."""
    try:
        return os.path.exists(path) or os.path.basename(path) in os.listdir(os.path.dirname(path) or ".")
    except OSError:
        return False


def _marks(job: Any) -> dict[str, _Mark]:
    """Of all files that match its outputs, in their order."""
    paths = dict.fromkeys(path for pattern in _outputs(job) for path in files_matching(pattern))
    return {path: _mark(path) for path in paths}


def _mark(path: str) -> _Mark:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
