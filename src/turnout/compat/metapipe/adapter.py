"""A job type of Metapipe as a provider that launches runs: each launch is one job, whose script executes the run."""

from __future__ import annotations

import inspect
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from turnout.compat.launched import Journal
from turnout.compat.metapipe import job as jobs
from turnout.compat.metapipe.calling import SubmitUnclear, submit
from turnout.compat.metapipe.commands import Command
from turnout.compat.metapipe.launches import Launched, command_of, folder_of
from turnout.compat.metapipe.states import State, look
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider, Work
from turnout.plugin.remote import Plugin

#: How long submitting may go on before what is left comes another time, in seconds.
_LONGEST = 30.0
#: So many looks in a row a job may say nothing of itself before it is taken for lost; unless its run tells.
_ENOUGH = 10
_OPTIONS = "job-options"
#: What is written of a target for others than its class.
_NOT_ITS = frozenset({"service", "type", _OPTIONS})
#: What an object raises that has lost what it knew with the process that it was in.
_LOST = (AttributeError, TypeError, KeyError)


class MetapipeJobProvider(Provider):
    """For one thread at a time, whose working directory is changed meanwhile."""

    INTERFACE: ClassVar[str] = "Metapipe's Job"
    METHODS: ClassVar[tuple[str, ...]] = jobs.REQUIRED

    def __init__(self, found: Any, plugin: Plugin) -> None:
        super().__init__(plugin.settings)
        self._found = found
        self._plugin = plugin
        self._journal = Journal(plugin.records)
        self._jobs: dict[str, Any] = {}
        self._put_back: set[str] = set()
        self._over: dict[str, Observation] = {}
        self._silent: dict[str, int] = {}

    @classmethod
    def around(cls, found: Any, plugin: Plugin) -> MetapipeJobProvider:
        """A provider that makes jobs of the class `found`."""
        about = {"name": plugin.service, "capabilities": Capabilities(launches="runs", elastic=True)}
        made: type[MetapipeJobProvider] = type(cls.__name__, (cls,), about)
        return made(found, plugin)

    @classmethod
    def lacking(cls, found: Any) -> list[str]:
        return jobs.lacking(found)

    # --- launching --------------------------------------------------------------------------------------------------

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        deadline = time.monotonic() + _LONGEST
        answers: list[Handle | Failure] = []
        for launch in launches:
            if answers and time.monotonic() > deadline:
                why = f"submitting took more than {_LONGEST:g} s; the next come after that"
                later = Failure(why, kind="throttled", retry_after=1.0)
                return answers + [later] * (len(launches) - len(answers))
            assert launch.work is not None, "a provider that launches runs is given runs"
            answers.append(self._submit(launch, launch.work))
        return answers

    def _submit(self, launch: Launch, work: Work) -> Handle | Failure:
        try:
            folder = folder_of(work)
            command = command_of(launch, work, folder, _lines(self._plugin.definition.get(_OPTIONS)))
        except OSError as error:
            return Failure(f"its script cannot be written: {error}")
        launched = Launched(launch.token, work.run, "", str(folder))
        try:
            with launched.inside():
                job = self._make(work.run, command)
                job.need = launch.need
                submit(job)
                job.waiting = False
        except Exception as error:  # the class's own affair; other launches are none of its
            traceback.print_exc()
            # Should there be a job now that nobody can find, more of them would not be better.
            kind = "rejected" if isinstance(error, SubmitUnclear) else "transient"
            return Failure(f"submit raised {type(error).__name__}: {error}".rstrip(": "), kind=kind)
        launched = replace(launched, id=_name(job, work.run))
        launched.keep(job)
        self._jobs[launch.token] = job
        self._journal.keep({launch.token: launched.handle()})
        return launched.handle()

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        seen = {handle: each for handle in handles if (each := Launched.read(handle)) is not None}
        return {handle: self._watch(each) for handle, each in seen.items()}

    def cancel(self, handles: Sequence[Handle]) -> None:
        """By the class's own ``cancel``, if it has one. Metapipe knows none: a run that began hears of it from the hub,
        one that begins later is not executed."""
        problems: list[str] = []
        for launched in filter(None, map(Launched.read, handles)):
            try:
                with launched.inside():
                    cancel = getattr(self._job(launched), "cancel", None)
                    if callable(cancel) and launched.token not in self._over:
                        cancel()
            except Exception as error:  # the others are none of its
                traceback.print_exc()
                problems.append(f"cancel raised {type(error).__name__}: {error}".rstrip(": "))
        if problems:
            raise Failure(problems[0])

    def find(self, token: str) -> Handle | None:
        return self._journal.find(token) if token else None

    def check(self) -> list[Finding]:
        found = Finding("ok", f"{self._plugin.path} is {self.INTERFACE}")
        if callable(getattr(self._found, "cancel", None)):
            return [found]
        what = f"{self._plugin.path} has no cancel: a job that waits there stays until its turn comes, and does nothing"
        return [found, Finding("ok", what)]

    def clear(self) -> None:
        self.rest()

    def rest(self) -> None:
        for each in (self._jobs, self._put_back, self._over, self._silent):
            each.clear()
        self._journal.forget()

    # --- its jobs ---------------------------------------------------------------------------------------------------

    def _make(self, alias: str, command: Command | None) -> Any:
        """An instance; of what is written of the target, it is given what its ``__init__`` takes."""
        definition = self._plugin.definition
        written = {key.replace("-", "_"): value for key, value in definition.items() if key not in _NOT_ITS}
        try:
            taken = list(inspect.signature(self._found).parameters)[3:]
        except (TypeError, ValueError):
            taken = []
        return self._found(alias, command, [], **{name: written[name] for name in taken if name in written})

    def _job(self, launched: Launched) -> Any:
        """Its object; one that was in another process is made again, with what it knew when it was submitted."""
        if launched.token not in self._jobs:
            self._put_back.add(launched.token)
            job = self._make(launched.run, None)
            launched.put_back(job)
            self._jobs[launched.token] = job
        return self._jobs[launched.token]

    def _watch(self, launched: Launched) -> Observation:
        token = launched.token
        if token in self._over:
            return self._over[token]
        seen, is_silent = self._look(launched)
        self._silent[token] = self._silent.get(token, 0) + 1 if is_silent else 0
        if seen.phase is Phase.GONE:
            self._over[token] = seen
        if self._silent[token] >= _ENOUGH:
            return replace(seen, reason="node_lost", detail=seen.detail or "its job type says nothing of it any more")
        return seen

    def _look(self, launched: Launched) -> tuple[Observation, bool]:
        """How it is, and whether its object knows nothing of it."""
        try:
            with launched.inside():
                job = self._job(launched)
                state = look(job)
        except Exception as error:
            if not self._silent.get(launched.token):
                traceback.print_exc(file=sys.stderr)
            said = f"it cannot be looked at: {type(error).__name__}: {error}".rstrip(": ")
            is_lost = launched.token in self._put_back and isinstance(error, _LOST)
            return Observation(Phase.UNKNOWN, detail=said, id=launched.id), is_lost
        phase, code = _PHASES[state]
        if code is None:
            return Observation(phase, native=state.value, id=_name(job, launched.id)), state is State.SILENT
        own = getattr(job, "exit_code", None)
        code = own if isinstance(own, int) and bool(own) == bool(code) else code
        detail = f"{state.value}, as its job type says"
        return Observation(
            phase, detail=detail, reason="exit_code", exit_code=code, native=state.value, id=_name(job, launched.id)
        ), False


#: How a job is -> how its launch is; of one that is over, its exit code, if it does not say that itself.
_PHASES: dict[State, tuple[Phase, int | None]] = {
    State.RUNNING: (Phase.ACTIVE, None),
    State.QUEUED: (Phase.PENDING, None),
    State.SILENT: (Phase.UNKNOWN, None),
    State.ERROR: (Phase.GONE, 1),
    State.COMPLETE: (Phase.GONE, 0),
}


def _name(job: Any, usual: str) -> str:
    own = getattr(job, "id", None)
    return usual if own is None else str(own)


def _lines(given: Any) -> list[str]:
    if given is None:
        return []
    return given.splitlines() if isinstance(given, str) else [str(each) for each in given]
