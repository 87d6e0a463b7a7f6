"""The hub's process: routes (as in ``turnout.hub.wire`` and ``.api``), the writer's queue and the engine's rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from turnout.engine.changing import Change
from turnout.engine.report import Receipt, Telling
from turnout.engine.sessions import Session, Sessions
from turnout.engine.steer import Cancelled
from turnout.engine.submit import PipelineSubmission, Submission
from turnout.model.pipeline import FAIL_FAST
from turnout.model.spec import JobSpec
from turnout.schedule.lease import LeaseTable
from turnout.schedule.record import RunRecord
from turnout.store.agents import Agent
from turnout.store.searches import Standing
from turnout.testing.simulator.link import Call, Handler, Refused
from turnout.testing.simulator.memory import Graph
from turnout.testing.simulator.world import LEASE, Killed, Process, World
from turnout.wire.messages import Attempt, Grant, Hello, Orders, Poll, Report, Welcome

T = TypeVar("T")
_INTERVAL = LEASE / 12
_MARGIN = LEASE / 2
_SLOWEST_COMMIT = LEASE


class Engine(Protocol):
    """What decides and remembers behind the routes: the real one, or its model."""

    def recover(self) -> None: ...
    def tend(self, now: float) -> None: ...
    def look(self) -> None:
        """After what concerns pipelines was written, and once at its begin."""

    def agent_of(self, token: str) -> Agent | None: ...
    def welcome(self, agent: Agent, hello: Hello) -> Future[Welcome]: ...
    def hear(self, session: Session, poll: Poll) -> list[Attempt]: ...
    def take(self, session: Session) -> Future[list[Grant]] | None: ...
    def report(self, session: Session, telling: Telling) -> Future[Receipt]: ...
    def orders(self, session: Session, fenced: list[Attempt], receipt: Receipt | None = None) -> Orders: ...
    def submit(self, submission: Submission | PipelineSubmission) -> Future[dict[str, object]]: ...
    def cancel(self, runs: list[int], *, by: str = "user", job: int | None = None) -> Future[list[Cancelled]]: ...
    def restart(self, runs: list[int]) -> Future[list[RunRecord]]: ...
    def change(self, key: str, job: int, asked: Change) -> Future[dict[str, object]]: ...
    def resume(self, key: str, job: int) -> Future[dict[str, object]]: ...
    def runs_of(self, names: list[str]) -> list[int]: ...


@dataclass(slots=True, eq=False)
class _Waiting:
    """A long poll that has nothing to say yet."""

    session: Session
    fenced: list[Attempt]
    call: Call
    deadline: float
    news: bool = False
    looking: bool = False


class Watched:
    """Rows of runs; `look` after each piece of work of a transaction tells `on_change` of those that changed, then
    `on_search` of each search, with the runs of its job, and `on_graph` of all pipelines, with all runs."""

    def __init__(
        self,
        on_change: Callable[[RunRecord | None, RunRecord], None],
        on_search: Callable[[Standing, JobSpec, list[RunRecord]], None],
        on_graph: Callable[[Graph, Mapping[int, RunRecord], Mapping[int, int]], None],
    ) -> None:
        self.known: dict[int, RunRecord] = {}
        self._on_change = on_change
        self._on_search = on_search
        self._on_graph = on_graph

    def look(
        self,
        records: Iterable[RunRecord],
        searches: Mapping[int, Standing],
        specs: Mapping[int, JobSpec],
        jobs: Mapping[int, int],
        graph: Graph,
    ) -> None:
        """`searches` and their `specs` by their jobs; `jobs` are those of the runs."""
        has_changed = False
        for record in records:
            old = self.known.get(record.id)
            if record is not old and record != old:
                self.known[record.id] = record
                self._on_change(old, record)
                has_changed = True
        if has_changed:
            for job, standing in searches.items():
                mine = [record for run, record in self.known.items() if jobs[run] == job]
                self._on_search(standing, specs[job], mine)
        if graph.steps:
            self._on_graph(graph, self.known, jobs)


class Writer:
    """Commits what was submitted together, a little later, in order; answers after the commit."""

    def __init__(self, hub: Hub, transact: Callable[[list[Callable[[Any], Any]]], tuple[list[Any], set[str]]]) -> None:
        self._hub = hub
        self._transact = transact
        self._queue: list[tuple[Callable[[Any], Any], Future[Any]]] = []

    def submit(self, work: Callable[[Any], T]) -> Future[T]:
        future: Future[T] = Future()
        if not self._queue:
            slow = self._hub.world.chance(self._hub.slow_commits)
            if slow:
                self._hub.world.sometimes("slow commit")
            self._hub.after(self._hub.world.rng.uniform(0.0, _SLOWEST_COMMIT if slow else 0.005), self._commit)
        self._queue.append((work, future))
        return future

    def write(self, work: Callable[[Any], T]) -> T:
        """At once, behind what waits already."""
        future: Future[T] = Future()
        self._queue.append((work, future))
        self._commit()
        return future.result()

    def _commit(self) -> None:
        batch, self._queue = self._queue, []
        if not batch:
            return
        hub = self._hub
        results, touched = self._transact([work for work, _ in batch])
        if hub.world.chance(hub.crash_after_commit):
            hub.world.sometimes("hub killed between commit and answer")
            hub.crash()
            raise Killed
        for (_, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        hub.publish(touched)


class Hub(Process):
    """`make` gives a fresh engine on what is committed: all that a hub has after a restart."""

    def __init__(self, world: World, make: Callable[[Hub], Engine]) -> None:
        super().__init__(world, "hub")
        self._make = make
        self.slept = 0.0
        self.crash_after_commit = 0.0
        self.slow_commits = 0.0
        self._calls: dict[Call, None] = {}
        self._polls: list[_Waiting] = []

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.begin()
        self.world.note("hub", "begins")
        self.sessions = Sessions(LeaseTable(LEASE, _MARGIN))
        self._calls, self._polls = {}, []
        self._woken = False
        self.do(self.life, self._boot)

    def _boot(self) -> None:
        self.engine = self._make(self)
        self.engine.recover()
        self.engine.look()
        self._round()

    def crash(self) -> None:
        """Ends, with all that was in memory; whoever was connected notices. It is started again a little later."""
        self.world.note("hub", "is killed")
        self.kill()
        for call in self._calls:
            call.reset()
        self._calls, self._polls = {}, []
        self.world.clock.after(self.world.rng.choice((0.05, 0.3, 1.0, LEASE)), self.start)

    def monotonic(self) -> float:
        """Its clock stands while its machine sleeps."""
        return self.world.now - self.slept

    def _round(self) -> None:
        self._look_now()
        self.after(_INTERVAL, self._round)

    def _look_now(self) -> None:
        self._woken = False
        self.engine.tend(self.monotonic())

    # --- requests -----------------------------------------------------------------------------------------------------

    def receive(self, call: Call, handler: Handler) -> None:
        """A request arrived at this machine."""
        if not self.alive:
            call.reset()
        else:
            self.do(self.life, partial(self._serve, call, handler))

    def _serve(self, call: Call, handler: Handler) -> None:
        self._calls[call] = None
        handler(call)

    def _answer(self, call: Call, message: object) -> None:
        self._calls.pop(call, None)
        call.answer(message)

    def on_hello(self, token: str, hello: Hello, call: Call) -> None:
        agent = self._agent(token, call)
        if agent is not None:
            self._then(self.engine.welcome(agent, hello), call, lambda welcome: self._answer(call, welcome))

    def on_poll(self, token: str, poll: Poll, call: Call) -> None:
        session = self._session(token, call)
        if session is None:
            return
        fenced = self.engine.hear(session, poll)
        waiting = _Waiting(session, fenced, call, self.world.now + min(poll.wait, LEASE / 3))
        self._polls.append(waiting)
        self._look(waiting)

    def on_report(self, token: str, report: Report, payloads: list[bytes], call: Call) -> None:
        session = self._session(token, call)
        if session is None:
            return
        fenced = self.engine.hear(session, report.poll)
        chunks = tuple((chunk, memoryview(content)) for chunk, content in zip(report.chunks, payloads, strict=True))
        telling = Telling(session.agent, tuple(report.facts), chunks)

        reporting, taking = self.engine.report(session, telling), self.engine.take(session)  # one commit for both

        def told(receipt: Receipt) -> None:
            if taking is None:
                self._with_orders(session, fenced, receipt, call, answer)
            else:
                self._then(taking, call, partial(taken, receipt))

        def taken(receipt: Receipt, grants: list[Grant]) -> None:
            if grants:
                answer(self.engine.orders(session, fenced, receipt))
            else:
                self._with_orders(session, fenced, receipt, call, answer)

        def answer(orders: Orders) -> None:
            self._answer(call, orders)

        self._then(reporting, call, told)

    def on_submit(self, submission: Submission | PipelineSubmission, call: Call) -> None:
        self._then(self.engine.submit(submission), call, lambda answer: self._answer(call, answer))

    def on_cancel(self, names: list[str], call: Call) -> None:
        self._cancel(self.engine.cancel(self.engine.runs_of(names)), call)

    def on_cancel_all(self, job: int, call: Call) -> None:
        """Of a pipeline."""
        self._cancel(self.engine.cancel([], job=job), call)

    def _cancel(self, cancelling: Future[list[Cancelled]], call: Call) -> None:
        def cancelled(done: list[Cancelled]) -> None:
            self._tell_agents(done)
            self._answer(call, done)

        self._then(cancelling, call, cancelled)

    def end_pipeline(self, job: int) -> None:
        """For the engine: the first failure shall end all of it."""
        ending = self.engine.cancel([], by=FAIL_FAST, job=job)
        ending.add_done_callback(lambda future: self._tell_agents(future.result()))

    def _tell_agents(self, cancelled: list[Cancelled]) -> None:
        self.publish({f"agent:{item.agent}" for item in cancelled if item.agent is not None})

    def on_restart(self, names: list[str], call: Call) -> None:
        def restarted(asked: list[RunRecord]) -> None:
            self.publish({f"agent:{record.agent}" for record in asked})
            self._answer(call, asked)

        self._then(self.engine.restart(self.engine.runs_of(names)), call, restarted)

    def on_change(self, key: str, job: int, asked: Change, call: Call) -> None:
        self._then(self.engine.change(key, job, asked), call, lambda answer: self._answer(call, answer))

    def on_resume(self, key: str, job: int, call: Call) -> None:
        self._then(self.engine.resume(key, job), call, lambda answer: self._answer(call, answer))

    def _agent(self, token: str, call: Call) -> Agent | None:
        agent = self.engine.agent_of(token)
        if agent is None:
            self.world.sometimes("refused: unknown token")
            self._answer(call, Refused(401, "unknown token"))
        return agent

    def _session(self, token: str, call: Call) -> Session | None:
        agent = self._agent(token, call)
        if agent is None:
            return None
        session = self.sessions.get(agent.id)
        if session is None:
            self._answer(call, Refused(409, "say hello first"))
        return session

    def _then(self, future: Future[T], call: Call, go_on: Callable[[T], None]) -> None:
        """What a coroutine does after `await`; a refusal of the engine is the answer."""

        def done(future: Future[T]) -> None:
            error = future.exception()
            if isinstance(error, Refused):
                self._answer(call, error)
            elif error is not None:
                self.world.problem(error)
            else:
                try:
                    go_on(future.result())
                except Exception as problem:  # a future would only log it
                    self.world.problem(problem)

        future.add_done_callback(done)

    def _with_orders(
        self,
        session: Session,
        fenced: list[Attempt],
        receipt: Receipt | None,
        call: Call,
        go_on: Callable[[Orders], None],
    ) -> None:
        taking = self.engine.take(session)
        if taking is None:
            go_on(self.engine.orders(session, fenced, receipt))
        else:
            self._then(taking, call, lambda _: go_on(self.engine.orders(session, fenced, receipt)))

    # --- long polls ---------------------------------------------------------------------------------------------------

    def publish(self, topics: set[str]) -> None:
        """Wakes whoever waits for one of these."""
        if not self._woken and any(topic.startswith("queue") for topic in topics):
            self._woken = True
            self.after(0.0, self._look_now)
        if "pipelines" in topics:
            self.after(0.0, self.engine.look)
        for waiting in self._polls:
            session = waiting.session
            if not topics.isdisjoint((f"queue:{session.queue}", "queue", f"agent:{session.agent}")):
                waiting.news = True
                if not waiting.looking:
                    self.after(0.0, partial(self._look, waiting))

    def _look(self, waiting: _Waiting) -> None:
        if waiting.looking or waiting not in self._polls:
            return
        waiting.looking, waiting.news = True, False
        self._with_orders(waiting.session, waiting.fenced, None, waiting.call, partial(self._decide, waiting))

    def _decide(self, waiting: _Waiting, orders: Orders) -> None:
        waiting.looking = False
        left = waiting.deadline - self.world.now
        if orders.grants or orders.stops or orders.fenced or orders.exit or left <= 0:
            self._polls.remove(waiting)
            self._answer(waiting.call, orders)
        else:
            self.after(0.0 if waiting.news else left, partial(self._look, waiting))
