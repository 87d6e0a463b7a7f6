"""What is on a node ends as if the node had been taken away, and is tried again; agents that are not needed leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool

from turnout.engine.dispatch import Dispatch
from turnout.errors import Conflict, NotFound
from turnout.hub.notifier import Notifier
from turnout.model.ids import parse_run_name
from turnout.schedule.record import RunRecord
from turnout.store.reads import find_run, show_runs
from turnout.store.store import Store

_HELPS = {"release": "lets it into the queue", "why": "tells what it waits for", "rerun": "runs it once more"}


class RestartRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


def make_router(store: Store, dispatch: Dispatch, notifier: Notifier, end_agents: Callable[[], None]) -> APIRouter:
    router = APIRouter()

    def look(name: str) -> tuple[set[int], str]:
        """The run of that name, and its children; how it is."""
        with store.read() as connection:
            run = find_run(connection, name)
            (view,) = show_runs(connection, [run], children=True)
            return {run, *(find_run(connection, child) for child in view["children"])}, view["state"]

    def describe(done: list[RunRecord]) -> list[dict[str, Any]]:
        with store.read() as connection:
            views = show_runs(connection, [record.id for record in done])
        return [
            {"run": view["name"], "node": record.node, "attempt": record.attempt, "retried": record.losses_left > 0}
            for record, view in zip(done, views, strict=True)
        ]

    @router.post("/restart")
    async def restart(wanted: RestartRequest) -> list[dict[str, Any]]:
        """The attempts that are being ended. It is on the disk that they are, so that a hub that comes after this one
        asks their nodes too."""
        on_node = dispatch.held_on(wanted.name)
        done = await asyncio.wrap_future(dispatch.restart(on_node, by="user")) if on_node else []
        if not done:
            try:
                runs, state = await run_in_threadpool(look, wanted.name)
            except NotFound as error:
                if parse_run_name(wanted.name) is not None:
                    raise
                hint = "give a run, or a node that runs something: `turnout status` shows both"
                raise NotFound(f"no run {wanted.name!r}, and no node that runs anything", hint=hint) from error
            done = await asyncio.wrap_future(dispatch.restart(runs, by="user"))
            if not done:
                again = "release" if state == "created" else "why" if state == "queued" else "rerun"
                hint = f"`turnout {again} {wanted.name}` {_HELPS[again]}"
                raise Conflict(f"{wanted.name} is {state}, and on no node", hint=hint)
        notifier.publish(frozenset(f"agent:{record.agent}" for record in done))
        return await run_in_threadpool(describe, done)

    @router.post("/hub/dismiss")
    async def dismiss(now: bool = False) -> dict[str, int]:
        """Agents leave as soon as they hold nothing, and are not started again before something waits. With `now`,
        also what they do at their beginning or end is broken off."""
        agents = dispatch.dismiss()
        if now:
            end_agents()
        notifier.publish(frozenset(f"agent:{agent}" for agent in agents))
        return {"agents": len(agents)}

    return router
