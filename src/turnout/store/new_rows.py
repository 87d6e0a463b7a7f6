"""Rows of jobs and runs that begin: gathered, and written together. A pipeline may have a hundred thousand jobs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from turnout.model.event import EventName
from turnout.model.ids import job_name
from turnout.model.pipeline import Gate
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import RunState
from turnout.schedule.record import Stage
from turnout.store import schema
from turnout.store.bulk import Bulk
from turnout.store.values import param_rows
from turnout.store.writer import Tx

#: Parts of a spec that have columns or tables of their own, or must never be shown.
_APART = frozenset({
    "runs", "env", "inherited_env", "script", "display", "kind", "target", "experiment", "workspace", "label", "before",
})  # fmt: skip
_PARTS = ("resources", "retry", "data", "model", "setup", "container", "original", "search")
_JOB = (
    "id", "workspace", "experiment", "target", "label", "kind", "display", "script", "spec", "environment", "before",
    "created", "data", "model", "notify", "run_count", "children_total", "open", "pipeline", "step", "blocked", "late",
    "unmade", "gate", "needs", "each",
)  # fmt: skip
_RUN = (
    "id", "number", "child", "job_id", "parent", "workspace", "experiment", "priority", "failures_left", "losses_left",
    "created", "step", "label", "argv", "params", "children_planned", "remaining", "stage", "outer", "target", "queue",
    "waiting", "state", "queued", "event_seq", "blocked", "gate", "outputs",
)  # fmt: skip
_MANY = 10_000
_INSERT_JOBS = Bulk(schema.jobs.insert(), _JOB)
_INSERT_JOB_EVENTS = Bulk(schema.job_events.insert(), ["job_id", "seq", "time", "event", "data"])
_INSERT_RUNS = Bulk(schema.runs.insert(), _RUN)
_INSERT_EVENTS = Bulk(schema.events.insert(), ["run_id", "seq", "time", "event", "data"])
_INSERT_PARAMS = Bulk(schema.params.insert(), ["run_id", "name", "value", "number", "text"])
_INSERT_TAGS = Bulk(schema.tags.insert(), ["run_id", "name", "value"])


class StepOf(NamedTuple):
    """Of a job that is a step: the pipeline's job, its name there, how many steps it waits for as a whole, how many
    runs and steps each of its runs waits for, and which steps those are of. `late` makes the runs of an `unmade` one,
    or looks at them at their gates."""

    pipeline: int
    name: str
    blocked: int
    runs: Sequence[int]
    late: str | None
    unmade: bool
    gate: Gate
    needs: Sequence[str]
    each: str


def text_of(spec: JobSpec) -> str:
    """What is kept of a job besides its columns. Of jobs that have nothing but these of their own, it is the same."""
    values = {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec) if each.name not in _APART}
    for name in _PARTS:
        values[name] = dataclasses.asdict(values[name]) if values[name] is not None else None
    values["also"] = [dataclasses.asdict(each) for each in spec.also]
    values["env_names"] = sorted(spec.env)
    if (spec.nodes is not None and len(spec.runs) > 1) or spec.search is not None:  # dealt out one by one
        values["commands"] = [dataclasses.asdict(run) for run in spec.runs]
    return json.dumps(values)


class NewRows:
    """Nothing is in the database before `write`. Numbers and ids were reserved."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._jobs: list[tuple[Any, ...]] = []
        self._job_events: list[tuple[Any, ...]] = []
        self._runs: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._params: list[tuple[Any, ...]] = []
        self._tags: list[tuple[Any, ...]] = []

    def add_job(self, job: int, spec: JobSpec, text: str, environment: str, step: StepOf | None = None) -> None:
        """The job alone. `text` is what `text_of` gives, of it or of one that has the same, `environment` the digest of
        what its runs get."""
        is_open = step is None or not step.unmade
        shared = spec.total if spec.shares_children else spec.commands if spec.search is not None else None
        of_step: tuple[Any, ...] = (0, None, None, 0, None, 0, 0, None, None)
        if step is not None:
            of_step = (
                spec.outer_runs if is_open else 0, step.pipeline, step.name, step.blocked, step.late, int(not is_open),
                int(step.gate), json.dumps(step.needs), step.each or None,
            )  # fmt: skip
        self._jobs.append((
            job, spec.workspace, spec.experiment, spec.target, spec.label, str(spec.kind), json.dumps(spec.display),
            spec.script, text, environment, spec.before, self._now,
            spec.data.manifest if spec.data is not None else None,
            spec.model.manifest if spec.model is not None else None,
            None if spec.notify == "bell" else spec.notify, spec.commands if is_open else 0, shared, *of_step,
        ))  # fmt: skip
        before = json.dumps({"snapshot": spec.before, "files": spec.before_files, "bytes": spec.before_bytes})
        created = json.dumps({"runs": spec.outer_runs})
        self._job_events.append((job, 1, self._now, str(EventName.CREATED), created))
        self._job_events.append((job, 2, self._now, str(EventName.CAPTURE_BEFORE), before))

    def add_runs(
        self, job: int, numbers: range, ids: range, spec: JobSpec,
        *, blocked: Sequence[int] | None = None, gate: Gate = Gate.NONE, made: int = 0,
    ) -> None:  # fmt: skip
        """Its outer runs. Those of a step are `blocked`: each waits for so many others, and at its gate. `made`: so
        many it has already."""
        runs = spec.runs if spec.nodes is None and spec.search is None else _outer(spec) * spec.outer_runs
        stage = Stage.NONE if spec.search is None else Stage.OPEN
        places, is_step = _places(spec, job, made), int(blocked is not None)
        for index, (run, id_, number) in enumerate(zip(runs, ids, numbers, strict=True)):
            waits_for = blocked[index] if blocked else 0
            waits = spec.held or waits_for > 0 or gate > 0
            planned = spec.children_of(index)
            self._runs.append((
                id_, number, 0, job, None, spec.workspace, spec.experiment, spec.priority, spec.retry.failures,
                spec.retry.losses, self._now, is_step, run.label or spec.label, json.dumps(run.argv),
                json.dumps(run.params), planned, 0 if stage else planned, stage,
                None if spec.nodes is None else index, *places[index], None if waits or stage else -spec.priority,
                str(RunState.CREATED if waits else RunState.QUEUED), None if waits else self._now, 1 if waits else 2,
                waits_for, int(gate), json.dumps(run.outputs) if run.outputs else None,
            ))  # fmt: skip
            self._events.append((id_, 1, self._now, str(EventName.CREATED), "{}"))
            if not waits:
                self._events.append((id_, 2, self._now, str(EventName.QUEUED), "{}"))
            if run.params:
                self._params += param_rows(id_, run.params)
            if spec.tags:
                self._tags += [(id_, name, value) for name, value in spec.tags.items()]

    @property
    def is_many(self) -> bool:
        """Whether it is time to write them: as many more would cost memory, and be no quicker."""
        return len(self._jobs) + len(self._runs) >= _MANY

    def write(self, tx: Tx) -> None:
        """All that there are now."""
        for insert, rows in (
            (_INSERT_JOBS, self._jobs), (_INSERT_JOB_EVENTS, self._job_events), (_INSERT_RUNS, self._runs),
            (_INSERT_EVENTS, self._events), (_INSERT_PARAMS, self._params), (_INSERT_TAGS, self._tags),
        ):  # fmt: skip
            insert.execute(tx.connection, rows)
            rows.clear()


def _places(spec: JobSpec, job: int, made: int) -> list[tuple[str, str]]:
    """The target and the queue of each outer run that is made now: what is launched by itself takes no other's."""
    if spec.search is not None:
        return [(spec.target, spec.where), *((each.target, each.where) for each in spec.also)]
    if not spec.has_own_nodes:
        return [(spec.target, spec.where)] * spec.outer_runs
    return [(spec.target, f"{spec.where}#{job_name(job)}.{made + index}") for index in range(spec.outer_runs)]


def _outer(spec: JobSpec) -> tuple[RunSpec, ...]:
    """What each node's outer run is: the command, or the parent of many."""
    return spec.runs if len(spec.runs) == 1 else (RunSpec(argv=()),)
