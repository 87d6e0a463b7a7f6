"""The application: routes, errors in one shape, and the gate around them."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from turnout._version import __version__
from turnout.errors import Internal, InvalidInput, NotFound, TurnoutError
from turnout.hub.keeping_trials import KEEPERS
from turnout.hub.security import App, Receive, Scope, Send

_log = logging.getLogger(__name__)


class AsciiJSON(JSONResponse):
    """Arguments and file names need not be Unicode: what is not travels as an escape, and comes back as it was."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def make_app(router: APIRouter, wire: App) -> App:
    """People's routes, and agents' beside them."""
    api = FastAPI(
        title="turnout", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        default_response_class=AsciiJSON,
    )  # fmt: skip
    api.include_router(router)
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        is_api = path.startswith("/api/") and not path.startswith(KEEPERS)
        await (api if is_api else wire)(scope, receive, send)

    return app


def make_wire_app(routes: list[Route]) -> App:
    """Agents' routes, with as little around them as there can be: they are asked hundreds of times a second."""
    return Starlette(routes=[*routes, Route("/health", _health, methods=["GET"])], exception_handlers=_HANDLERS)


async def _health(_request: Request) -> JSONResponse:
    return JSONResponse({"ok": True})


async def _turnout_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TurnoutError)
    headers = {"Retry-After": "1"} if error.retryable else None
    return JSONResponse(error.as_dict(), status_code=error.status, headers=headers)


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return await _turnout_error(request, InvalidInput(f"{where}: {first['msg']}" if where else first["msg"]))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return await _turnout_error(request, NotFound("no such route", hint="this hub may be older than your client"))
    body = InvalidInput(str(error.detail)).as_dict()
    return JSONResponse(body, status_code=error.status_code)


async def _fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("a request to %r failed", request.url.path, exc_info=error)
    return await _turnout_error(request, Internal(f"{type(error).__name__} in the hub", hint="see `turnout hub logs`"))


async def _gone(_request: Request, _error: Exception) -> JSONResponse:
    """Who asked is not there any more: nobody reads this."""
    return JSONResponse({}, status_code=499)


_HANDLERS: dict[Any, Any] = {
    TurnoutError: _turnout_error,
    RequestValidationError: _invalid_request,
    HTTPException: _http_error,
    ClientDisconnect: _gone,
    Exception: _fault,
}
