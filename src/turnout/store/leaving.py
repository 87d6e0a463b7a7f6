"""What runs of pipelines have left to those that waited for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.model.state import RunState
from turnout.store import schema, search_views
from turnout.store.belonging import OF_STEP
from turnout.store.parts import IDS, rows_for
from turnout.store.reads import find_run
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs


def _left_by(waiter: sa.Column[int], needed: sa.Column[int], of: sa.Column[int]) -> sa.Select[Any]:
    """Runs that have left something to those who waited for them. It does not ask for their state: SQLite would take
    that for the best index, and go through all runs that ever were completed."""
    columns = (
        waiter.label("waiter"), _RUNS.c.id, _RUNS.c.job_id, _RUNS.c.state, _RUNS.c.stage, _RUNS.c.after, _RUNS.c.outputs
    )  # fmt: skip
    has_left = (_RUNS.c.outputs.is_not(None), _RUNS.c.step == OF_STEP)
    these = waiter.in_(IDS)
    return sa.select(*columns).select_from(waiter.table).join(_RUNS, of == needed).where(these, *has_left)


_LEFT_BY_RUNS = _left_by(_RUN_NEEDS.c.run_id, _RUN_NEEDS.c.needed, _RUNS.c.id)
_LEFT_BY_STEPS = _left_by(_STEP_NEEDS.c.job_id, _STEP_NEEDS.c.needed, _RUNS.c.job_id)
_LEAVER = tuple(_RUNS.c[name] for name in ("id", "label", "params", "after", "outputs", "state", "reason"))


class Leaver(NamedTuple):
    """A run of a step that is over, and may have left something: `after` is the manifest of that. Of a search, it is
    the best run."""

    id: int
    label: str
    values: dict[str, Any]
    after: str | None
    outputs: list[str]
    state: RunState
    reason: str | None

    @property
    def is_well(self) -> bool:
        return self.state is RunState.COMPLETED


def leavers(connection: sa.Connection, job: int) -> dict[str, list[Leaver]]:
    """The runs of the steps that a step waited for, by their steps, in their order; who took the place of one has that,
    too. Of a search, that is its best."""
    asked = (_RUNS.c.step.label("counts"), _RUNS.c.argv)
    select = (
        sa.select(_JOBS.c.id.label("job"), _JOBS.c.step.label("name"), _RUNS.c.stage, *asked, *_LEAVER)
        .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
        .join(_STEP_NEEDS, _STEP_NEEDS.c.needed == _JOBS.c.id)
        .where(_STEP_NEEDS.c.job_id == job, _RUNS.c.step != 0)
        .order_by(_RUNS.c.id)
    )
    placed: dict[tuple[Any, ...], Any] = {}
    for row in connection.execute(select):
        key: tuple[Any, ...] = (row.job, row.label, row.argv, row.params)
        if row.counts == OF_STEP and key in placed and placed[key].counts == OF_STEP:
            key = (*key, row.id)  # several that are asked for the same
        placed[key] = row
    found: dict[str, list[Leaver]] = {}
    for row in placed.values():
        if row.counts != OF_STEP:
            continue
        run = _leaver(row)
        best = _best(connection, row.job) if row.stage else None
        of_step = found.setdefault(row.name, [])
        if best is not None and of_step:  # a search on several targets has several parents, and one best
            continue
        of_step.append(run if best is None else _standing_for(run, best))
    return found


def told_of_outputs(connection: sa.Connection, runs: Collection[int]) -> dict[int, list[str]]:
    """What nodes told of the files that these runs left in a directory that all see."""
    events = schema.events
    found: dict[int, list[str]] = {}
    where = (events.c.run_id.in_(IDS), events.c.event == str(EventName.CAPTURE_AFTER))
    select = sa.select(events.c.run_id, events.c.data).where(*where).order_by(events.c.run_id, events.c.seq)
    for row in rows_for(connection, select, runs):  # the last counts: earlier ones are of other attempts
        found[row.run_id] = json.loads(row.data).get("left", [])
    return found


def _leaver(row: Any) -> Leaver:
    return Leaver(
        row.id, row.label or "", json.loads(row.params), row.after,
        json.loads(row.outputs) if row.outputs else [], RunState(row.state), row.reason,
    )  # fmt: skip


def _standing_for(parent: Leaver, best: Leaver) -> Leaver:
    """The best run of a search, as if it were that of the step: it was asked for what its parent was, and may have been
    ended early, which makes the search no worse."""
    return best._replace(label="", outputs=parent.outputs, state=parent.state, reason=parent.reason)


def _best(connection: sa.Connection, search: int) -> Leaver | None:
    """The best run of a search; None when there is none."""
    found = search_views.best(connection, search)
    if not found or found[0]["run"] is None:
        return None
    run = find_run(connection, found[0]["run"])
    row = connection.execute(sa.select(*_LEAVER).where(_RUNS.c.id == run)).one()
    return _leaver(row)


def left_for(tx: Tx, runs: Mapping[int, int]) -> dict[int, list[tuple[str, list[str]]]]:
    """What the runs left that each of these waited for: manifests, and patterns of their outputs. `runs` are with the
    step that each is of. They are asked for together, because all runs of pipelines come by here."""
    singly: dict[int, list[Any]] = {}
    whole: dict[int, list[Any]] = {}
    for found, select, ids in ((singly, _LEFT_BY_RUNS, runs.keys()), (whole, _LEFT_BY_STEPS, set(runs.values()))):
        for row in rows_for(tx.connection, select, ids):
            if row.state == RunState.COMPLETED:
                found.setdefault(row.waiter, []).append(row)
    searches = {row.job_id for rows in (*singly.values(), *whole.values()) for row in rows if row.stage}
    best = {job: run.after for job in searches if (run := _best(tx.connection, job)) is not None}
    alike = {step: _manifests(rows, best) for step, rows in whole.items()}  # most often there is no more
    left = {
        run: _manifests([*singly[run], *whole.get(step, ())], best) if run in singly else alike.get(step, [])
        for run, step in runs.items()
    }
    return {run: manifests for run, manifests in left.items() if manifests}


def _manifests(rows: Iterable[Any], best: Mapping[int, str | None]) -> list[tuple[str, list[str]]]:
    """In the order of the runs. `best`: what the best run of each search among them has left."""
    ordered = sorted({row.id: row for row in rows}.items())
    found = dict.fromkeys((best.get(row.job_id) if row.stage else row.after, row.outputs) for _, row in ordered)
    return [(after, json.loads(outputs)) for after, outputs in found if after is not None]
