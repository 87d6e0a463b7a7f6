"""The routes that look at runs and jobs: how they are, what they did and printed, and waiting for them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query
from fastapi.responses import Response

from turnout import query
from turnout.hub.notifier import Notifier
from turnout.hub.reading import reading
from turnout.model.state import TERMINAL
from turnout.store import metrics, pipelines, reads, search
from turnout.store.native import native_of, native_of_job
from turnout.store.store import Connection, Store

T = TypeVar("T")
_LONGEST_WAIT = 30.0
_OUTPUT_PIECE = 1 << 20
_LARGEST = (1 << 63) - 1
Wait = Annotated[float, Query(ge=0, le=_LONGEST_WAIT)]
Offset = Annotated[int, Query(ge=0, le=_LARGEST)]


def make_router(store: Store, notifier: Notifier) -> APIRouter:
    router = APIRouter()
    _add_runs(router, store)
    _add_waiting(router, store, notifier)
    _add_jobs(router, store)
    return router


def _add_runs(router: APIRouter, store: Store) -> None:
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

        return await reading(store, work)

    @router.get("/runs/{name}")
    async def show_run(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            run = reads.find_run(connection, name)
            (view,) = reads.show_runs(connection, [run], children=True)
            return {**view, **native_of(connection, [run])[run], "history": reads.run_attempts(connection, run)}

        return await reading(store, work)

    @router.get("/runs/{name}/events")
    async def events(name: str) -> list[dict[str, Any]]:
        return await reading(store, lambda connection: reads.run_events(connection, reads.find_run(connection, name)))

    @router.get("/runs/{name}/metrics")
    async def run_metrics(
        name: str, names: Annotated[list[str] | None, Query()] = None
    ) -> dict[str, list[dict[str, Any]]]:
        def work(connection: Connection) -> dict[str, metrics.Series]:
            return metrics.read(connection, reads.find_run(connection, name), names)

        found = await reading(store, work)
        return {metric: _points(series) for metric, series in found.items()}

    @router.get("/runs/{name}/files")
    async def files(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            return search.snapshots_of(connection, reads.find_run(connection, name))

        return await reading(store, work)


def _add_jobs(router: APIRouter, store: Store) -> None:
    @router.get("/jobs")
    async def list_jobs(
        limit: Annotated[int, Query(ge=1, le=100_000)] = 100, offset: Offset = 0
    ) -> list[dict[str, Any]]:
        def work(connection: Connection) -> list[dict[str, Any]]:
            return reads.show_jobs(connection, search.newest_jobs(connection, limit=limit, offset=offset))

        return await reading(store, work)

    @router.get("/jobs/{name}")
    async def show_job(name: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            job = reads.find_job(connection, name)
            return {**reads.show_jobs(connection, [job])[0], **native_of_job(connection, job)}

        return await reading(store, work)

    @router.get("/jobs/{name}/events")
    async def job_events(name: str) -> list[dict[str, Any]]:
        return await reading(store, lambda connection: reads.job_events(connection, reads.find_job(connection, name)))


def _add_waiting(router: APIRouter, store: Store, notifier: Notifier) -> None:
    """Those that may answer later: when there is news."""

    @router.get("/runs/{name}/wait")
    async def wait_run(name: str, seconds: Wait = _LONGEST_WAIT) -> dict[str, Any]:
        """The run as soon as it is over, or as it is after `seconds`."""
        run = await reading(store, lambda connection: reads.find_run(connection, name))

        def look(connection: Connection) -> dict[str, Any]:
            return reads.show_runs(connection, [run], children=True)[0]

        def is_over(view: dict[str, Any]) -> bool:
            return view["state"] in TERMINAL

        return await _until(notifier, [f"run:{run}"], seconds, lambda: reading(store, look), is_over)

    @router.get("/jobs/{name}/wait")
    async def wait_job(name: str, seconds: Wait = _LONGEST_WAIT) -> dict[str, Any]:
        """The job as soon as all its runs are over, or as it is after `seconds`."""

        job = await reading(store, lambda connection: reads.find_job(connection, name))

        def look(connection: Connection) -> dict[str, Any]:
            return reads.show_jobs(connection, [job])[0]

        def glance(connection: Connection) -> dict[str, Any] | None:
            """None: a pipeline is under way; to show all of it takes much longer than to see that."""
            return None if pipelines.is_open(connection, job) else look(connection)

        def is_over(view: dict[str, Any] | None) -> bool:
            return view is not None and view["state"] in TERMINAL

        seen = await _until(notifier, ["jobs"], seconds, lambda: reading(store, glance), is_over)
        return seen if seen is not None else await reading(store, look)

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
        run = await reading(store, lambda connection: reads.find_run(connection, name))

        def look(connection: Connection) -> tuple[bytes, int, int, str, int]:
            row = reads.show_runs(connection, [run])[0]
            number = row["attempts"] if attempt is None else attempt
            begin = offset if tail is None else reads.find_tail(connection, run, number, tail)
            content = reads.read_output(connection, run, number, begin, _OUTPUT_PIECE)
            return content, number, row["attempts"], row["state"], begin

        content, number, latest, state, begin = await _until(
            notifier,
            [f"run:{run}", f"output:{run}"],
            seconds,
            lambda: reading(store, look),
            lambda seen: bool(seen[0]) or seen[3] in TERMINAL or (attempt is not None and seen[2] > attempt > 0),
        )
        told = {"attempt": number, "attempts": latest, "state": state, "offset": begin}
        headers = {f"turnout-{name}": str(value) for name, value in told.items()}
        return Response(content, media_type="application/octet-stream", headers=headers)


async def _until(
    notifier: Notifier,
    topics: list[str],
    seconds: float,
    look: Callable[[], Awaitable[T]],
    is_enough: Callable[[T], bool],
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


def _points(series: metrics.Series) -> list[dict[str, Any]]:
    return [
        {"step": step, "time": reads.moment(time), "value": value if math.isfinite(value) else json.dumps(value)}
        for step, time, value in zip(series.steps, series.times, series.values, strict=True)
    ]
