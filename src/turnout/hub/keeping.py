"""The routes for what is kept: deleting it, giving its room back, submitting it again."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout.errors import InvalidInput
from turnout.hub.reading import Key
from turnout.hub.sweeping import Sweeper
from turnout.model.ids import job_name
from turnout.store import deletion
from turnout.store.agents import live_agents
from turnout.store.requests import once
from turnout.store.respec import respecify
from turnout.store.store import Store
from turnout.store.writer import Tx

"""Of a request that may be repeated because its answer got lost: the same key gets the same answer, and nothing more is
done."""

_WEEK = 7 * 86400.0


class DeleteRequest(BaseModel):
    """Exactly one of runs, jobs, experiment and workspace; a workspace beside an experiment tells which."""

    model_config = ConfigDict(extra="forbid")
    runs: list[str] = Field(default_factory=list, max_length=100_000)
    jobs: list[str] = Field(default_factory=list, max_length=100_000)
    experiment: str | None = None
    workspace: str | None = None
    dry_run: bool = False


def make_router(store: Store, sweeper: Sweeper, nodes: Path) -> APIRouter:
    router = APIRouter()

    @router.post("/delete")
    async def delete(request: DeleteRequest, idempotency_key: Key = None) -> dict[str, Any]:
        """What went, or would go. Blobs stay until the next sweep."""
        named = [bool(request.runs), bool(request.jobs), bool(request.experiment or request.workspace)]
        if named.count(True) != 1:
            hint = "delete run NAME…, job NAME, experiment NAME or workspace NAME"
            raise InvalidInput("say what to delete", hint=hint)
        wanted = deletion.Wanted(
            runs=request.runs, jobs=request.jobs, experiment=request.experiment, workspace=request.workspace
        )

        def look() -> dict[str, Any]:
            with store.read() as connection:
                return _told(deletion.find(connection, wanted), deleted=False)

        def work(tx: Tx) -> dict[str, Any]:
            what = f"delete {request.model_dump_json()}"
            return once(tx, idempotency_key, what, lambda: _told(deletion.delete(tx, wanted), deleted=True))

        return await (run_in_threadpool(look) if request.dry_run else asyncio.wrap_future(store.submit(work)))

    @router.post("/gc")
    async def collect(dry_run: bool = False) -> dict[str, Any]:
        return await run_in_threadpool(_collect, store, sweeper, nodes, dry_run=dry_run)

    @router.get("/runs/{name}/spec")
    async def spec(name: str) -> dict[str, Any]:
        """What was submitted, as one run of it would be submitted again; names of variables, never their values."""

        def work() -> dict[str, Any]:
            with store.read() as connection:
                found = respecify(connection, name)
            return {"run": found.run, "env_names": found.env_names, "spec": dataclasses.asdict(found.spec)}

        return await run_in_threadpool(work)

    return router


def _told(doomed: deletion.Doomed, *, deleted: bool) -> dict[str, Any]:
    return {"deleted": deleted, "runs": doomed.count, "jobs": [job_name(job) for job in doomed.jobs]}


def _collect(store: Store, sweeper: Sweeper, nodes: Path, *, dry_run: bool) -> dict[str, Any]:
    found = sweeper.collect(dry_run=dry_run)
    with store.read() as connection:
        live = {agent.id for agent in live_agents(connection)}
    old = old_nodes(nodes, live, time.time())
    freed = sum(map(_size, old))
    for directory in () if dry_run else old:
        shutil.rmtree(directory, ignore_errors=True)
    tidied = store.tidy(dry_run=dry_run)
    return {
        "dry_run": dry_run, "blobs": dataclasses.asdict(found.removed), "later": dataclasses.asdict(found.later),
        "nodes": {"directories": len(old), "bytes": freed},
        "database": {"bytes": tidied.bytes, "freed": tidied.freed},
    }  # fmt: skip


def old_nodes(nodes: Path, live: set[int], now: float) -> list[Path]:
    """Directories of agents that are gone, hold nothing of a run, and were not written to for a week."""
    found = []
    for directory in sorted(nodes.iterdir()) if nodes.is_dir() else ():
        if not directory.name.isdecimal() or int(directory.name) in live or directory.is_symlink():
            continue
        try:
            has_runs = any(os.scandir(directory / "runs")) if (directory / "runs").is_dir() else False
            newest = max(path.stat().st_mtime for path in (directory, *directory.iterdir()))
        except OSError:
            continue
        if not has_runs and now - newest > _WEEK:
            found.append(directory)
    return found


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())
