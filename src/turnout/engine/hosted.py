"""A provider whose class lives in a plugin host: every method of the contract, over there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnout.engine.host import Host
from turnout.plugin.foreign import Draft, DraftRun, Ended, Foreign, StatusQuery
from turnout.plugin.provider import Failure, Finding, Handle, Launch, Observation, Provider
from turnout.plugin.remote import Description, Plugin
from turnout.plugin.telling import Known, News, Telling

_PATIENCE = 120.0  # for a status; one that monitors ends when nobody reads any more
_OVERTIME = 30.0  # for one that monitors for so many seconds, and does not come to its end


class HostedProvider(Provider):
    """Made by `hosted`, which gives it what its class over there says of itself."""

    description: Description

    def __init__(self, settings: Mapping[str, object], host: Host, plugin: Plugin) -> None:
        super().__init__(settings)
        self._host = host
        self._plugin = plugin
        self._may_rest = False

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return list(self._ask("submit", launches))

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        return dict(self._ask("observe", handles))

    def cancel(self, handles: Sequence[Handle]) -> None:
        self._ask("cancel", handles)

    def find(self, token: str) -> Handle | None:
        found = self._ask("find", token)
        return None if found is None else str(found)

    def check(self) -> list[Finding]:
        return list(self._ask("check"))

    def seats(self) -> Sequence[str]:
        return tuple(self.description.seats)

    def seat_max_runs(self, seat: str) -> int | None:
        return self.description.seats.get(seat)

    def clear(self) -> None:
        self._ask("clear")

    def rest(self) -> None:
        """Asked for again and again; the class over there is told once, so that its process may rest as well."""
        if self._may_rest:
            self._may_rest = False
            self._host.call(self._plugin, "rest")

    def _ask(self, method: str, *arguments: object) -> Any:
        self._may_rest = True
        return self._host.call(self._plugin, method, *arguments)


class HostedForeign(HostedProvider, Foreign):
    """The same of one with ways of its own."""

    def adjust(self, draft: Draft) -> Draft:
        adjusted = self._ask("adjust", draft)
        assert isinstance(adjusted, Draft)
        return adjusted

    def status(self, query: StatusQuery) -> None:
        for piece in self.told(query):
            print(piece, end="", flush=True)

    def told(self, query: StatusQuery) -> Iterator[str]:
        """What it prints, as it comes. Closing the iterator ends it."""
        limit: float | None = _PATIENCE
        if query.monitor:
            limit = None if query.seconds is None else query.seconds + _OVERTIME
        return self._host.watch(self._plugin, "status", query, limit=limit)

    def cancel_runs(self, workspace: str, runs: Sequence[str], node: str) -> list[Ended]:
        return list(self._ask("cancel_runs", workspace, runs, node))

    def cancel_job(self, job: str, runs: Sequence[DraftRun]) -> list[Ended]:
        return list(self._ask("cancel_job", job, runs))

    def cancel_user(self, node: str) -> list[Ended]:
        return list(self._ask("cancel_user", node))


class HostedTelling(HostedForeign, Telling):
    """The same of one that passes on what its launches tell."""

    def told(self, query: StatusQuery) -> Iterator[str]:
        """The instance that has the launches is asked, and answers with text: another one may know none of them."""
        yield self._ask("status", query) or ""

    def news(self, known: Mapping[Handle, Known]) -> dict[Handle, News]:
        return dict(self._ask("news", known))

    def stop(self, handles: Sequence[Handle]) -> None:
        self._ask("stop", handles)


def hosted(description: Description, settings: Mapping[str, object], host: Host, plugin: Plugin) -> HostedProvider:
    """The provider over there. Makes no call."""
    base = HostedTelling if description.telling else HostedForeign if description.foreign else HostedProvider
    about = {"name": description.name, "capabilities": description.capabilities, "description": description}
    made: type[HostedProvider] = type(base.__name__, (base,), about)
    return made(settings, host, plugin)
