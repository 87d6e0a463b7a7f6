"""What is on a node ends as if the node had been taken away, and is tried again; agents that are not needed leave."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool

from turnout.engine.dispatch import Dispatch
from turnout.errors import Conflict, NotFound
from turnout.hub.notifier import Notifier
from turnout.model.ids import parse_run_name
from turnout.store.reads import find_run, show_runs
from turnout.store.store import Store


class RestartRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


def make_router(store: Store, dispatch: Dispatch, notifier: Notifier) -> APIRouter:
    router = APIRouter()

    def look(name: str) -> tuple[set[int], str]:
        """The run of that name, and its children; how it is."""
        with store.read() as connection:
            run = find_run(connection, name)
            (view,) = show_runs(connection, [run], children=True)
            return {run, *(find_run(connection, child) for child in view["children"])}, view["state"]

    def names(runs: list[int]) -> list[dict[str, Any]]:
        with store.read() as connection:
            return [
                {"run": view["name"], "node": view["node"], "attempt": view["attempts"]}
                for view in show_runs(connection, runs)
            ]

    @router.post("/restart")
    async def restart(wanted: RestartRequest) -> list[dict[str, Any]]:
        """The attempts that are being ended. What is asked for here is lost when the hub dies before the node hears."""
        done = dispatch.restart(node=wanted.name)
        if not done:
            try:
                runs, state = await run_in_threadpool(look, wanted.name)
            except NotFound as error:
                if parse_run_name(wanted.name) is not None:
                    raise
                hint = "give a run, or a node that runs something: `turnout status` shows both"
                raise NotFound(f"no run {wanted.name!r}, and no node that runs anything", hint=hint) from error
            done = dispatch.restart(runs=runs)
            if not done:
                hint = f"`turnout why {wanted.name}` tells more; `turnout rerun {wanted.name}` runs it once more"
                raise Conflict(f"{wanted.name} is {state}, and on no node", hint=hint)
        notifier.publish(frozenset(f"agent:{agent}" for agent, _ in done))
        return await run_in_threadpool(names, [run for _, run in done])

    @router.post("/hub/dismiss")
    async def dismiss() -> dict[str, int]:
        """Agents leave as soon as they hold nothing, and are not started again before something waits."""
        agents = dispatch.dismiss()
        notifier.publish(frozenset(f"agent:{agent}" for agent in agents))
        return {"agents": len(agents)}

    return router
