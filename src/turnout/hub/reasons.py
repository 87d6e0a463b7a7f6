"""``why`` of runs, of jobs and of nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from turnout import query
from turnout.engine.sessions import Sessions
from turnout.errors import NotFound
from turnout.model.event import EventName
from turnout.model.ids import is_job_name, job_name, parse_run_name
from turnout.model.pipeline import FAIL_FAST
from turnout.model.state import TERMINAL, RunState
from turnout.schedule.explain import Place, Situation, explain, explain_next
from turnout.schedule.seeking import explain_search
from turnout.schedule.summary import explain_job, explain_node, explain_steps
from turnout.store import pipelines, reads, search, search_runs, search_views, searches
from turnout.store.groups import groups_of
from turnout.store.jobs import load_jobs
from turnout.store.store import Connection, Store


def make_router(store: Store, sessions: Sessions, place: Callable[[str, int], Place | None]) -> APIRouter:
    router = APIRouter()

    def look_at_run(name: str) -> dict[str, Any]:
        """Of a step that has several runs, and is called so, all of it."""
        with store.read() as connection:
            if (meant := _job_meant(connection, name)) is not None:
                return look_at_job(meant)
            found = _situation(connection, name)
        view = found.situation.run
        return {"run": view["name"], "state": view["state"], "why": explain(found.situation, place(*found.where))}

    def look_at_job(name: str) -> dict[str, Any]:
        with store.read() as connection:
            job = reads.find_job(connection, name)
            (view,) = reads.show_jobs(connection, [job])
            if (needs := pipelines.unmade_needs(connection, job)) is not None:
                return {"job": view["name"], "state": view["state"], "why": _explain_unmade(view, needs)}
            found = groups_of(connection, job)
            first = next((group["names"][0] for group in found if group["state"] == "queued"), None)
            spec = load_jobs(connection, {job})[job].spec
            queued = _situation(connection, first) if first is not None else None
            is_sought = spec.search is not None and not search_runs.parents(connection, job).is_held
            shown = search_views.show(connection, job) if is_sought else None
        waiting = explain(queued.situation, place(*queued.where)) if queued is not None else []
        steps = explain_steps(view) if view["steps"] else []
        searched = explain_search(shown) if shown is not None else []
        if queued is None and shown is not None:  # its parents are at work, and one that is not made has no name
            coming = Situation(
                run={"target": spec.target}, attempts=[], ahead=None, need=spec.resources, concurrent=spec.concurrent,
                search=shown,
            )  # fmt: skip
            searched += explain_next(coming, place(spec.where, job))
        if waiting[:1] == searched[:1]:  # its parent waits because it is paused
            waiting = []
        return {
            "job": view["name"],
            "state": view["state"],
            "why": [*searched, *steps, *explain_job(view, found, waiting)],
        }

    def look_at_node(name: str) -> dict[str, Any]:
        now = time.monotonic()
        here = [session for session in sessions.all() if session.node == name]
        with store.read() as connection:
            found = query.parse_all([f"node = '{name}'"])
            runs = reads.show_runs(connection, search.find_runs(connection, found, None, limit=200, offset=0))
        if not here and not runs:
            raise NotFound(f"no node {name!r}", hint="`turnout hub status` and `turnout status` show nodes")
        if not here:
            return {"node": name, "state": "gone", "why": ["No agent is there now.", *explain_node_past(name, runs)]}
        is_silent = any(sessions.is_silent(session.agent, now) for session in here)
        most = sum(session.max_runs for session in here)
        is_kept = any(session.kept for session in here)
        lines = explain_node(name, runs, is_silent=is_silent, is_kept=is_kept, max_runs=most)
        state = "silent" if is_silent else "kept" if is_kept else "up"
        return {"node": name, "state": state, "why": lines}

    @router.get("/runs/{name}/why")
    async def why_run(name: str) -> dict[str, Any]:
        return await run_in_threadpool(look_at_run, name)

    @router.get("/jobs/{name}/why")
    async def why_job(name: str) -> dict[str, Any]:
        return await run_in_threadpool(look_at_job, name)

    @router.get("/nodes/{name}/why")
    async def why_node(name: str) -> dict[str, Any]:
        if "'" in name:
            raise NotFound(f"no node {name!r}", hint="`turnout list nodes` shows what there is")
        return await run_in_threadpool(look_at_node, name)

    return router


def explain_node_past(node: str, runs: list[dict[str, Any]]) -> list[str]:
    """What was on a node that is gone."""
    return [line for line in explain_node(node, runs, is_silent=False, is_kept=False, max_runs=0) if "why run" in line]


def _job_meant(connection: Connection, name: str) -> str | None:
    """The job that this name means, or the step, if its run is one of several; None for that of a run."""
    if is_job_name(name):
        return name
    job = reads.find_called(connection, name)
    if job is not None:
        return job_name(job)
    if parse_run_name(name) is not None:
        return None
    return reads.step_of_several(connection, reads.find_run(connection, name), name)


def _explain_unmade(step: Mapping[str, Any], needs: Sequence[str]) -> list[str]:
    """Of a step whose runs are not made yet."""
    if not needs:
        return ["All that it waits for is over, and its runs are about to be made."]
    over = "is over" if len(needs) == 1 else "are over"
    return [
        f"Its runs are made when {', '.join(needs)} {over}.",
        f"`turnout why {step['pipeline']}` tells how they are.",
    ]


class _Found(NamedTuple):
    """How a run stands; `where` its job's runs wait, and which job that is: of a pipeline, one of its steps."""

    situation: Situation
    where: tuple[str, int]


def _situation(connection: Connection, name: str) -> _Found:
    run = reads.find_run(connection, name)
    (view,) = reads.show_runs(connection, [run], children=True)
    job = reads.find_job(connection, view["job"])
    known = load_jobs(connection, {job})[job]
    spec, events = known.spec, reads.run_events(connection, run)
    is_staged = events[-1]["event"] == EventName.DOWNLOAD_BEFORE
    cancelled = [event["data"] for event in events if event["event"] == EventName.CANCEL_REQUESTED]
    situation = Situation(
        run=view, attempts=reads.run_attempts(connection, run), ahead=search.waiting_ahead(connection, run),
        need=spec.resources, concurrent=spec.concurrent,
        setup=spec.setup.name if spec.setup is not None and is_staged else "",
        kept=reads.kept_directory(connection, run, view["attempts"]),
        search=_sought(connection, job, view) if spec.search is not None else None,
        pipeline=job_name(known.pipeline) if known.pipeline is not None else "",
        awaits=pipelines.awaited(connection, run, job) if view["state"] == RunState.CREATED else [],
        fell=bool(cancelled) and cancelled[-1].get("by") == FAIL_FAST,
    )  # fmt: skip
    return _Found(situation, (spec.where, job))


def _sought(connection: Connection, job: int, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """The search of a parent. What it did not begin with, because it was given up, is of no concern."""
    if run["parent"] is not None:
        return None
    shown = search_views.show(connection, job)
    return shown if run["state"] not in TERMINAL or shown["state"] == searches.OVER else None
