"""The route by which results from elsewhere come into a search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.hub.reading import Key, reading
from turnout.model.ids import job_name
from turnout.model.search import Search
from turnout.search.spaces import from_plain
from turnout.search.spaces.containing import objection
from turnout.store import searches
from turnout.store.jobs import load_jobs
from turnout.store.reads import find_job
from turnout.store.requests import once
from turnout.store.store import Connection, Store
from turnout.store.writer import Tx

_MOST_ROWS = 100_000
Number = Annotated[float, Field(allow_inf_nan=False)]


class Row(BaseModel):
    """Parameters as the search has them, and a value for each of its objectives."""

    model_config = ConfigDict(extra="forbid")
    params: dict[str, Any]
    metrics: dict[str, Number]


class ResultsRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rows: list[Row] = Field(min_length=1, max_length=_MOST_ROWS)


def make_router(store: Store) -> APIRouter:
    router = APIRouter()

    @router.post("/jobs/{name}/search/results")
    async def add(name: str, given: ResultsRequest, idempotency_key: Key = None) -> dict[str, Any]:
        """All of them, or none. What was brought in before is not brought in again."""
        job, search = await reading(store, lambda connection: _find(connection, name))
        rows = await run_in_threadpool(_checked, search, given.rows)
        body = f"results {name} {json.dumps(list(rows))}"

        def work(tx: Tx) -> dict[str, Any]:
            return once(tx, idempotency_key, body, lambda: _add(tx, job, search, rows, len(given.rows)))

        return await asyncio.wrap_future(store.submit(work))

    return router


def _find(connection: Connection, name: str) -> tuple[int, Search]:
    job = find_job(connection, name)
    search = load_jobs(connection, {job})[job].spec.search
    if search is None:
        raise Conflict(f"{job_name(job)} is no search", hint="`turnout list jobs` shows what there is")
    if not search.aims:
        raise Conflict(f"{job_name(job)} has no objective: results say nothing to it", hint="`turnout show` tells")
    return job, search


def _add(tx: Tx, job: int, search: Search, rows: Mapping[str, Row], given: int) -> dict[str, Any]:
    if searches.standing(tx.connection, job, lock=True) is None:
        raise NotFound(f"no job {job_name(job)!r}", hint="it was deleted just now")
    known = {_key(each.params, each.result or {}) for each in searches.imported(tx.connection, job, 1)}
    added = [(row.params, row.metrics) for key, row in rows.items() if key not in known]
    searches.add_results(tx, job, added, search.aims[0].metric)
    return {"job": job_name(job), "added": len(added), "known": given - len(added)}


def _checked(search: Search, rows: Sequence[Row]) -> dict[str, Row]:
    """By what makes them the same; InvalidInput for what does not fit the search."""
    space = from_plain(search.space)
    metrics = {aim.metric for aim in search.aims}
    for number, row in enumerate(rows, 1):
        why = objection(space, row.params)
        if row.metrics.keys() != metrics:
            why = f"its metrics are {', '.join(row.metrics) or 'none'}, not {', '.join(sorted(metrics))}"
        if why:
            raise InvalidInput(f"result {number}: {why}", hint="nothing was imported")
    return {_key(row.params, row.metrics): row for row in rows}


def _key(params: Mapping[str, object], result: Mapping[str, object]) -> str:
    return json.dumps([params, result], sort_keys=True)
