"""The routes of TrialKeepers: a run's token for those of ours, which then speak as agents do; and what NNI's own says.

NNI's keeper names experiment and trial in each address: job and run. The token is that of the run's launch, as bearer
or as the password of HTTP's basic authentication (``requests`` takes that from a netrc file), and opens that run alone.
There are no numbers on what it sends: a line that it sends twice is there twice. It is never asked anything and may be
silent for long: no lease is kept, and its run is running until it, the run's provider, or a cancel says otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from turnout.errors import Conflict, InvalidInput
from turnout.hub.heard_trials import HeardTrials
from turnout.hub.reading import reading
from turnout.model.ids import parse_job_name
from turnout.store.agents import Agent, find_by_token
from turnout.store.reads import find_run, show_runs
from turnout.store.store import Connection, Store

#: Where NNI's keepers speak.
KEEPERS = "/api/v1/nni-pai/"
_LARGEST = 4 << 20
#: Its routes, and who understands what is said there: loaded when one speaks.
_HEARD = {"version": "version", "stdout": "line", "update-metrics": "metrics"}
_UNDERSTANDS = "turnout.compat.nni.keeper.saying"


def make_token_router(store: Store, works: Path) -> APIRouter:
    """`works` has a directory for each job whose runs are launched by others."""
    router = APIRouter()

    @router.post("/runs/{name}/trial-token")
    async def trial_token(name: str) -> dict[str, Any]:
        """What a TrialKeeper needs to take this run: `ticket` for ours, `token` for NNI's."""
        return await reading(store, lambda connection: _ticket(connection, name, works))

    return router


def _ticket(connection: Connection, name: str, works: Path) -> dict[str, Any]:
    from turnout.compat.nni.keeper import tickets

    (view,) = show_runs(connection, [find_run(connection, name)])
    found = tickets.orders_in(str(works / str(parse_job_name(view["job"])) / "files" / ".turnout"))
    order = json.loads(Path(found[view["name"]]).read_text()) if view["name"] in found else None
    if order is None or find_by_token(connection, str(order["token"])) is None:
        raise Conflict(
            f"{name} does not wait for a TrialKeeper: it is {view['state']} at {view['target']}",
            hint="submit it to a target of the service `trialkeeper`, or of a TrainingService",
        )
    return {"run": view["name"], "job": view["job"], "token": order["token"], "ticket": tickets.write(order)}


class KeeperRoutes:
    """For NNI's keeper."""

    def __init__(self, trials: HeardTrials) -> None:
        self._trials = trials

    def routes(self) -> list[Route]:
        made = [
            Route(f"{KEEPERS}{name}/{{exp}}/{{trial}}", self._hearing(hear), methods=["POST"])
            for name, hear in _HEARD.items()
        ]
        return [*made, Route(f"{KEEPERS}parameter-file-meta", self.parameters, methods=["GET", "POST"])]

    async def parameters(self, request: Request) -> Response:
        """Further parameters for the same trial, of which there are none."""
        if request.method == "POST":
            raise InvalidInput("a trial has one set of parameters here", hint="submit another run")
        return JSONResponse([])

    def _hearing(self, hear: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            agent = request.scope["turnout"]
            assert isinstance(agent, Agent)
            said = getattr(import_module(_UNDERSTANDS), hear)(await _body(request))
            named = request.path_params["exp"], request.path_params["trial"]
            await asyncio.wrap_future(self._trials.take(agent, named, said))
            return JSONResponse({})

        return endpoint


async def _body(request: Request) -> Mapping[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _LARGEST:
            raise InvalidInput(f"a message may have at most {_LARGEST} bytes", hint="send less at a time")
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the body is not JSON", hint="send an object, as NNI's TrialKeeper does") from error
    if not isinstance(told, dict):
        raise InvalidInput("the body is not an object", hint="send an object, as NNI's TrialKeeper does")
    return told
