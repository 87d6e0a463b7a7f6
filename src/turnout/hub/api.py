"""The routes of people's tools: CLI, Python client, browser."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout import query
from turnout._version import __version__
from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.submit import Submission, submit
from turnout.errors import InvalidInput, NotFound
from turnout.hub import listing, shares
from turnout.hub.blobs import Blobs, receive_blob, receive_pack, send_pack
from turnout.hub.checking import Checkup, check_blobs
from turnout.hub.listing import cancelled
from turnout.hub.notifier import Notifier
from turnout.hub.snapshots import Snapshots
from turnout.model.spec import JobSpec
from turnout.model.state import LIVE, TERMINAL
from turnout.schedule.explain import Place, Situation, explain
from turnout.spec.check import check
from turnout.store import metrics, naming, overviews, reads, search
from turnout.store.jobs import load_jobs
from turnout.store.queue import live_runs, names_of
from turnout.store.store import Connection, Store
from turnout.wire.manifest import is_digest
from turnout.wire.protocol import PROTOCOL

T = TypeVar("T")
_LONGEST_WAIT = 30.0
_OUTPUT_PIECE = 1 << 20
_LARGEST = (1 << 63) - 1
Wait = Annotated[float, Query(ge=0, le=_LONGEST_WAIT)]
Offset = Annotated[int, Query(ge=0, le=_LARGEST)]


class CancelRequest(BaseModel):
    """Exactly one of them."""

    model_config = ConfigDict(extra="forbid")
    runs: list[str] = Field(default_factory=list, max_length=100_000)
    job: str | None = None
    all: bool = False
    place: str | None = None
    """with `all`: only what was sent to the target, or is on the node, of this name"""


class HubState(BaseModel):
    """What the hub tells about itself; filled by its main program."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    describe: Callable[[], dict[str, Any]]
    stop: Callable[[], None]
    targets: Callable[[], dict[str, dict[str, Any]]]
    place: Callable[[str, int], Place | None]


def make_router(store: Store, dispatch: Dispatch, notifier: Notifier, blobs: Blobs, hub: HubState) -> APIRouter:
    """All routes below ``/api``."""
    router = APIRouter(prefix="/api")
    snapshots = Snapshots(blobs)
    router.include_router(shares.make_router(store, blobs))
    router.include_router(listing.make_router(store, hub.targets))

    async def reading(function: Callable[[Connection], T]) -> T:
        def work() -> T:
            with store.read() as connection:
                return function(connection)

        return await run_in_threadpool(work)

    @router.get("/version")
    async def version() -> dict[str, Any]:
        """What every client asks first, of a hub of any version: these fields stay as they are."""
        return {"version": __version__, "protocol": PROTOCOL, "pid": os.getpid()}

    @router.get("/hub")
    async def hub_status() -> dict[str, Any]:
        live = await reading(lambda connection: len(live_runs(connection)))
        return {**hub.describe(), "live_runs": live}

    @router.post("/hub/stop")
    async def hub_stop() -> dict[str, Any]:
        answer = hub.describe()
        hub.stop()
        return answer

    @router.get("/targets")
    async def list_targets() -> dict[str, dict[str, Any]]:
        return hub.targets()

    @router.get("/blobs/check")
    async def check_kept(deep: bool = False) -> Checkup:
        return await run_in_threadpool(check_blobs, store, blobs, deep=deep)

    @router.post("/blobs/missing")
    async def missing_blobs(digests: list[str]) -> list[str]:
        _check_digests(digests)
        return await run_in_threadpool(blobs.missing, digests)

    @router.post("/blobs")
    async def put_blobs(request: Request) -> dict[str, int]:
        return await receive_pack(blobs, request.stream())

    @router.put("/blobs/{digest}")
    async def put_blob(digest: str, request: Request) -> dict[str, int]:
        _check_digests([digest])
        return await receive_blob(blobs, digest, request.stream())

    @router.post("/blobs/get")
    async def get_blobs(digests: list[str]) -> Response:
        _check_digests(digests)
        absent = await run_in_threadpool(blobs.missing, digests)
        if absent:
            raise NotFound(f"{len(absent)} blobs are not here, {absent[0]} the first")
        return StreamingResponse(send_pack(blobs, digests), media_type="application/octet-stream")

    @router.post("/jobs")
    async def submit_job(
        request: Request, spec: JobSpec, idempotency_key: Annotated[str, Header(min_length=8, max_length=128)]
    ) -> dict[str, Any]:
        check(spec)
        if spec.target not in hub.targets():
            raise NotFound(f"no target {spec.target!r}", hint=f"known targets: {', '.join(sorted(hub.targets()))}")
        inputs = [each.manifest for each in (spec.data, spec.model) if each is not None]
        named = [digest for digest in (spec.before, *inputs) if digest is not None]
        absent = await run_in_threadpool(snapshots.absent, named)
        if absent:
            hint = "submit it again: what is missing is sent then"
            raise InvalidInput("the snapshot, or a file of it, is not here", hint=hint)
        submission = Submission(spec=spec, principal="user", key=idempotency_key, body=await request.body())
        return await asyncio.wrap_future(store.submit(lambda tx: submit(tx, submission)))

    @router.post("/cancel")
    async def cancel(wanted: CancelRequest) -> list[dict[str, Any]]:
        def select(connection: Connection) -> list[int]:
            if wanted.all and wanted.place is not None:
                if wanted.place not in hub.targets() and not overviews.is_node(connection, wanted.place):
                    known = ", ".join(sorted(hub.targets()))
                    raise NotFound(f"no target or node {wanted.place!r}", hint=f"known targets: {known}")
                return overviews.live_runs_at(connection, wanted.place)
            if wanted.all:
                return live_runs(connection)
            if wanted.job is not None:
                return live_runs(connection, job=reads.find_job(connection, wanted.job))
            return naming.resolve(connection, wanted.runs)

        if [bool(wanted.runs), wanted.job is not None, wanted.all].count(True) != 1:
            raise InvalidInput("say what to cancel", hint="cancel run NAME…, cancel job NAME, or cancel all")
        done = await asyncio.wrap_future(dispatch.cancel(await reading(select), by="user"))
        notifier.publish(frozenset(f"agent:{item.agent}" for item in done if item.agent is not None))
        return await reading(lambda connection: cancelled(connection, done))

    @router.post("/release")
    async def release(names: list[str]) -> list[str]:
        """Lets held runs, or those of a job, into the queue, and kept nodes go; the names of what was held or kept."""

        def look(connection: Connection) -> tuple[list[int], set[str]]:
            nodes = {name for name in names if overviews.is_node(connection, name)}
            wanted = naming.resolve(connection, [name for name in names if name not in nodes])
            return wanted, nodes | overviews.kept_nodes(connection, wanted)

        wanted, nodes = await reading(look)
        let_go = {name: await run_in_threadpool(dispatch.let_go, name) for name in sorted(nodes)}
        notifier.publish(frozenset(f"agent:{agent}" for agents in let_go.values() for agent in agents))
        done = await asyncio.wrap_future(store.submit(lambda tx: names_of(tx, steer.release(tx, wanted))))
        return [*(name for name, agents in let_go.items() if agents), *done.values()]

    @router.get("/runs")
    async def list_runs(
        filter: Annotated[list[str], Query()] = [],  # noqa: B006 - FastAPI's way to take a repeated parameter
        sort: str = "",
        limit: Annotated[int, Query(ge=1, le=100_000)] = 100,
        offset: Offset = 0,
    ) -> list[dict[str, Any]]:
        expression = query.parse_all(filter)
        order = query.parse_sort(sort) if sort else None

        def work(connection: Connection) -> list[dict[str, Any]]:
            ids = search.find_runs(connection, expression, order, limit=limit, offset=offset)
            return reads.show_runs(connection, ids, children=True)

        return await reading(work)

    @router.get("/runs/{name}")
    async def show_run(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            run = reads.find_run(connection, name)
            (view,) = reads.show_runs(connection, [run], children=True)
            return {**view, "history": reads.run_attempts(connection, run)}

        return await reading(work)

    @router.get("/runs/{name}/wait")
    async def wait_run(name: str, seconds: Wait = _LONGEST_WAIT) -> dict[str, Any]:
        """The run as soon as it is over, or as it is after `seconds`."""
        run = await reading(lambda connection: reads.find_run(connection, name))

        def look(connection: Connection) -> dict[str, Any]:
            return reads.show_runs(connection, [run], children=True)[0]

        def is_over(view: dict[str, Any]) -> bool:
            return view["state"] in TERMINAL

        return await _until([f"run:{run}"], seconds, lambda: reading(look), is_over)

    @router.get("/runs/{name}/events")
    async def events(name: str) -> list[dict[str, Any]]:
        return await reading(lambda connection: reads.run_events(connection, reads.find_run(connection, name)))

    @router.get("/runs/{name}/metrics")
    async def run_metrics(
        name: str, names: Annotated[list[str] | None, Query()] = None
    ) -> dict[str, list[dict[str, Any]]]:
        def work(connection: Connection) -> dict[str, metrics.Series]:
            return metrics.read(connection, reads.find_run(connection, name), names)

        found = await reading(work)
        return {metric: _points(series) for metric, series in found.items()}

    @router.get("/runs/{name}/output")
    async def output(
        name: str,
        offset: Offset = 0,
        attempt: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        seconds: Wait = 0.0,
        tail: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
    ) -> Response:
        """Output bytes from `offset`, or from where its last `tail` lines begin, up to a megabyte. With `seconds`,
        waits for new ones until the run is over."""
        run = await reading(lambda connection: reads.find_run(connection, name))

        def look(connection: Connection) -> tuple[bytes, int, int, str, int]:
            row = reads.show_runs(connection, [run])[0]
            number = row["attempts"] if attempt is None else attempt
            begin = offset if tail is None else reads.find_tail(connection, run, number, tail)
            content = reads.read_output(connection, run, number, begin, _OUTPUT_PIECE)
            return content, number, row["attempts"], row["state"], begin

        content, number, latest, state, begin = await _until(
            [f"run:{run}", f"output:{run}"],
            seconds,
            lambda: reading(look),
            lambda seen: bool(seen[0]) or seen[3] in TERMINAL or (attempt is not None and seen[2] > attempt > 0),
        )
        told = {"attempt": number, "attempts": latest, "state": state, "offset": begin}
        headers = {f"turnout-{name}": str(value) for name, value in told.items()}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @router.get("/runs/{name}/why")
    async def why(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> tuple[Situation, int]:
            run = reads.find_run(connection, name)
            (view,) = reads.show_runs(connection, [run], children=True)
            ahead = search.waiting_ahead(connection, run)
            job = reads.find_job(connection, view["job"])
            spec = load_jobs(connection, {job})[job].spec
            attempts = reads.run_attempts(connection, run)
            situation = Situation(
                run=view, attempts=attempts, ahead=ahead, need=spec.resources, concurrent=spec.concurrent,
                kept=reads.kept_directory(connection, run, view["attempts"]),
            )  # fmt: skip
            return situation, job

        situation, job = await reading(work)
        place = await run_in_threadpool(hub.place, situation.run["target"], job)
        return {
            "run": situation.run["name"],
            "state": situation.run["state"],
            "why": explain(situation, place),
        }

    @router.get("/runs/{name}/files")
    async def files(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            return search.snapshots_of(connection, reads.find_run(connection, name))

        return await reading(work)

    @router.get("/jobs")
    async def list_jobs(
        limit: Annotated[int, Query(ge=1, le=100_000)] = 100, offset: Offset = 0
    ) -> list[dict[str, Any]]:
        def work(connection: Connection) -> list[dict[str, Any]]:
            return reads.show_jobs(connection, search.newest_jobs(connection, limit=limit, offset=offset))

        return await reading(work)

    @router.get("/jobs/{name}")
    async def show_job(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            return reads.show_jobs(connection, [reads.find_job(connection, name)])[0]

        return await reading(work)

    @router.get("/jobs/{name}/wait")
    async def wait_job(name: str, seconds: Wait = _LONGEST_WAIT) -> dict[str, Any]:
        """The job as soon as all its runs are over, or as it is after `seconds`."""

        def look(connection: Connection) -> dict[str, Any]:
            return reads.show_jobs(connection, [reads.find_job(connection, name)])[0]

        def is_over(view: dict[str, Any]) -> bool:
            return not any(view["counts"].get(state) for state in LIVE)

        return await _until(["jobs"], seconds, lambda: reading(look), is_over)

    async def _until(
        topics: list[str], seconds: float, look: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool]
    ) -> T:
        """Looks until it is enough or time is over: when told of news, but never for more than a tenth of the time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        with notifier.listen(topics) as news:
            while True:
                began = loop.time()
                seen = await look()
                next_look = began + 10 * (loop.time() - began)
                if is_enough(seen) or not await news.wait(deadline - loop.time()):
                    return seen
                await asyncio.sleep(max(0.0, next_look - loop.time()))

    return router


def _check_digests(digests: list[str]) -> None:
    if not all(is_digest(digest) for digest in digests):
        raise InvalidInput("not a digest", hint="64 lower-case hexadecimal digits")


def _points(series: metrics.Series) -> list[dict[str, Any]]:
    return [
        {"step": step, "time": reads.moment(time), "value": value if math.isfinite(value) else json.dumps(value)}
        for step, time, value in zip(series.steps, series.times, series.values, strict=True)
    ]
