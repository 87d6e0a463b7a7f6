"""How trials are, as their service tells; whatever it raises meanwhile is told, and stops nothing."""

from __future__ import annotations

import contextlib
import sys
import traceback
from dataclasses import replace

from turnout.compat.nni.errors import is_not_found
from turnout.compat.nni.launches import Launched, observation
from turnout.compat.nni.service import ask, raised
from turnout.compat.nni.spooling import Spools
from turnout.compat.nni.trials import TrialJobDetail, TrialJobStatus, detail_of
from turnout.plugin.provider import Observation, Phase

#: A trial of an earlier instance that this one does not know, so many looks long, is lost, unless it began.
_ENOUGH = 10
_NOT_FOUND = "NOT_FOUND"


class Looks:
    """At the trials of one instance of a service, in its thread; `spools` know which of them began, also after it."""

    def __init__(self, service: object, spools: Spools) -> None:
        self._service = service
        self._spools = spools
        self._updates = True
        self._printed: set[tuple[str, type[Exception]]] = set()
        self._own: set[str] = set()
        self._missed: dict[str, int] = {}

    def expect(self, launched: Launched, answer: object) -> None:
        """It was submitted to this very instance, which may take its time to know it, and this was the answer."""
        self._own.add(launched.token)
        with contextlib.suppress(ValueError, TypeError):  # whether it can be read is found out when it is looked at
            if detail_of(answer).status is not TrialJobStatus.WAITING:
                self._spools.begin(launched.token)

    async def watch(self, launched: Launched) -> Observation:
        """As `look`. But a trial that waited in the memory of an earlier instance, and that nobody has any more, is
        lost, unless it tells of itself: should it begin after all, its token opens nothing then."""
        seen = await self.look(launched)
        token = launched.token
        is_missed = seen.native == _NOT_FOUND and token not in self._own and not self._spools.has_begun(token)
        self._missed[token] = self._missed.get(token, 0) + 1 if is_missed else 0
        if self._missed[token] < _ENOUGH:
            return seen
        return replace(seen, reason="node_lost", detail="its service does not know it, and never said that it began")

    async def look(self, launched: Launched) -> Observation:
        """A trial that the service does not know (any more), or cannot tell of, is one of which nothing is known: what
        it executes may go on."""
        trouble = await self._update(launched)
        try:
            seen = observation(await self._get(launched))
        except Exception as error:
            if is_not_found(error):
                said = "its service does not know it"
                return Observation(Phase.UNKNOWN, detail=said, native=_NOT_FOUND, id=launched.id)
            return Observation(Phase.UNKNOWN, detail=self._told("get_trial_job", error), id=launched.id)
        if seen.phase is not Phase.PENDING:
            self._spools.begin(launched.token)
        said = "" if trouble is None else self._told("update_trial_job", trouble)
        return replace(seen, detail=seen.detail or said)

    async def detail(self, launched: Launched) -> TrialJobDetail:
        """Whatever the service raises."""
        await self._update(launched)
        return await self._get(launched)

    async def _update(self, launched: Launched) -> Exception | None:
        """By NNI's document that is how it finds out how a trial is; a service that knows no such thing is not asked
        again. What it raised."""
        try:
            if self._updates:
                await ask(self._service, "update_trial_job", launched.id, launched.form())
        except Exception as error:
            self._updates = "NotImplemented" not in type(error).__name__
            return error if self._updates else None
        return None

    async def _get(self, launched: Launched) -> TrialJobDetail:
        return detail_of(await ask(self._service, "get_trial_job", launched.id))

    def _told(self, name: str, error: Exception) -> str:
        """Where it comes from is in the log: the first of its kind, since looks go on."""
        kind = (name, type(error))
        if kind not in self._printed:
            self._printed.add(kind)
            traceback.print_exception(error, file=sys.stderr)
        return raised(self._service, name, error)
