"""What is decided of pipelines while they go on: runs of late steps that are to be made, and runs at their gates."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.spec import JobSpec, RunSpec
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.bulk import Bulk
from turnout.store.jobs import MoreRuns, insert_runs, load_jobs, set_commands
from turnout.store.parts import IDS, in_parts, rows_for
from turnout.store.searches import begin_search
from turnout.store.waiting import gates_of
from turnout.store.writer import Tx

_RUNS, _JOBS = schema.runs, schema.jobs
_GIVE_UP_LATE = _JOBS.update().where(_JOBS.c.id.in_(IDS), _JOBS.c.unmade == 1).values(unmade=0).returning(_JOBS.c.id)
_STAND_INS = _JOBS.update().where(_JOBS.c.id.in_(IDS)).values(open=_JOBS.c.open + 1)
#: As the index has it.
_AT_GATE = (sa.text("gate > 0 AND blocked = 0 AND state = 'created'"), _RUNS.c.step == OF_STEP)
_STEPS_AT_GATE = sa.select(_RUNS.c.job_id).where(*_AT_GATE).distinct()
_RUNS_AT_GATE = (
    sa.select(_RUNS.c.id, _RUNS.c.params).where(_RUNS.c.job_id == sa.bindparam("job"), *_AT_GATE).order_by(_RUNS.c.id)
)
_LATE_STEPS = sa.select(_JOBS.c.id, _JOBS.c.step, _JOBS.c.late).where(_JOBS.c.id.in_(IDS)).order_by(_JOBS.c.id)
_SET_ARGV = Bulk(
    _RUNS.update().where(_RUNS.c.id == sa.bindparam("run")).values(argv=sa.bindparam("new_argv")), ["new_argv", "run"]
)
_ASKED = sa.select(_RUNS.c.id, _RUNS.c.params, _RUNS.c.label, _RUNS.c.outputs).where(_RUNS.c.id.in_(IDS))


class LateStep(NamedTuple):
    job: int
    name: str
    late: dict[str, Any]


class AtGate(NamedTuple):
    """Runs of a step that waits for somebody to look at them: with their values."""

    step: LateStep
    runs: dict[int, dict[str, Any]]


def late_steps(tx: Tx, pipeline: int | None) -> list[int]:
    """The steps, of one pipeline or of all, whose runs are still to be made."""
    select = sa.select(_JOBS.c.id).where(_JOBS.c.unmade == 1).order_by(_JOBS.c.id)
    if pipeline is not None:
        select = select.where(_JOBS.c.pipeline == pipeline)
    return list(tx.connection.execute(select).scalars())


def due_steps(connection: sa.Connection) -> list[LateStep]:
    """Those whose runs can be made now."""
    due = sa.select(_JOBS.c.id).where(_JOBS.c.unmade == 1, _JOBS.c.blocked == 0)
    return _steps(connection, connection.execute(due).scalars().all())


def is_due(tx: Tx, job: int) -> bool:
    """Whether the runs of a late step can be made now; nobody else changes that before the transaction is over."""
    where = (_JOBS.c.id == job, _JOBS.c.unmade == 1, _JOBS.c.blocked == 0)
    return tx.connection.execute(sa.select(_JOBS.c.id).where(*where).with_for_update()).first() is not None


def at_gates(connection: sa.Connection) -> list[AtGate]:
    """All runs that somebody has to look at now."""
    steps = _steps(connection, connection.execute(_STEPS_AT_GATE).scalars().all())
    found = []
    for step in steps:
        rows = connection.execute(_RUNS_AT_GATE, {"job": step.job})
        found.append(AtGate(step, {row.id: json.loads(row.params) for row in rows}))
    return found


def _steps(connection: sa.Connection, jobs: Collection[int]) -> list[LateStep]:
    return [LateStep(job, name, json.loads(late)) for job, name, late in rows_for(connection, _LATE_STEPS, jobs)]


def give_up_late(tx: Tx, jobs: Collection[int]) -> set[int]:
    """The runs of late steps will not be made; the steps of these of which they were to be."""
    return {job for (job,) in rows_for(tx.connection, _GIVE_UP_LATE, jobs)}


def insert_late_runs(tx: Tx, job: int, runs: Sequence[RunSpec]) -> Sequence[int]:
    """The runs of a late step that is due; their ids. They are to be told what they wait for. One whose command is not
    known yet has that of a stand-in."""
    give_up_late(tx, [job])
    spec = load_jobs(tx.connection, {job})[job].spec
    (shown,) = _stand_in(spec).runs
    spec = replace(spec, runs=tuple(replace(run, argv=run.argv or shown.argv) for run in runs))
    (written,) = insert_runs(tx, [MoreRuns(job, spec, [1] * spec.outer_runs, gates_of(tx, [job])[job])])
    if spec.search is not None:
        set_commands(tx, job, spec.runs)
        begin_search(tx, job, spec)
    values = {"open": _JOBS.c.open + len(written.ids), "run_count": spec.commands}
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == job).values(values))
    tx.touch(f"job:{job}", "runs")
    return written.ids


def insert_stand_ins(tx: Tx, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """One run for all those of a late step that will not be made, each with its step."""
    known = load_jobs(tx.connection, set(jobs))
    wanted = [MoreRuns(job, _stand_in(known[job].spec), [1]) for job in jobs]
    for part in in_parts(sorted(jobs)):
        tx.connection.execute(_STAND_INS, {"ids": part})
    return [(run, written.job) for written in insert_runs(tx, wanted) for run in written.ids]


def _stand_in(spec: JobSpec) -> JobSpec:
    argv = spec.display[1:] if spec.script is not None else spec.display  # shown is the script's name before them
    return replace(spec, runs=(RunSpec(argv=argv),), search=None, also=(), held=False, nodes=None)


def set_argv(tx: Tx, job: int, argv: Mapping[int, tuple[str, ...]]) -> None:
    """What runs of a step execute, now that they were looked at. Those of a search all have the same."""
    _SET_ARGV.execute(tx.connection, [(json.dumps(each), run) for run, each in argv.items()])
    if argv and load_jobs(tx.connection, {job})[job].spec.search is not None:
        row = next(iter(rows_for(tx.connection, _ASKED, argv)))
        outputs = tuple(json.loads(row.outputs or "[]"))
        command = RunSpec(argv=argv[row.id], params=json.loads(row.params), label=row.label, outputs=outputs)
        set_commands(tx, job, [command])
