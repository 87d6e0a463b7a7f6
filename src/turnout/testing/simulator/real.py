"""The real engine (dispatch, fleet, and all SQL below them) in the place of its model, on a database in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import sqlalchemy as sa

from turnout.engine import desk as desk_module
from turnout.engine import dispatch as dispatch_module
from turnout.engine.changing import Change, change
from turnout.engine.desk import Desk
from turnout.engine.dispatch import Dispatch
from turnout.engine.expanding import Expander
from turnout.engine.fleet import Fleet
from turnout.engine.pool import Pool
from turnout.engine.quiet import Quiet
from turnout.engine.report import Receipt, Telling
from turnout.engine.resuming import resume
from turnout.engine.sessions import Session
from turnout.engine.steer import Cancelled
from turnout.engine.submit import PipelineSubmission, Submission, submit, submit_pipeline
from turnout.engine.target import Target
from turnout.errors import TurnoutError
from turnout.model.event import EventName
from turnout.model.ids import parse_job_name, run_name
from turnout.model.pipeline import Gate
from turnout.model.spec import JobSpec
from turnout.pipeline import languages
from turnout.plugin.sampler import Proposal
from turnout.schedule.record import RunRecord
from turnout.schedule.replay import PastEvent
from turnout.store import schema
from turnout.store import searches as searches_module
from turnout.store.agents import Agent, find_by_token
from turnout.store.jobs import load_jobs
from turnout.store.late import AtGate, LateStep
from turnout.store.ledger import RECORD_COLUMNS, to_record
from turnout.store.metrics import Series
from turnout.store.requests import once
from turnout.store.searches import OVER, Standing
from turnout.store.streams import Mark
from turnout.store.writer import Tx
from turnout.testing.simulator.command import Truth, left_in
from turnout.testing.simulator.expander import put_off
from turnout.testing.simulator.hub import Hub, Watched, Writer
from turnout.testing.simulator.link import Refused
from turnout.testing.simulator.memory import Disk, Graph, Row, StepRow
from turnout.testing.simulator.model import GLANCE, IDLE, MAX_RUNS, NODE
from turnout.testing.simulator.people import Asked
from turnout.testing.simulator.planners import LANGUAGE, Later
from turnout.testing.simulator.sampling import Life, Makers
from turnout.wire import manifest
from turnout.wire.messages import Attempt, Grant, Hello, Orders, Poll, Welcome


class Database:
    """What is committed; it outlives the hub."""

    def __init__(self) -> None:
        self.engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
        schema.metadata.create_all(self.engine)

    def records(self, connection: sa.Connection) -> list[RunRecord]:
        return [to_record(row) for row in connection.execute(sa.select(*RECORD_COLUMNS).order_by(schema.runs.c.id))]

    def searches(self, connection: sa.Connection) -> dict[int, Standing]:
        jobs = connection.execute(sa.select(schema.searches.c.job_id).order_by(schema.searches.c.job_id)).scalars()
        found = [searches_module.standing(connection, job) for job in list(jobs)]
        return {standing.job: standing for standing in found if standing is not None}

    def graph(self, connection: sa.Connection) -> Graph:
        jobs = connection.execute(sa.select(schema.jobs).where(schema.jobs.c.pipeline.is_not(None)))
        steps = {row.id: _step_row(row) for row in jobs}
        if not steps:
            return Graph()
        needs = [{tuple(row) for row in connection.execute(sa.select(each))} for each in _NEEDS]
        return Graph(steps, *needs)

    @property
    def current_graph(self) -> Graph:
        with self.engine.connect() as connection:
            return self.graph(connection)

    @property
    def is_searching(self) -> bool:
        with self.engine.connect() as connection:
            return any(standing.state != OVER for standing in self.searches(connection).values())

    def export(self, asked: list[Asked], truths: dict[Attempt, Truth]) -> Disk:
        """All of it in the form of the model's disk."""
        disk = Disk()
        with self.engine.connect() as connection:
            disk.records = {record.id: record for record in self.records(connection)}
            for row in connection.execute(sa.select(schema.runs)):
                name = run_name(row.number, row.child or None)
                outputs = tuple(json.loads(row.outputs)) if row.outputs else ()
                said: Any = tuple(json.loads(row.argv)), json.loads(row.params), outputs, row.label or ""
                place = row.target, row.queue, row.outer
                disk.rows[row.id] = Row(name, row.number, row.child, row.job_id, *place, *said)
                if row.after:
                    disk.after[row.id] = row.after
            disk.graph = self.graph(connection)
            disk.searches = self.searches(connection)
            disk.proposals = {job: [] for job in disk.searches}
            for row in connection.execute(sa.select(schema.proposals).order_by(schema.proposals.c.number)):
                proposal = Proposal(json.loads(row.params), json.loads(row.memo))
                disk.proposals[row.job_id].append(proposal)
            for row in connection.execute(sa.select(schema.events).order_by(schema.events.c.seq)):
                past = PastEvent(row.time, EventName(row.event), json.loads(row.data))
                disk.events.setdefault(row.run_id, []).append(past)
            for row in connection.execute(sa.select(schema.requests)):
                disk.answers[row.key] = json.loads(row.answer)
            for row in connection.execute(sa.select(schema.streams)):
                disk.marks[row.run_id, row.attempt, row.stream] = Mark(row.size, row.frames)
            for row in connection.execute(sa.select(schema.output).order_by(schema.output.c.start)):
                disk.output.setdefault((row.run_id, row.attempt), bytearray()).extend(row.content)
            stored = _points(connection)
        for one in asked:
            if one.key in disk.answers:
                disk.jobs.update(_specs(one, disk.answers[one.key]))
        disk.points = _attribute(disk, truths, stored)
        return disk


_NEEDS = (schema.run_needs, schema.step_needs, schema.late_needs)


def _step_row(row: Any) -> StepRow:
    late = json.loads(row.late) if row.late else None
    is_unmade, is_made, is_stale = bool(row.unmade), bool(row.run_count), bool(row.stale)
    return StepRow(row.pipeline, row.step, row.blocked, row.open, late, is_unmade, Gate(row.gate), is_made, is_stale)


def _specs(asked: Asked, answer: Any) -> dict[int, JobSpec]:
    """By the jobs that were made of a submission."""
    found = {parse_job_name(str(answer["job"])) or 0: asked.spec}
    if asked.pipeline is not None:
        for step in asked.pipeline.steps:
            found[parse_job_name(answer["steps"][step.name]["job"]) or 0] = asked.pipeline.job_of(step)
    return found


def _points(connection: sa.Connection) -> dict[int, Counter[int]]:
    """Of each run the numbers it logged, and how often each is there."""
    found: dict[int, Counter[int]] = {}
    for row in connection.execute(sa.select(schema.metric_chunks)):
        found.setdefault(row.run_id, Counter()).update(int(value) for value in Series.unpack(row.points).values)
    return found


def _attribute(
    disk: Disk, truths: dict[Attempt, Truth], stored: dict[int, Counter[int]]
) -> dict[int, list[tuple[int, int]]]:
    """The points with their attempts, which the store does not keep: by how much was taken of each spool."""
    points: dict[int, list[tuple[int, int]]] = {}
    for (run, attempt, stream), mark in disk.marks.items():
        if stream != "output":
            records = truths[run, attempt].records
            first = sum(records[name] for name in records if name < stream)
            points.setdefault(run, []).extend((attempt, number) for number in range(first, first + mark.frames))
    for run, counted in stored.items():
        taken = Counter(number for _, number in points.get(run, ()))
        if counted != taken:
            raise AssertionError(f"run {run} has the points {counted}, but what was taken of its spools holds {taken}")
    return points


class RealEngine:
    """One life of a hub on `database`."""

    def __init__(
        self, hub: Hub, database: Database, targets: Mapping[str, Target], watched: Watched, lives: list[Life]
    ) -> None:  # fmt: skip
        self._hub = hub
        self._database = database
        self._watched = watched
        self._writer = Writer(hub, self._transact)
        store: Any = _Store(self._writer, database)
        self._quiet = Quiet()
        self.dispatch = Dispatch(
            store, hub.sessions, max_runs=lambda _agent, _cpus: MAX_RUNS, idle=lambda _agent: IDLE, quiet=self._quiet
        )
        self._desk = Desk(store, self._end, Makers(lives))
        self._expander = _Expander(hub, store, hub.end_pipeline)
        self._next_glance = 0.0
        self._known: dict[int, JobSpec] = {}
        self._told: set[int] = set()
        """the runs that have logged something in this life"""
        fresh = {name: Target(name, target.provider, target.terms) for name, target in targets.items()}
        self._fleet = _Fleet(
            store, hub.sessions, self.dispatch, fresh, Path("nodes"), "", NODE, lambda agent: None,
            program=lambda: Path("agent.pyz"), quiet=self._quiet,
        )  # fmt: skip

    def _transact(self, works: list[Callable[[Tx], Any]]) -> tuple[list[Any], set[str]]:
        results: list[Any] = []
        with self._database.engine.begin() as connection:
            tx = Tx(connection, self._hub.world.clock.time())
            for work in works:
                try:
                    results.append(work(tx))
                except TurnoutError as refusal:
                    results.append(Refused(refusal.status, refusal.message))
                self._look(connection)
        self._told |= {int(topic.removeprefix("metrics:")) for topic in tx.touched if topic.startswith("metrics:")}
        self._quiet.stir(tx.touched)
        return results, tx.touched

    def recover(self) -> None:
        self._fleet.recover()

    def _look(self, connection: sa.Connection) -> None:
        searches = self._database.searches(connection)
        graph = self._database.graph(connection)
        is_any = searches or graph.steps
        runs = connection.execute(sa.select(schema.runs.c.id, schema.runs.c.job_id)) if is_any else ()
        jobs = {row.id: row.job_id for row in runs}
        specs = self._specs(connection, searches)
        self._watched.look(self._database.records(connection), searches, specs, jobs, graph)

    def _specs(self, connection: sa.Connection, jobs: Iterable[int]) -> dict[int, JobSpec]:
        missing = set(jobs) - self._known.keys()
        found = load_jobs(connection, missing) if missing else {}
        self._known.update({job: each.spec for job, each in found.items()})
        return self._known

    def tend(self, now: float) -> None:
        self._fleet.tend(now)
        with self._database.engine.connect() as connection:
            jobs = list(self._database.searches(connection))
        is_glance = now >= self._next_glance
        self._next_glance = now + GLANCE if is_glance else self._next_glance
        for job in jobs:
            self._desk.tend(job, self._told, is_glance=is_glance)

    def look(self) -> None:
        self._expander.look()

    def _end(self, runs: list[RunRecord]) -> None:
        self.dispatch.end(runs)
        self._hub.publish({f"agent:{record.agent}" for record in runs})

    def agent_of(self, token: str) -> Agent | None:
        with self._database.engine.connect() as connection:
            return find_by_token(connection, token)

    def welcome(self, agent: Agent, hello: Hello) -> Future[Welcome]:
        return self.dispatch.welcome(agent, hello)

    def hear(self, session: Session, poll: Poll) -> list[Attempt]:
        return self.dispatch.hear(session, poll)

    def take(self, session: Session) -> Future[list[Grant]] | None:
        return self.dispatch.take(session)

    def report(self, session: Session, telling: Telling) -> Future[Receipt]:
        return self.dispatch.report(session, telling)

    def orders(self, session: Session, fenced: list[Attempt], receipt: Receipt | None = None) -> Orders:
        return self.dispatch.orders(session, fenced, receipt)

    def submit(self, submission: Submission | PipelineSubmission) -> Future[dict[str, object]]:
        if isinstance(submission, PipelineSubmission):
            return self._writer.submit(lambda tx: submit_pipeline(tx, submission))
        return self._writer.submit(lambda tx: submit(tx, submission))

    def cancel(self, runs: list[int], *, by: str = "user", job: int | None = None) -> Future[list[Cancelled]]:
        return self.dispatch.cancel(runs, by=by, job=job)

    def restart(self, runs: list[int]) -> Future[list[RunRecord]]:
        return self.dispatch.restart(runs, by="user")

    def change(self, key: str, job: int, asked: Change) -> Future[dict[str, object]]:
        return self._writer.submit(lambda tx: once(tx, key, key, lambda: change(tx, job, asked)))

    def resume(self, key: str, job: int) -> Future[dict[str, object]]:
        return self._writer.submit(lambda tx: once(tx, key, key, lambda: resume(tx, job)))

    def runs_of(self, names: list[str]) -> list[int]:
        with self._database.engine.connect() as connection:
            rows = connection.execute(sa.select(schema.runs.c.id, schema.runs.c.number, schema.runs.c.child))
            return [row.id for row in rows if run_name(row.number, row.child or None) in names]


class _Fleet(Fleet):
    """All places are looked after in one thread."""

    def _tend(self, pool: Pool, now: float, waiting: list[str]) -> None:
        pool.tend(now, waiting)


class _Expander(Expander):
    """Between its look and what it decides, anything may happen."""

    def __init__(self, hub: Hub, store: Any, end: Callable[[int], None]) -> None:
        blobs: Any = _Blobs()
        super().__init__(store, blobs, end)
        self._hub = hub

    def _make(self, step: LateStep) -> None:
        put_off(self._hub, lambda: super(_Expander, self)._make(step))

    def _look_at(self, found: AtGate) -> None:
        put_off(self._hub, lambda: super(_Expander, self)._look_at(found))


class _Blobs:
    """The manifests of what runs left."""

    def read(self, digest: str) -> bytes:
        return manifest.encode([manifest.Entry(left_in(digest), 0o644, 0, "0" * 64)])


class _Store:
    """`turnout.store.store.Store`, with the simulation's writer."""

    def __init__(self, writer: Writer, database: Database) -> None:
        self.submit = writer.submit
        self.write = writer.write
        self._database = database

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with self._database.engine.connect() as connection:
            yield connection


@contextmanager
def clock_of(hub: Hub) -> Iterator[None]:
    """While this lasts, the engine reads the hub's simulated clock, and knows the language of simulated steps."""
    clock = mock.Mock(monotonic=hub.monotonic, time=hub.world.clock.time)
    language = mock.patch.dict(languages._LATE, {LANGUAGE: Later.of})
    with language, mock.patch.object(dispatch_module, "time", clock), mock.patch.object(desk_module, "time", clock):
        yield
