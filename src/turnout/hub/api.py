"""The routes of people's tools: CLI, Python client, browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout._version import __version__
from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.making import Makers
from turnout.engine.resuming import resume
from turnout.engine.study import check_search
from turnout.engine.submit import PipelineSubmission, Submission, submit, submit_pipeline
from turnout.errors import InvalidInput, NotFound
from turnout.hub import listing, looking, shares
from turnout.hub.adjusting import Adjusting
from turnout.hub.blobs import Blobs, receive_blob, receive_pack, send_pack
from turnout.hub.checking import Checkup, check_blobs
from turnout.hub.foreign import Cancels, There, with_records
from turnout.hub.listing import cancelled
from turnout.hub.notifier import Notifier
from turnout.hub.reading import Key, Streamed, reading
from turnout.hub.snapshots import Snapshots
from turnout.model.ids import target_of
from turnout.model.pipeline import PipelineSpec
from turnout.model.search import Search
from turnout.model.spec import JobSpec
from turnout.pipeline.languages import late_from
from turnout.spec.check import check
from turnout.spec.pipelines import check_pipeline, jobs_of
from turnout.store import naming, overviews, reads
from turnout.store.queue import live_runs, names_of
from turnout.store.requests import once
from turnout.store.store import Connection, Store
from turnout.store.writer import Tx
from turnout.wire.manifest import is_digest
from turnout.wire.protocol import PROTOCOL


class CancelRequest(BaseModel):
    """Exactly one of them."""

    model_config = ConfigDict(extra="forbid")
    runs: list[str] = Field(default_factory=list, max_length=100_000)
    job: str | None = None
    all: bool = False
    place: str | None = None
    """with `all`: only what was sent to the target, or is on the node, of this name"""
    stopped: str | None = Field(default=None, max_length=1000)
    """why they are stopped early, instead of cancelled"""


class HubState(BaseModel):
    """What the hub tells about itself; filled by its main program."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    describe: Callable[[], dict[str, Any]]
    stop: Callable[[], None]
    targets: Callable[[], dict[str, dict[str, Any]]]
    places: Callable[[], Collection[str]]
    adjusting: Adjusting
    makers: Makers
    cancels: Cancels


def make_router(store: Store, dispatch: Dispatch, notifier: Notifier, blobs: Blobs, hub: HubState) -> APIRouter:
    """All routes below ``/api``."""
    router = APIRouter(prefix="/api")
    snapshots = Snapshots(blobs)
    router.include_router(shares.make_router(store, blobs))
    router.include_router(listing.make_router(store, hub.targets, dispatch.free_gpus))
    router.include_router(looking.make_router(store, notifier))

    @router.get("/version")
    async def version() -> dict[str, Any]:
        """What every client asks first, of a hub of any version: these fields stay as they are."""
        return {"version": __version__, "protocol": PROTOCOL, "pid": os.getpid()}

    @router.get("/hub")
    async def hub_status() -> dict[str, Any]:
        live = await reading(store, lambda connection: len(live_runs(connection)))
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
            raise NotFound(f"{len(absent)} blobs are not here, {absent[0]} the first", hint="see `turnout doctor`")
        return Streamed(send_pack(blobs, digests), "application/octet-stream")

    @router.post("/jobs")
    async def submit_job(
        request: Request, spec: JobSpec, idempotency_key: Annotated[str, Header(min_length=8, max_length=128)]
    ) -> dict[str, Any]:
        await examine(spec)
        adjusted = await run_in_threadpool(hub.adjusting.adjust, spec, principal="user", key=idempotency_key)
        submission = Submission(
            spec=adjusted.spec, principal="user", key=idempotency_key, body=await request.body(),
            numbers=adjusted.numbers,
        )  # fmt: skip
        return await asyncio.wrap_future(store.submit(lambda tx: submit(tx, submission)))

    @router.post("/pipelines")
    async def submit_steps(
        request: Request, spec: PipelineSpec, idempotency_key: Annotated[str, Header(min_length=8, max_length=128)]
    ) -> dict[str, Any]:
        await run_in_threadpool(_check_steps, spec)
        await find(spec.job)
        for job in jobs_of(spec):
            await examine(job)
        spec = await run_in_threadpool(hub.adjusting.adjust_steps, spec)
        submission = PipelineSubmission(spec=spec, principal="user", key=idempotency_key, body=await request.body())
        return await asyncio.wrap_future(store.submit(lambda tx: submit_pipeline(tx, submission)))

    @router.post("/jobs/{name}/resume")
    async def resume_pipeline(name: str, idempotency_key: Key = None) -> dict[str, Any]:
        job = await reading(store, lambda connection: reads.find_job(connection, name))

        def work(tx: Tx) -> dict[str, Any]:
            return once(tx, idempotency_key, f"resume {job}", lambda: resume(tx, job))

        return await asyncio.wrap_future(store.submit(work))

    async def examine(spec: JobSpec) -> None:
        """Whether it is sound, and what it names is here."""
        check(spec)
        await find(spec)
        if spec.search is not None:
            await run_in_threadpool(check_search, spec.search, spec.before, hub.makers)

    async def find(spec: JobSpec) -> None:
        """What it names is here."""
        if spec.where not in hub.places():
            known = ", ".join(sorted({target_of(place) for place in hub.places()}))
            raise NotFound(f"no target {spec.target!r}", hint=f"known targets: {known}")
        for each in spec.also:
            if each.where not in hub.places():
                raise NotFound(f"no target {each.target!r}", hint="`turnout list targets` shows what there is")
        inputs = [each.manifest for each in (spec.data, spec.model) if each is not None]
        named = [digest for digest in (spec.before, *inputs) if digest is not None]
        absent = await run_in_threadpool(snapshots.absent, named)
        if absent:
            hint = "submit it again: what is missing is sent then"
            raise InvalidInput("the snapshot, or a file of it, is not here", hint=hint)

    @router.post("/searches/check")
    async def check_one_search(search: Search) -> dict[str, Any]:
        await run_in_threadpool(check_search, search, None, hub.makers)
        return {}

    @router.post("/cancel")
    async def cancel(wanted: CancelRequest) -> list[dict[str, Any]]:
        def select(connection: Connection) -> list[int]:
            if wanted.all and wanted.place is not None:
                targets = {target_of(place) for place in hub.places()}
                if wanted.place not in targets and not overviews.is_node(connection, wanted.place):
                    known = ", ".join(sorted(targets))
                    raise NotFound(f"no target or node {wanted.place!r}", hint=f"known targets: {known}")
                return overviews.live_runs_at(connection, wanted.place)
            if wanted.all:
                return live_runs(connection)
            if wanted.job is not None:
                return live_runs(connection, job=reads.find_job(connection, wanted.job))
            return naming.resolve(connection, wanted.runs)

        if [bool(wanted.runs), wanted.job is not None, wanted.all].count(True) != 1:
            raise InvalidInput("say what to cancel", hint="cancel run NAME…, cancel job NAME, or cancel all")
        runs = await reading(store, select)
        job = await reading(store, lambda connection: wanted.job and reads.find_job(connection, wanted.job))
        # What is stopped early is told to its service as such, by who looks after it there.
        there = await run_in_threadpool(hub.cancels.there, runs) if wanted.stopped is None else {}
        done = await asyncio.wrap_future(
            dispatch.cancel(
                runs, by="user", stopped=wanted.stopped, job=job or None,
                everything=wanted.all and wanted.place is None,
            )
        )  # fmt: skip
        notifier.publish(frozenset(f"agent:{item.agent}" for item in done if item.agent is not None))
        # Second: what ends because its service ended it must be known as cancelled by then.
        records = (
            await run_in_threadpool(_cancel_elsewhere, hub.cancels, wanted, there) if wanted.stopped is None else []
        )
        return with_records(await reading(store, lambda connection: cancelled(connection, done)), records)

    @router.post("/release")
    async def release(names: list[str], idempotency_key: Key = None) -> list[str]:
        """Lets held runs, or those of a job, into the queue, and kept nodes go; the names of what was held or kept."""

        def look(connection: Connection) -> tuple[list[int], set[str]]:
            nodes = {name for name in names if overviews.is_node(connection, name)}
            wanted = naming.resolve(connection, [name for name in names if name not in nodes])
            return wanted, nodes | overviews.kept_nodes(connection, wanted)

        wanted, nodes = await reading(store, look)
        let_go = {name: await run_in_threadpool(dispatch.let_go, name) for name in sorted(nodes)}
        notifier.publish(frozenset(f"agent:{agent}" for agents in let_go.values() for agent in agents))
        gone = [name for name, agents in let_go.items() if agents]

        def work(tx: Tx) -> dict[str, Any]:
            def let_in() -> dict[str, Any]:
                return {"names": [*gone, *names_of(tx, steer.release(tx, wanted)).values()]}

            return once(tx, idempotency_key, f"release {names}", let_in)

        return list((await asyncio.wrap_future(store.submit(work)))["names"])

    return router


def _cancel_elsewhere(cancels: Cancels, wanted: CancelRequest, there: There) -> list[dict[str, Any]]:
    if wanted.stopped is not None:
        return []
    if wanted.job is not None:
        return cancels.job(there)
    return cancels.user(there, wanted.place) if wanted.all else cancels.runs(there)


def _check_steps(spec: PipelineSpec) -> None:
    check_pipeline(spec)
    for step in spec.steps:
        if step.late is not None:
            late_from(step.late)


def _check_digests(digests: list[str]) -> None:
    if not all(is_digest(digest) for digest in digests):
        raise InvalidInput("not a digest", hint="64 lower-case hexadecimal digits")
