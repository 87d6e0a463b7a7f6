"""The routes agents use. All they may do is here; each acts only on what is its own."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from turnout.engine.dispatch import Dispatch
from turnout.engine.report import Telling
from turnout.engine.sessions import Session, Sessions
from turnout.errors import Conflict, InvalidInput
from turnout.hub.blobs import Blobs, receive_pack, send_pack
from turnout.hub.notifier import Listener, Notifier
from turnout.hub.reading import Streamed
from turnout.hub.snapshots import Snapshots
from turnout.schedule.record import Cause
from turnout.store.agents import Agent
from turnout.wire.manifest import is_digest
from turnout.wire.messages import Attempt, Chunk, Grant, Hello, Orders, Poll, Report, dump, split_report
from turnout.wire.protocol import OLDEST_HEARD, PROTOCOL

_HELLO: TypeAdapter[Hello] = TypeAdapter(Hello)
_POLL: TypeAdapter[Poll] = TypeAdapter(Poll)
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)
_DIGESTS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_FACTS = frozenset({"staged", "setup", "running", "ended", "captured", "returned"})
_LARGEST_REPORT = 64 << 20
_LONGEST_WAIT = 30.0


class WireRoutes:
    def __init__(self, dispatch: Dispatch, sessions: Sessions, notifier: Notifier, blobs: Blobs) -> None:
        self._dispatch = dispatch
        self._sessions = sessions
        self._notifier = notifier
        self._blobs = blobs
        self._snapshots = Snapshots(blobs)

    def routes(self) -> list[Route]:
        table: dict[str, Any] = {
            "/wire/hello": self.hello,
            "/wire/poll": self.poll,
            "/wire/report": self.report,
            "/wire/blobs/missing": self.missing,
            "/wire/blobs/get": self.get_blobs,
            "/wire/blobs/put": self.put_blobs,
        }
        return [Route(path, endpoint, methods=["POST"]) for path, endpoint in table.items()]

    async def hello(self, request: Request) -> Response:
        message = _parse(_HELLO, await _body(request))
        _check_protocol(message.protocol, oldest=OLDEST_HEARD if message.fixed else PROTOCOL)
        welcome = await asyncio.wrap_future(self._dispatch.welcome(_agent(request), message))
        return _json(welcome)

    async def poll(self, request: Request) -> Response:
        """Answers as soon as there is something to say, at the latest when the agent's patience or a third of its lease
        is over."""
        message = _parse(_POLL, await _body(request))
        session = self._session(request, message)
        fenced = self._dispatch.hear(session, message)
        session.wait(message.number)
        seconds = min(message.wait, self._sessions.lease_seconds / 3, _LONGEST_WAIT)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        topics = [f"queue:{session.queue}", "queue", f"agent:{session.agent}"]
        with self._notifier.listen(topics) as news, _connected(request, lambda: session.hang_up(message.number), news):
            while True:
                orders = await self._orders(session, fenced)
                is_wanted = orders.gpus_wanted and not message.gpus_wanted
                if orders.grants or orders.stops or orders.fenced or orders.exit or is_wanted:
                    return _json(orders)
                told = await news.wait(deadline - loop.time())
                is_gone = session.waits_at != message.number  # it hung up, or waits with another one
                if self._notifier.is_closed or is_gone or (not told and loop.time() >= deadline):
                    return _json(orders)

    async def report(self, request: Request) -> Response:
        try:
            head, payload = split_report(await _body(request))
        except ValueError as error:
            raise InvalidInput(f"malformed message: {error}") from error
        message = _parse(_REPORT, head)
        agent = _agent(request)
        session = self._session(request, message.poll)
        fenced = self._dispatch.hear(session, message.poll)
        telling = Telling(agent.id, tuple(message.facts), tuple(_cut(message.chunks, payload)))
        await self._check_facts(telling)
        reporting, taking = self._dispatch.report(session, telling), self._take(session, follows=True)
        receipt = await asyncio.wrap_future(reporting)
        granted = await asyncio.wrap_future(taking) if taking is not None else []
        if granted:
            return _json(self._dispatch.orders(session, fenced, receipt))
        return _json(await self._orders(session, fenced, receipt))

    async def missing(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._blobs.missing, await _digests(request)))

    async def get_blobs(self, request: Request) -> Response:
        return Streamed(send_pack(self._blobs, await _digests(request)), "application/octet-stream")

    async def put_blobs(self, request: Request) -> Response:
        return JSONResponse(await receive_pack(self._blobs, _stream(request)))

    async def _orders(self, session: Session, fenced: list[Attempt], receipt: Any = None) -> Orders:
        taking = self._take(session)
        if taking is not None:
            await asyncio.wrap_future(taking)
        return self._dispatch.orders(session, fenced, receipt)

    def _take(self, session: Session, *, follows: bool = False) -> Future[list[Grant]] | None:
        """Runs for this agent, if it has room; none while it cannot be told, or the hub is about to stop. See
        `Dispatch.take`."""
        if self._notifier.is_closed or session.waits_at is None:
            return None
        return self._dispatch.take(session, follows=follows)

    def _session(self, request: Request, poll: Poll) -> Session:
        """That of who polls. It may never have said hello to this hub, but to the one before."""
        session = self._sessions.get(_agent(request).id)
        if session is None:
            raise Conflict("say hello first", hint="the agent begins again by itself")
        _check_protocol(poll.protocol, oldest=session.protocol)
        return session

    async def _check_facts(self, telling: Telling) -> None:
        """What a captured run left behind must be here before the run may end."""
        manifests = []
        for fact in telling.facts:
            if fact.kind not in _FACTS:
                raise InvalidInput(f"unknown fact {fact.kind!r}")
            if fact.kind == "ended":
                _check_end(fact.body)
            _check_ids(fact.run, fact.attempt)
            manifest = fact.body.get("manifest")
            if manifest is not None:
                if not isinstance(manifest, str) or not is_digest(manifest):
                    raise InvalidInput("not a manifest's digest")
                manifests.append(manifest)
        if manifests and await run_in_threadpool(self._snapshots.absent, manifests):
            raise Conflict("the captured files are not here yet", hint="upload them first")


def _agent(request: Request) -> Agent:
    agent = request.scope["turnout"]
    assert isinstance(agent, Agent)
    return agent


def _check_protocol(theirs: int, *, oldest: int) -> None:
    if not oldest <= theirs <= PROTOCOL:
        raise Conflict(f"this hub speaks protocol {PROTOCOL}, the agent {theirs}", hint="start the agent anew")


def _cut(chunks: list[Chunk], payload: memoryview) -> Iterator[tuple[Chunk, memoryview]]:
    """Each chunk with its bytes; InvalidInput when they do not add up or a name is not one of ours."""
    start = 0
    for chunk in chunks:
        known = chunk.stream == "output" or (chunk.stream.startswith("track/") and len(chunk.stream) < 100)
        _check_ids(chunk.run, chunk.attempt, chunk.offset, chunk.size)
        if not known or start + chunk.size > len(payload):
            raise InvalidInput("malformed chunk")
        yield chunk, payload[start : start + chunk.size]
        start += chunk.size
    if start != len(payload):
        raise InvalidInput("bytes behind the last chunk")


def _check_ids(*numbers: int) -> None:
    if not all(0 <= number < 1 << 63 for number in numbers):
        raise InvalidInput("a number that can be none of ours")


def _check_end(body: dict[str, Any]) -> None:
    numbers = (body.get("exit_code"), body.get("signal"))
    if body.get("cause", Cause.INFRA) not in set(Cause):
        raise InvalidInput(f"unknown cause {body['cause']!r}")
    if not all(number is None or (type(number) is int and abs(number) < 1 << 31) for number in numbers):
        raise InvalidInput("an exit code or signal that is none")


def _parse(adapter: TypeAdapter[Any], body: bytes) -> Any:
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise InvalidInput(f"malformed message: {error.errors()[0]['msg']}") from error


def _json(message: object) -> Response:
    return Response(dump(message), media_type="application/json")


@contextmanager
def _connected(request: Request, on_hang_up: Callable[[], None], news: Listener) -> Iterator[None]:
    """While the request waits for `news`. When who made it hangs up meanwhile, it need not wait any longer."""

    async def watch() -> None:
        await request.receive()  # the body was read: there is nothing else to come
        on_hang_up()
        news.wake()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def _body(request: Request) -> bytes:
    parts = io.BytesIO()
    async for part in request.stream():
        parts.write(part)
        if parts.tell() > _LARGEST_REPORT:
            raise InvalidInput(f"a message may have at most {_LARGEST_REPORT} bytes")
    return parts.getvalue()


async def _digests(request: Request) -> list[str]:
    digests: list[str] = _parse(_DIGESTS, await _body(request))
    if not all(is_digest(digest) for digest in digests):
        raise InvalidInput("not a digest")
    return digests


async def _stream(request: Request) -> AsyncIterator[bytes]:
    async for part in request.stream():
        yield part
