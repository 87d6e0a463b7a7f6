"""Targets from outside: how their providers find them, and taking leave of one."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from turnout.engine.dispatch import Dispatch
from turnout.engine.fleet import Fleet
from turnout.engine.host import in_full
from turnout.engine.sessions import Sessions
from turnout.engine.target import Target
from turnout.errors import Conflict, NotFound, ProviderError
from turnout.hub.notifier import Notifier
from turnout.model.ids import target_of
from turnout.plugin.provider import Failure, Finding, Provider
from turnout.store.agents import Agent
from turnout.store.overviews import live_runs_at
from turnout.store.store import Store

_FAREWELL_SECONDS = 30.0
View = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What of the hub is needed for it."""

    targets: Mapping[str, Target]
    store: Store
    dispatch: Dispatch
    sessions: Sessions
    fleet: Fleet
    notifier: Notifier

    def agents_at(self, name: str) -> list[Agent]:
        """Those of the target, and those on a node of that name."""
        return [each for each in self.fleet.agents() if name in (target_of(each.target), each.node.partition("#")[0])]


def make_router(parts: Parts) -> APIRouter:
    router = APIRouter()

    @router.post("/targets/{place}/check")
    async def check_target(place: str) -> list[View]:
        """What its provider finds; one that is broken is told with its traceback."""
        target = _find(parts.targets, place)
        found = await run_in_threadpool(examine, target)
        if not parts.agents_at(target_of(place)):
            await run_in_threadpool(target.ask, lambda provider: provider.rest())
        return found

    @router.post("/targets/{place}/leave")
    async def leave_target(place: str, force: bool = False) -> View:
        """Nothing of ours is there any more. Conflict while runs are, unless `force`: those are cancelled then."""
        target = _find(parts.targets, place)
        cancelled = await _empty(parts, target_of(place), force=force)
        answer = await run_in_threadpool(target.ask, lambda provider: provider.clear())
        await run_in_threadpool(target.ask, lambda provider: provider.rest())
        if isinstance(answer, Failure) and not force:
            hint = "try again when it can be reached, or give --force: then what is there stays there"
            raise ProviderError(f"{target_of(place)} could not be cleared: {answer.message}", hint=hint)
        why = answer.message if isinstance(answer, Failure) else ""
        return {"cancelled": cancelled, "cleared": not why, "why": why}

    return router


def examine(target: Target) -> list[View]:
    """The provider's own check, whatever happens in it."""

    def look(provider: Provider) -> list[Finding]:
        try:
            return list(provider.check())
        except Failure:
            raise
        except Exception:
            what = (
                f"the provider {provider.name} of {target_of(target.name)} is broken\n{traceback.format_exc().strip()}"
            )
            return [Finding("problem", what, "tell who wrote it; `turnout provider test` says more")]

    found = target.ask(look)
    if isinstance(found, Failure):
        hint = f"correct it; `turnout provider test {target_of(target.name)}` says more"
        found = [Finding("problem", in_full(found), hint)]
    return [{"level": each.level, "what": each.what, "hint": each.hint} for each in found]


async def _empty(parts: Parts, name: str, *, force: bool) -> int:
    """Nothing runs there, and no agent is there; how many runs were cancelled for that."""

    def look() -> list[int]:
        with parts.store.read() as connection:
            return live_runs_at(connection, name)

    runs = await run_in_threadpool(look)
    if runs and not force:
        hint = f"wait for them, cancel them (`turnout cancel all --target {name}`), or give --force"
        raise Conflict(f"{len(runs)} runs are there, or were sent there", hint=hint)
    if runs:
        done = await asyncio.wrap_future(parts.dispatch.cancel(runs, by="user"))
        parts.notifier.publish(frozenset(f"agent:{item.agent}" for item in done if item.agent is not None))
    if not await _until(lambda: not _dismissed(parts, name) and not parts.fleet.is_busy_at(name)) and not force:
        raise Conflict(f"an agent stays on {name}", hint="see `turnout list nodes`; --force leaves it to itself")
    return len(runs)


def _dismissed(parts: Parts, name: str) -> list[Agent]:
    """The agents that are still there; they were told to go."""
    left = parts.agents_at(name)
    for agent in left:
        session = parts.sessions.get(agent.id)
        if session is not None and not session.leaving:
            session.leaving = True
            parts.notifier.publish(frozenset({f"agent:{agent.id}"}))
    return left


async def _until(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _FAREWELL_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def _find(targets: Mapping[str, Target], place: str) -> Target:
    if place not in targets:
        raise NotFound(f"no target {place!r}", hint=f"known: {', '.join(sorted(map(target_of, targets)))}")
    return targets[place]
