"""Who may do what: every request is refused unless its host, origin and token say otherwise.

Applied around the whole application, to every method and to streams, before any handler runs. Allow-lists only.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from turnout.errors import InvalidInput
from turnout.hub.blobs import MAX_BLOB
from turnout.hub.keeping_trials import KEEPERS
from turnout.store.agents import Agent

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The one route that needs no token. It tells nothing but that somebody listens.
OPEN = "/health"
WIRE = "/wire/"
#: The largest message, the largest body of files, the largest archive: those go to the disk as they come.
MOST_SAID = 256 << 20
MOST_UPLOADED = MAX_BLOB
MOST_ARCHIVED = 1 << 44
_ARCHIVES = "/api/import"
_UPLOADS = frozenset({"/api/blobs", "/wire/blobs/put"})
_ONCE = (b"host", b"origin", b"authorization", b"sec-fetch-site", b"content-length")
_SAME_SITE = frozenset({b"same-origin", b"none"})


class Gate:
    """Wraps an application. Behind it, ``scope["turnout"]`` holds the principal: ``user`` or an Agent.

    `hosts` are what the Host header may be. An agent's token opens the wire routes and those of keepers only, the
    user's all the others.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: Collection[str],
        user_token: str | None,
        find_agent: Callable[[str], Awaitable[Agent | None]],
        only_wire: bool,
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._user_token = user_token.encode() if user_token is not None else None
        self._find_agent = find_agent
        self._only_wire = only_wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        if refusal is None:
            await self._app(scope, _capped(receive, _most(scope)), send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send, *refusal)

    async def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        if scope["type"] != "http":
            return 403, "not served"
        headers: dict[bytes, bytes] = dict(scope["headers"])
        names = [name for name, _ in scope["headers"]]
        if any(names.count(once) > 1 for once in _ONCE):
            return 400, "a header came twice that may come once"
        if headers.get(b"host", b"") not in self._hosts:
            return 421, "this host is not served here"
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return 403, "cross-origin requests are refused"
        if headers.get(b"sec-fetch-site", b"none") not in _SAME_SITE:
            return 403, "cross-site requests are refused"
        path: str = scope["path"]
        if path == OPEN and scope["method"] == "GET":
            return None
        denied = await self._check_token(scope, path, headers)
        if denied is None and int(headers.get(b"content-length", b"0")) > _most(scope):
            return 413, f"a message may have at most {_most(scope)} bytes"
        return denied

    async def _check_token(self, scope: Scope, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic" and path.startswith(KEEPERS):
            kind, token = b"bearer", _password(token)
        if kind.lower() != b"bearer" or not token:
            return 401, "a token is needed"
        if path.startswith((WIRE, KEEPERS)):
            agent = await self._find_agent(token.decode("latin-1"))
            if agent is None:
                return 401, "this token opens nothing here"
            scope["turnout"] = agent
            return None
        if self._only_wire or self._user_token is None or not hmac.compare_digest(token, self._user_token):
            return 401, "this token opens nothing here"
        scope["turnout"] = "user"
        return None


def _password(credentials: bytes) -> bytes:
    """Of HTTP's basic authentication: a keeper that knows of no tokens can send one so. Empty when there is none."""
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _most(scope: Scope) -> int:
    if scope["path"] == _ARCHIVES:
        return MOST_ARCHIVED
    return MOST_UPLOADED if scope["method"] == "PUT" or scope["path"] in _UPLOADS else MOST_SAID


def _capped(receive: Receive, most: int) -> Receive:
    """A body that does not say how long it is ends here, too."""
    left = most

    async def counted() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise InvalidInput(f"a message may have at most {most} bytes")
        return message

    return counted


async def _refuse(send: Send, status: int, why: str) -> None:
    hint = "run `turnout hub status`; the token is in TURNOUT_HOME" if status == 401 else ""
    body = json.dumps({"error": "denied", "message": why, "hint": hint, "retryable": False}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))  # whatever else it was going to send is not waited for
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
