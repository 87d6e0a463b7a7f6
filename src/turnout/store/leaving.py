"""What runs of pipelines have left to those that waited for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.model.state import TERMINAL, RunState
from turnout.store import schema, search_views
from turnout.store.belonging import OF_STEP, REPLACED
from turnout.store.parts import IDS, rows_for
from turnout.store.reads import find_run
from turnout.store.writer import Tx
from turnout.wire.patterns import escape, exact_matcher, leads_on, plain_path

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
_EACH = sa.select(_JOBS.c.id, _JOBS.c.each).where(_JOBS.c.id.in_(IDS), _JOBS.c.each.is_not(None))
_PARAMS = sa.select(_RUNS.c.id, _RUNS.c.params).where(_RUNS.c.id.in_(IDS))
_LEAVER = tuple(_RUNS.c[name] for name in ("id", "label", "params", "after", "outputs", "state", "reason"))
_LEAVERS = (
    sa.select(_RUNS.c.job_id, _JOBS.c.step.label("name"), _RUNS.c.stage, *_LEAVER)
    .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
    .where(_RUNS.c.step == OF_STEP)
)
_BY_STEPS, _BY_IDS = _LEAVERS.where(_RUNS.c.job_id.in_(IDS)), _LEAVERS.where(_RUNS.c.id.in_(IDS))
_REPLACED_OF = (
    sa.select(_RUNS.c.job_id, _RUNS.c.label, _RUNS.c.params, _RUNS.c.id)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == REPLACED)
    .order_by(_RUNS.c.id)
)
_LATE_NEEDS_OF = sa.select(schema.late_needs.c.needed, schema.late_needs.c.over).where(
    schema.late_needs.c.job_id.in_(IDS)
)
_STEP_NEEDS_OF = sa.select(_STEP_NEEDS.c.needed).where(_STEP_NEEDS.c.job_id.in_(IDS))
_RUN_NEEDS_OF = sa.select(_RUN_NEEDS.c.run_id, _RUN_NEEDS.c.needed).where(_RUN_NEEDS.c.run_id.in_(IDS))


class Leaver(NamedTuple):
    """A run of a step that is over, and may have left something: `after` is the manifest of that. Of a search
    (`is_sought`), it is the best run."""

    id: int
    label: str
    values: dict[str, Any]
    after: str | None
    outputs: list[str]
    state: RunState
    reason: str | None
    is_sought: bool = False

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_well(self) -> bool:
        return self.state is RunState.COMPLETED


class Passed(NamedTuple):
    """What runs waited for, and what that has left: of each step, its runs in their order, who took the place of one
    has that, too."""

    of_steps: dict[int, dict[str, list[Leaver]]]
    """by the step that waited, or whose runs wait as a whole"""
    of_runs: dict[int, dict[str, list[Leaver]]]
    """by the run that waited for them by itself"""

    def leavers(self) -> Iterator[Leaver]:
        """All of them; some may come twice."""
        for steps in (*self.of_steps.values(), *self.of_runs.values()):
            for runs in steps.values():
                yield from runs

    def by(self, run: int, step: int) -> dict[str, list[Leaver]]:
        whole, singly = self.of_steps.get(step, {}), self.of_runs.get(run, {})
        return {**whole, **singly} if whole and singly else whole or singly


def before_making(connection: sa.Connection, job: int) -> dict[str, list[Leaver]]:
    """The runs of the steps that a late step waited for. Of those that are made and need not be over, it is not told
    how they stand, or what they have left so far."""
    needed = dict(rows_for(connection, _LATE_NEEDS_OF, [job]))
    found = _by_step(_standing(connection, _all_of(connection, needed), is_over=lambda row: bool(needed[row.job_id])))
    return {name: runs for _, name, runs in found}


def before_gates(connection: sa.Connection, job: int, runs: Collection[int]) -> Passed:
    """What these runs of a step waited for, which is over."""
    steps = [needed for (needed,) in rows_for(connection, _STEP_NEEDS_OF, [job])]
    whole = {name: each for _, name, each in _by_step(_standing(connection, _all_of(connection, steps)))}
    singly: dict[int, list[int]] = {}
    for run, needed in rows_for(connection, _RUN_NEEDS_OF, runs):
        singly.setdefault(run, []).append(needed)
    rows = list(rows_for(connection, _BY_IDS, {each for needed in singly.values() for each in needed}))
    placed = {row.id: (place, row, leaver) for place, (row, leaver) in enumerate(_standing(connection, rows))}
    of_runs = {
        run: {name: each for _, name, each in _by_step([placed[on][1:] for on in _in_place(needed, placed)])}
        for run, needed in singly.items()
    }
    return Passed({job: whole}, of_runs)


def _in_place(needed: Iterable[int], placed: Mapping[int, tuple[int, Any, Leaver]]) -> list[int]:
    return sorted((on for on in needed if on in placed), key=lambda on: placed[on][0])


def _all_of(connection: sa.Connection, steps: Iterable[int]) -> list[Any]:
    return list(rows_for(connection, _BY_STEPS, steps))


def _standing(
    connection: sa.Connection, rows: Sequence[Any], *, is_over: Callable[[Any], bool] = lambda row: True
) -> list[tuple[Any, Leaver]]:
    """These runs in the order of those whose places they have taken. A search stands for its best run; one on several
    targets has several parents, and one best."""
    first: dict[tuple[Any, ...], int] = {}
    for each in rows_for(connection, _REPLACED_OF, {row.job_id for row in rows}):
        first.setdefault((each.job_id, each.label, each.params), each.id)
    ordered = sorted(rows, key=lambda row: (first.get((row.job_id, row.label, row.params), row.id), row.id))
    found: list[tuple[Any, Leaver]] = []
    searches: set[int] = set()
    for row in ordered:
        run = _leaver(row) if is_over(row) else _coming(row)
        best = _best(connection, row.job_id) if row.stage and is_over(row) else None
        if row.stage and row.job_id in searches and (best is not None or not is_over(row)):
            continue
        searches.add(row.job_id)
        found.append((row, run if best is None else _standing_for(run, best)))
    return found


def _by_step(standing: Iterable[tuple[Any, Leaver]]) -> list[tuple[int, str, list[Leaver]]]:
    """The steps, with their runs."""
    found: dict[int, tuple[int, str, list[Leaver]]] = {}
    for row, leaver in standing:
        found.setdefault(row.job_id, (row.job_id, row.name, []))[2].append(leaver)
    return [found[job] for job in sorted(found)]


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


def _coming(row: Any) -> Leaver:
    """Of a run that need not be over: nothing that changes."""
    return _leaver(row)._replace(after=None, state=RunState.CREATED, reason=None, is_sought=bool(row.stage))


def _standing_for(parent: Leaver, best: Leaver) -> Leaver:
    """The best run of a search, as if it were that of the step: it was asked for what its parent was, and may have been
    ended early, which makes the search no worse."""
    return best._replace(label="", outputs=parent.outputs, state=parent.state, reason=parent.reason, is_sought=True)


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
    left.update(_of_own_files(tx, runs, left))
    return {run: manifests for run, manifests in left.items() if manifests}


def _of_own_files(
    tx: Tx, runs: Mapping[int, int], left: Mapping[int, list[tuple[str, list[str]]]]
) -> Iterator[tuple[int, list[tuple[str, list[str]]]]]:
    """For runs that are each done to one of many files: that, and of the others nothing."""
    patterns = dict(rows_for(tx.connection, _EACH, set(runs.values())))
    mine = [run for run, step in runs.items() if step in patterns]
    for run, params in rows_for(tx.connection, _PARAMS, mine) if mine else ():
        yield run, list(_without_others(left[run], patterns[runs[run]], str(json.loads(params).get("file", ""))))


def _without_others(
    manifests: Iterable[tuple[str, list[str]]], pattern: str, own: str
) -> Iterator[tuple[str, list[str]]]:
    is_one = exact_matcher([pattern])
    for after, outputs in manifests:
        paths = {output: plain_path(output) for output in outputs}
        if any(path is None or (leads_on(pattern, path) and not is_one(path)) for path in paths.values()):
            yield after, [*outputs, f"!./{pattern}", escape(own)]
        elif kept := [each for each, path in paths.items() if path == own or not is_one(path or "")]:
            yield after, kept


def _manifests(rows: Iterable[Any], best: Mapping[int, str | None]) -> list[tuple[str, list[str]]]:
    """In the order of the runs. `best`: what the best run of each search among them has left."""
    ordered = sorted({row.id: row for row in rows}.items())
    found = dict.fromkeys((best.get(row.job_id) if row.stage else row.after, row.outputs) for _, row in ordered)
    return [(after, json.loads(outputs)) for after, outputs in found if after is not None]
