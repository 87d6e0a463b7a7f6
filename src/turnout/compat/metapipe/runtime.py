"""``metapipe.runtime.Runtime``: drives the jobs of a pipeline from here, until there is nothing left to do."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from turnout.compat.metapipe.commands import CommandTemplate
from turnout.compat.metapipe.hooks import Hooks
from turnout.compat.metapipe.job import lacking
from turnout.compat.metapipe.job_types import JOB_TYPES
from turnout.compat.metapipe.outcome import Outcome, PipelineFailed
from turnout.compat.metapipe.queue import Queue
from turnout.compat.metapipe.steps import Steps
from turnout.compat.metapipe.ticking import Ticking
from turnout.errors import InvalidInput
from turnout.model.likeness import instead_of

_log = logging.getLogger(__name__)
#: The shortest pause between two looks; it doubles up to `sleep_time` while nothing changes.
_PAUSE = 0.02
#: So many restarts in a row may come to nothing.
_RESTARTS = 5


class Runtime:
    """A pipeline that runs in this process and this directory: what jobs are given and leave lies here.

    `queue` is the instance whose callbacks are called. `run` may be called again: what is complete stays so, and what
    failed is submitted again.
    """

    def __init__(
        self, command_templates: Sequence[CommandTemplate], *given: Any, job_types: Mapping[str, Any] | None = None,
        job_type: Any = None, queue: Any = None, queue_type: Any = None, max_jobs: int | None = None,
        sleep_time: float = 1.0,
    ) -> None:  # fmt: skip
        """What is `given` after the templates is known by what it is: a dict of job types, the name of one (or the
        class), and, before or behind these, a queue, as a class or an instance. Without them a job is a `LocalJob`.

        At most `max_jobs` are submitted at a time (else as the queue says), and looked at every `sleep_time` seconds at
        least. InvalidInput when there is no such job type, or its class lacks what one needs.
        """
        found = _sorted(given)
        types, chosen = job_types or found.get("job_types"), job_type or found.get("job_type", "local")
        hooks = Hooks(queue or queue_type or found.get("queue"))
        self.queue = hooks.made
        self._hooks = hooks
        self._longest = max(float(found.get("sleep_time", sleep_time)), _PAUSE)
        most = found.get("max_jobs", max_jobs)
        if most is None:
            most = getattr(self.queue, "MAX_CONCURRENT_JOBS", Queue.MAX_CONCURRENT_JOBS)
        self._ticking = Ticking(Steps(command_templates, _job_class(chosen, types or {})), hooks, _positive(most))

    def run(self) -> Outcome:
        """Until all jobs are complete, or no other can be. PipelineFailed, with the outcome, when some are not.

        Ctrl-C ends the jobs whose type has a ``cancel``; the others go on, and another `run` goes on with them.
        """
        self._ticking.restart()
        self._hooks.tell("on_start")
        try:
            ticks = self._drive()
        except BaseException:
            going = self._ticking.give_up()
            if going:
                print(f"these jobs go on: {', '.join(job.alias for job in going)}", file=sys.stderr)
            raise
        finally:
            self._hooks.tell("on_end")
        outcome = self._ticking.outcome(ticks)
        if not outcome.is_well:
            raise PipelineFailed(outcome)
        return outcome

    def _drive(self) -> int:
        ticks, restarts, complete, pause = 0, 0, 0, _PAUSE
        ticking = self._ticking
        while not ticking.is_over:
            ticking.tick()
            ticks += 1
            if len(self._hooks.complete) > complete:
                complete, restarts = len(self._hooks.complete), 0
            if ticking.is_locked:
                if not self._hooks.tell("on_locked"):
                    break
                if restarts == _RESTARTS:
                    what = "%r was restarted %d times, and nothing more is complete: it ends"
                    _log.warning(what, self.queue, restarts)
                    break
                restarts += 1
                ticking.restart()
            elif not ticking.is_over:
                pause = _PAUSE if ticking.is_moving else min(2 * pause, self._longest)
                time.sleep(pause)
        return ticks


def _sorted(given: Sequence[Any]) -> dict[str, Any]:
    """Arguments by what they are: Metapipe's document and its code have them in different orders."""
    found: dict[str, Any] = {}
    numbers = ["sleep_time", "max_jobs"]
    for each in given:
        if isinstance(each, Mapping):
            name = "job_types"
        elif isinstance(each, str) or (isinstance(each, type) and not lacking(each)):
            name = "job_type"
        elif isinstance(each, int | float):
            name = numbers.pop(0) if numbers else "sleep_time"
        else:
            name = "queue"
        if name in found:
            raise InvalidInput(f"two arguments may be {name}: {found[name]!r}, {each!r}", hint=f"write {name}=…")
        if each is not None:
            found[name] = each
    return found


def _job_class(chosen: Any, types: Mapping[str, Any]) -> Any:
    """The class of that name, of these or of those there always are."""
    found = {**JOB_TYPES, **types}.get(chosen) if isinstance(chosen, str) else chosen
    if found is None:
        known = sorted({**JOB_TYPES, **types})
        raise InvalidInput(f"no job type {chosen!r}", hint=instead_of(str(chosen), known))
    if isinstance(found, ModuleType):  # as after `import MyJob`
        found = getattr(found, found.__name__.rpartition(".")[2], found)
    lacks = lacking(found)
    if not isinstance(found, type) or lacks:
        what = f"has no {', '.join(lacks)}" if lacks else "is no class"
        raise InvalidInput(f"job type {chosen!r} {what}", hint="a job type is a subclass of metapipe.models.Job")
    return found


def _positive(most: Any) -> int:
    if not isinstance(most, int) or most < 1:
        raise InvalidInput(f"max_jobs is {most!r}", hint="give a number from 1 on")
    return most
