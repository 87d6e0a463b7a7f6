"""The routes that list: runs and jobs chosen by names and filters, experiments, workspaces, nodes; and tags."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from turnout import query
from turnout.engine.steer import Cancelled
from turnout.engine.tagging import Tagged, clear_tags, set_tags
from turnout.errors import InvalidInput
from turnout.hub.reading import Key, reading
from turnout.model.ids import check_tag_key
from turnout.query.names import JobRange, Pattern, parse_name
from turnout.store import job_search, naming, overviews, reads, search
from turnout.store.requests import once
from turnout.store.store import Connection, Store
from turnout.store.writer import Tx

T = TypeVar("T")
View = dict[str, Any]
_MOST = 100_000


class Wanted(BaseModel):
    """Which rows: those of these names that fit all filters, in this order; `limit` of them, from the end if so."""

    model_config = ConfigDict(extra="forbid")
    names: list[str] = Field(default_factory=list, max_length=naming.MOST_NAMES)
    filters: list[str] = Field(default_factory=list)
    sort: str = ""
    reverse: bool = False
    limit: int = Field(default=100, ge=1, le=_MOST)
    offset: int = Field(default=0, ge=0, le=(1 << 62))
    from_end: bool = False

    def order(self, table: query.Table) -> query.Sort | None:
        """`reverse` turns the direction round; of no sort at all, newest first becomes oldest first."""
        if not self.sort:
            return query.Sort("created") if self.reverse else None
        order = query.parse_sort(self.sort, table)
        return replace(order, descending=order.descending != self.reverse)


class Tags(BaseModel):
    model_config = ConfigDict(extra="forbid")
    names: list[str] = Field(min_length=1, max_length=naming.MOST_NAMES)
    set: dict[str, str] = Field(default_factory=dict)
    clear: list[str] = Field(default_factory=list, max_length=1000)


def make_router(
    store: Store, targets: Callable[[], Mapping[str, View]], free_gpus: Callable[[], Mapping[int, int]]
) -> APIRouter:
    router = APIRouter()

    @router.post("/runs/find")
    async def find_runs(wanted: Wanted) -> list[View]:
        return await reading(store, lambda connection: _find_runs(connection, wanted))

    @router.post("/runs/names")
    async def run_names(names: list[str]) -> list[str]:
        """The runs that these names mean, by name; of a step, those that count."""

        def work(connection: Connection) -> list[str]:
            return [
                view["name"] for view in reads.show_runs(connection, naming.resolve(connection, names, standing=True))
            ]

        return await reading(store, work)

    @router.post("/jobs/find")
    async def find_jobs(wanted: Wanted) -> list[View]:
        return await reading(store, lambda connection: _find_jobs(connection, wanted))

    @router.get("/experiments")
    async def list_experiments() -> list[View]:
        return await reading(store, overviews.experiments)

    @router.get("/workspaces")
    async def list_workspaces() -> list[View]:
        return await reading(store, overviews.workspaces)

    @router.get("/nodes")
    async def list_nodes(gone: bool = False, limit: Annotated[int, Query(ge=1, le=_MOST)] = 1000) -> list[View]:
        found = await reading(store, lambda connection: overviews.nodes(connection, gone=gone, limit=limit))
        free = free_gpus()
        return [{**view, "free_gpus": free.get(view["agent"])} for view in found]

    @router.get("/queues")
    async def list_queues() -> list[View]:
        """The targets, with how many runs each has."""
        counts = await reading(store, overviews.queues)
        none = {"waiting": 0, "running": 0}
        return [
            {"name": name, "service": told.get("provider"), "max_runs": told.get("max_runs"),
             "nodes": told.get("agents"), **counts.get(name, none), "trouble": told.get("trouble") or None}
            for name, told in sorted(targets().items())
        ]  # fmt: skip

    @router.get("/columns")
    async def recorded_names() -> dict[str, list[str]]:
        return await reading(store, overviews.recorded_names)

    @router.post("/tags")
    async def tag(wanted: Tags, idempotency_key: Key = None) -> View:
        if bool(wanted.set) == bool(wanted.clear):
            raise InvalidInput("say what to set, or what to clear", hint="turnout set tags RUN key=value")
        for name in (*wanted.set, *wanted.clear):
            check_tag_key(name)
        meant = await reading(store, lambda connection: _meant(connection, wanted.names))

        def work(tx: Tx) -> View:
            def change() -> View:
                runs = set_tags(tx, meant, wanted.set) if wanted.set else clear_tags(tx, meant, wanted.clear)
                return {"runs": runs, "jobs": [f"job{job}" for job in meant.jobs]}

            return once(tx, idempotency_key, f"tags {wanted.model_dump_json()}", change)

        return await asyncio.wrap_future(store.submit(work))

    return router


def cancelled(connection: Connection, done: Sequence[Cancelled]) -> list[View]:
    """What was cancelled, in XT's words, and in ours."""
    homes = reads.homes_of(connection, [item.run for item in done])
    return [
        {"run": item.name, "outcome": item.outcome, "workspace": homes[item.run][0], "run_name": item.name,
         "exper_name": homes[item.run][1], "killed": item.outcome != "over", "status": str(item.state),
         "before_status": str(item.before)}
        for item in done
        if item.run in homes
    ]  # fmt: skip


def _find_runs(connection: Connection, wanted: Wanted) -> list[View]:
    ids = search.find_runs(
        connection, query.parse_all(wanted.filters), wanted.order(query.RUNS), limit=wanted.limit,
        offset=wanted.offset, within=naming.chosen(connection, wanted.names), from_end=wanted.from_end,
    )  # fmt: skip
    return reads.show_runs(connection, ids, children=True)


def _find_jobs(connection: Connection, wanted: Wanted) -> list[View]:
    jobs = naming.resolve_jobs(connection, wanted.names) if wanted.names else None
    choice = job_search.Wanted(
        jobs=jobs, expression=query.parse_all(wanted.filters, query.JOBS), order=wanted.order(query.JOBS),
        limit=wanted.limit, offset=wanted.offset, from_end=wanted.from_end,
    )  # fmt: skip
    return reads.show_jobs(connection, job_search.find_jobs(connection, choice, datetime.now(UTC)))


def _meant(connection: Connection, names: Sequence[str]) -> Tagged:
    def is_job(name: str) -> bool:
        parsed = parse_name(name)
        return isinstance(parsed, JobRange) or (isinstance(parsed, Pattern) and name.startswith("job"))

    jobs = naming.resolve_jobs(connection, [name for name in names if is_job(name)])
    runs = naming.resolve(connection, [*(name for name in names if not is_job(name)), *(f"job{job}" for job in jobs)])
    return Tagged(runs, jobs)
