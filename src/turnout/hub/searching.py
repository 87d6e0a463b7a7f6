"""The routes of searches: how one stands, and changing what it may use."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from turnout.engine.changing import Change, change
from turnout.hub.reading import Key, reading
from turnout.store import search_views
from turnout.store.reads import find_job
from turnout.store.requests import once
from turnout.store.store import Store
from turnout.store.writer import Tx


class ChangeRequest(BaseModel):
    """What is not given stays. `runs` and `seconds` are in all; with `more`, on top of what it has."""

    model_config = ConfigDict(extra="forbid")
    action: Literal["pause", "resume"] | None = None
    runs: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    more: bool = False
    concurrent: int | None = Field(default=None, ge=0, le=100_000)


def make_router(store: Store) -> APIRouter:
    router = APIRouter()

    @router.get("/jobs/{name}/search")
    async def show(name: str) -> dict[str, Any]:
        return await reading(store, lambda connection: search_views.show(connection, find_job(connection, name)))

    @router.get("/jobs/{name}/search/tried")
    async def tried(name: str) -> list[dict[str, Any]]:
        return await reading(store, lambda connection: search_views.tried(connection, find_job(connection, name)))

    @router.get("/jobs/{name}/search/best")
    async def best(name: str, most: Annotated[int, Query(ge=1, le=1000)] = 1) -> list[dict[str, Any]]:
        return await reading(store, lambda connection: search_views.best(connection, find_job(connection, name), most))

    @router.post("/jobs/{name}/search")
    async def change_search(name: str, wanted: ChangeRequest, idempotency_key: Key = None) -> dict[str, Any]:
        asked = Change(**wanted.model_dump())

        def work(tx: Tx) -> dict[str, Any]:
            job = find_job(tx.connection, name)
            body = f"search {name} {wanted.model_dump_json()}"
            return once(tx, idempotency_key, body, lambda: change(tx, job, asked))

        await asyncio.wrap_future(store.submit(work))
        return await show(name)

    return router
