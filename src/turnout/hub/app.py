"""The application: routes, errors in one shape, and the gate around them."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from turnout._version import __version__
from turnout.errors import Internal, InvalidInput, NotFound, TurnoutError

_log = logging.getLogger(__name__)


def make_app(*, routers: list[Any], wire: list[Route]) -> FastAPI:
    app = FastAPI(title="turnout", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    for router in routers:
        app.include_router(router)
    app.router.routes.extend(wire)
    app.add_api_route("/health", _health, methods=["GET"])
    app.add_exception_handler(TurnoutError, _turnout_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)
    return app


async def _health() -> dict[str, bool]:
    return {"ok": True}


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
    _log.error("a request to %s failed", request.url.path, exc_info=error)
    return await _turnout_error(request, Internal(f"{type(error).__name__} in the hub", hint="see `turnout hub logs`"))
