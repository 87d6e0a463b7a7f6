"""A store and those around it, driven by hand: people who submit and look, agents that take and tell."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from turnout.engine import steer
from turnout.engine.report import Receipt, Telling, report
from turnout.engine.submit import Submission, submit
from turnout.engine.take import Jobs, Taker, take
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.schedule.place import Room
from turnout.schedule.record import Lost, RunRecord
from turnout.store import agents, metrics, reads, schema
from turnout.store.database import sqlite_url
from turnout.store.ledger import Ledger
from turnout.store.store import Store
from turnout.store.writer import Tx
from turnout.wire import frames
from turnout.wire.gpus import free_gpus
from turnout.wire.messages import Chunk, Fact, Grant

T = TypeVar("T")
Piece = tuple[Chunk, bytes]
PLENTY = 1 << 50

#: The events of a plain run that logs, in the documented order.
WHOLE_LIFE = (
    "created", "capture_before", "queued", "started", "download_before", "running", "hparams", "metrics", "ended",
    "capture_after",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """An open, empty store: each test that asks runs once on SQLite and once on PostgreSQL.

    The tests of one process share both: making a database and warming up takes longer than most of them. Who wants to
    close a store opens another one on the same `url`.
    """
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.getbasetemp() / "shared.db")
    else:
        url = shared_database(request.getfixturevalue("postgres_url"))
    lab = Lab(shared_store(url), url)
    lab.clear()
    return lab


#: Open as long as the process lives.
shared_store = cache(Store)


@cache
def shared_database(server: str) -> str:
    """The URL of a database on that server that goes with it; the same one each time."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE shared"))
    return sa.make_url(server).set(database="shared").render_as_string(hide_password=False)


def at_once(*works: Callable[[], T]) -> list[T]:
    """Has each done in a thread of its own, all beginning together; gives their answers, or raises what one raised."""
    start = threading.Barrier(len(works))

    def wait_and_do(work: Callable[[], T]) -> T:
        start.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(wait_and_do, works))


def job_spec(*argvs: tuple[str, ...], **fields: Any) -> JobSpec:
    """A job of one run per `argv` (of one run of ``true`` without any)."""
    runs = tuple(RunSpec(argv=argv) for argv in argvs or (("true",),))
    return JobSpec(**{"kind": CommandKind.COMMAND, "display": runs[0].argv, "runs": runs, **fields})


@dataclass
class Lab:
    """The store, with what tests do to it and ask of it in one line."""

    store: Store
    url: str
    jobs: Jobs = field(default_factory=Jobs)
    _count: int = 0

    @contextmanager
    def twin(self) -> Iterator[Lab]:
        """Another hub on the same database. On SQLite there cannot be one: there it is this one again."""
        if not self.url.startswith("postgresql"):
            yield self
            return
        other = Store(self.url)
        try:
            yield Lab(other, self.url)
        finally:
            other.close()

    def clear(self) -> None:
        """Empties every table; numbers begin anew."""

        def work(tx: Tx) -> None:
            for table in schema.metadata.sorted_tables:
                count = tx.connection.execute(table.delete()).rowcount
                if count and tx.connection.dialect.name == "postgresql":
                    if count > 1000:  # what was deleted would be in the way of every later test
                        tx.connection.execute(sa.text(f"TRUNCATE {table.name}"))
                    if "id" in table.c:
                        sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                        tx.connection.execute(sa.text(f"SELECT setval({sequence}, 1, false)"))

        self.store.write(work)
        self.jobs = Jobs()

    def submit(self, *argvs: tuple[str, ...], **fields: Any) -> list[str]:
        """Submits a job and gives the names of its runs."""
        self._count += 1
        order = Submission(spec=job_spec(*argvs, **fields), principal="user", key=f"key-{self._count}", body=b"")
        answer = self.store.write(lambda tx: submit(tx, order))["runs"]
        assert isinstance(answer, list)
        return answer

    def agent(self, target: str = "local", node: str = "node1", queue: str | None = None) -> Agent:
        """An agent that was launched and is up."""
        self._count += 1
        number, tokens = self._count, {"launch_token": f"launch-{self._count}", "token_hash": f"hash-{self._count}"}
        place = {"target": target, "node": node, "directory": "", "queue": queue}
        made = self.store.write(lambda tx: agents.insert_agent(tx, **place, **tokens))  # type: ignore[arg-type]
        self.store.write(lambda tx: agents.set_up(tx, made, json.dumps({"cpus": number})))
        return Agent(self, made, target, node, queue)

    def started(self, **fields: Any) -> tuple[Agent, Grant]:
        """A run of a new job that a new agent has."""
        self.submit(**fields)
        agent = self.agent()
        (grant,) = agent.take(1)
        return agent, grant

    def cancel(self, *names: str) -> dict[str, str]:
        """Cancels runs; gives the outcome for each run that was concerned."""
        runs = [self.id(name) for name in names]
        return {item.name: item.outcome for item in self.store.write(lambda tx: steer.cancel(tx, runs, by="me"))}

    def lose(self, agent: Agent, message: str = "silent") -> list[int]:
        return self.store.write(lambda tx: steer.lose(tx, agent.id, Lost(message=message)))

    def read(self, ask: Callable[[sa.Connection], T]) -> T:
        with self.store.read() as connection:
            return ask(connection)

    def id(self, name: str) -> int:
        return self.read(lambda connection: reads.find_run(connection, name))

    def show(self, name: str) -> dict[str, Any]:
        run = self.id(name)
        (view,) = self.read(lambda connection: reads.show_runs(connection, [run], children=True))
        return view

    def states(self, *names: str) -> list[str]:
        return [self.show(name)["state"] for name in names]

    def events(self, name: str) -> list[str]:
        run = self.id(name)
        return [event["event"] for event in self.read(lambda connection: reads.run_events(connection, run))]

    def event(self, name: str, event: str) -> dict[str, Any]:
        """The data of the only event of that name."""
        run = self.id(name)
        events = self.read(lambda connection: reads.run_events(connection, run))
        (found,) = (item["data"] for item in events if item["event"] == event)
        assert isinstance(found, dict)
        return found

    def attempts(self, name: str) -> list[dict[str, Any]]:
        run = self.id(name)
        return self.read(lambda connection: reads.run_attempts(connection, run))

    def output(self, name: str, attempt: int = 1) -> bytes:
        run = self.id(name)
        return self.read(lambda connection: reads.read_output(connection, run, attempt, 0, PLENTY))

    def series(self, name: str, metric: str) -> metrics.Series:
        run = self.id(name)
        return self.read(lambda connection: metrics.read(connection, run, [metric]))[metric]

    def record(self, name: str) -> RunRecord:
        """The mutable part of a run's row."""
        run = self.id(name)

        def load(tx: Tx) -> RunRecord | None:
            ledger = Ledger(tx)
            ledger.load([run])
            return ledger.get(run)

        found = self.store.write(load)
        assert found is not None
        return found

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table: what was not touched is equal before and after."""
        with self.store.read() as connection:
            return {
                table.name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
                for table in schema.metadata.sorted_tables
            }


@dataclass(frozen=True)
class Agent:
    """An agent as the store sees it. `take` and `tell` are one transaction each."""

    lab: Lab
    id: int
    target: str = "local"
    node: str = "node1"
    queue: str | None = None

    def at(self, lab: Lab) -> Agent:
        """The same agent, speaking to another hub."""
        return replace(self, lab=lab)

    def take(self, slots: float = PLENTY, **room: Any) -> list[Grant]:
        free = {"max_runs": 4, "slots": slots, "memory": PLENTY, "gpus": 8, "running": {}, **room}
        free["gpus"] = free_gpus(free["gpus"])
        taker = Taker(agent=self.id, queue=self.queue or self.target, node=self.node, room=Room(**free))
        return self.lab.store.write(lambda tx: take(tx, self.lab.jobs, taker)).grants

    def tell(self, *items: Fact | Piece) -> Receipt:
        """One report of these facts and pieces of streams."""
        facts = tuple(item for item in items if isinstance(item, Fact))
        chunks = tuple((item[0], memoryview(item[1])) for item in items if not isinstance(item, Fact))
        return self.lab.store.write(lambda tx: report(tx, Telling(self.id, facts, chunks)))

    def run(self, grant: Grant, *, exit_code: int | None = 0, **body: Any) -> Receipt:
        """All of an attempt in one report: it is staged, runs and ends without output."""
        return self.tell(staged(grant), running(grant), ended(grant, exit_code=exit_code, **body), captured(grant))


def fact(grant: Grant, kind: str, **body: Any) -> Fact:
    return Fact(grant.run, grant.attempt, kind, 0.0, body)


def staged(grant: Grant) -> Fact:
    return fact(grant, "staged", files=2, bytes=10, cached=0)


def running(grant: Grant) -> Fact:
    return fact(grant, "running", pid=4711)


def ended(grant: Grant, *, exit_code: int | None = 0, **body: Any) -> Fact:
    return fact(grant, "ended", **{"cause": "exit", "exit_code": exit_code, "signal": None, "message": "", **body})


def captured(grant: Grant, output: bytes = b"", **body: Any) -> Fact:
    """The last fact of an attempt that printed `output`."""
    seal = {"output_bytes": len(output), "output_sha256": hashlib.sha256(output).hexdigest()}
    return fact(grant, "captured", **{"manifest": None, "files": 0, "bytes": 0, **seal, **body})


def returned(grant: Grant) -> Fact:
    return fact(grant, "returned")


def output(grant: Grant, content: bytes, offset: int = 0) -> Piece:
    return Chunk(grant.run, grant.attempt, "output", offset, len(content)), content


def spool(grant: Grant, content: bytes, offset: int = 0, writer: str = "1-a.0000") -> Piece:
    return Chunk(grant.run, grant.attempt, f"track/{writer}", offset, len(content)), content


def framed(*records: object, first: int = 0) -> bytes:
    """Records as a run's process writes them: one frame each, numbered from `first`."""
    return b"".join(frames.encode(seq, json.dumps(record).encode()) for seq, record in enumerate(records, first))


def logged(step: int | None, /, **values: float) -> dict[str, Any]:
    return {"t": 1700000000.0, **({} if step is None else {"s": step}), "m": values}
