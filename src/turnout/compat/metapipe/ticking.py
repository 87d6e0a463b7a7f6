"""One tick of a queue: what is ready is submitted, what was submitted is looked at."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from turnout.compat.metapipe.calling import SubmitUnclear, submit
from turnout.compat.metapipe.hooks import Hooks
from turnout.compat.metapipe.outcome import Outcome
from turnout.compat.metapipe.states import State, look
from turnout.compat.metapipe.steps import Steps

_log = logging.getLogger(__name__)
#: Mistakes in a job type: waiting does not mend them.
_MISTAKES = (AttributeError, NameError, NotImplementedError, TypeError)
#: For so many seconds a job type may not be able to tell of a job, before the job has failed.
_PATIENCE = 300.0


class Ticking:
    """`is_moving`: the last tick changed something. `why` says of jobs that errored what is known."""

    def __init__(self, steps: Steps, hooks: Hooks, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps, self._hooks, self._most, self._clock = steps, hooks, most, clock
        self._blind: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        self.why: dict[str, str] = {}
        self.is_moving = False
        for job in steps.known():
            hooks.waiting.append(job)

    def tick(self) -> None:
        self.is_moving = False
        self._expand()
        for job in self._ready():
            if len(self._hooks.running) >= self._most:
                break
            self._submit(job)
        for job in list(self._hooks.running):
            self._look(job)
        self._expand()
        self._hooks.tell("on_tick")

    @property
    def is_over(self) -> bool:
        """Nothing runs, and nothing waits."""
        return not self._hooks.running and not self._hooks.waiting and not self._steps.pending

    @property
    def is_locked(self) -> bool:
        """Nothing runs, and what waits cannot begin."""
        hooks = self._hooks
        return not hooks.running and not self.is_over and not self._ready()

    def restart(self) -> None:
        """What failed waits again, as if it never had been submitted."""
        for job in list(self._hooks.failed):
            _forget(job)
            self._hooks.move(job, self._hooks.waiting)
        self._steps.broken.clear()
        self.why.clear()

    def give_up(self) -> list[Any]:
        """Ends what runs, as far as its job type can do that; that waits again. The others, which go on."""
        for job in list(self._hooks.running):
            cancel = getattr(job, "cancel", None)
            if callable(cancel):
                cancel()
                _forget(job)
                self._hooks.move(job, self._hooks.waiting)
        return list(self._hooks.running)

    def outcome(self, ticks: int) -> Outcome:
        hooks, broken = self._hooks, self._steps.broken
        late = [each.alias for each in self._steps.pending if each.alias not in broken]
        return Outcome(
            complete=_aliases(hooks.complete), failed=(*_aliases(hooks.failed), *broken),
            skipped=(*_aliases(hooks.waiting), *late), why={**self.why, **broken}, ticks=ticks,
        )  # fmt: skip

    # --- one job ----------------------------------------------------------------------------------------------------

    def _expand(self) -> None:
        made = self._steps.ready(self._complete())
        self._hooks.waiting.extend(made)
        self.is_moving |= bool(made)

    def _complete(self) -> set[str]:
        return {job.alias for job in self._hooks.complete}

    def _ready(self) -> list[Any]:
        """Those that wait for nothing but to be submitted."""
        complete, steps = self._complete(), self._steps
        return [job for job in self._hooks.waiting if all(steps.is_over(alias, complete) for alias in job.depends_on)]

    def _submit(self, job: Any) -> None:
        self.is_moving = True
        before = getattr(job, "attempts", 0)
        self._hooks.tell("on_ready", job)
        self._steps.begin(job)
        try:
            submit(job)
        except Exception as error:  # the job type's own affair; other jobs are none of its
            _count(job, before)
            self._err(job, f"it was not submitted: {_said(error)}", is_last=isinstance(error, SubmitUnclear))
            return
        _count(job, before)
        job.waiting = False
        self._hooks.move(job, self._hooks.running)
        self._hooks.tell("on_submit", job)

    def _look(self, job: Any) -> None:
        try:
            state = look(job)
        except Exception as error:  # as when it cannot ask its queue system now
            self._blinded(job, error)
            return
        self._listen(job, is_silent=state is State.SILENT)
        missing = self._steps.missing(job) if state is State.COMPLETE else []
        if state is State.ERROR or missing:
            self._err(job, f"it left no {', '.join(missing)}" if missing else _why(job))
        elif state is State.COMPLETE:
            self.is_moving = True
            self.why.pop(job.alias, None)
            self._hooks.move(job, self._hooks.complete)
            self._hooks.tell("on_complete", job)

    def _listen(self, job: Any, *, is_silent: bool) -> None:
        """One that is silent for long is told of once, and waited for: its type may not be able to say more."""
        self._blind.pop(job.alias, None)
        since = self._silent.setdefault(job.alias, self._clock()) if is_silent else None
        if since is None:
            self._silent.pop(job.alias, None)
        elif self._clock() - since > _PATIENCE:
            self._silent[job.alias] = math.inf
            what = "%s says for %d s that it is neither queued, running, in error nor complete"
            _log.warning(what, job.alias, self._clock() - since)

    def _blinded(self, job: Any, error: Exception) -> None:
        now = self._clock()
        if job.alias not in self._blind:
            self._blind[job.alias] = now
            _log.warning("%s, %r, cannot be looked at: %s", job.alias, job, _said(error))
        if isinstance(error, _MISTAKES) or now - self._blind[job.alias] > _PATIENCE:
            self._fail(job, f"it cannot be looked at: {_said(error)}")

    def _err(self, job: Any, why: str, *, is_last: bool = False) -> None:
        """`is_last`: there may be one already, and a second would write the same files."""
        self.is_moving = True
        self.why[job.alias] = why
        self._hooks.tell("on_error", job)
        if is_last or not _may_retry(job):
            self._fail(job, why)
            return
        _log.info("%s, %r, is submitted again: %s", job.alias, job, why)
        job.waiting = True
        self._hooks.move(job, self._hooks.waiting)

    def _fail(self, job: Any, why: str) -> None:
        self.is_moving = True
        self.why[job.alias] = why
        self._blind.pop(job.alias, None)
        self._hooks.move(job, self._hooks.failed)
        self._hooks.tell("on_fail", job)


def _may_retry(job: Any) -> bool:
    return bool(getattr(job, "should_retry", job.attempts < getattr(job, "MAX_RETRY", 5)))


def _count(job: Any, before: int) -> None:
    """That it was submitted once more, where its type does not count itself."""
    if getattr(job, "attempts", 0) <= before:
        job.attempts = before + 1


def _forget(job: Any) -> None:
    job.attempts, job.id, job.waiting = 0, None, True


def _why(job: Any) -> str:
    told: Mapping[str, Any] = {"why": getattr(job, "why", ""), "id": getattr(job, "id", None)}
    return str(told["why"] or (f"it is in error, as {told['id']}" if told["id"] is not None else "it is in error"))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _aliases(jobs: list[Any]) -> tuple[str, ...]:
    return tuple(job.alias for job in jobs)
