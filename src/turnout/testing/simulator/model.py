"""The model of the engine: ``engine.dispatch`` and ``engine.fleet`` over `actions` on a disk in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from turnout.engine.changing import Change
from turnout.engine.quiet import Quiet
from turnout.engine.report import Receipt, Telling
from turnout.engine.sessions import Session
from turnout.engine.steer import Cancelled
from turnout.engine.submit import PipelineSubmission, Submission
from turnout.engine.take import Taken, Taker
from turnout.engine.target import Target
from turnout.model.state import Reason
from turnout.plugin.provider import Failure, Launch
from turnout.schedule.record import Cause, Lost, Returned, RunRecord
from turnout.store.agents import Agent, AgentState
from turnout.store.ledger import is_waiting
from turnout.testing.simulator import actions, seeking
from turnout.testing.simulator.desk import Desk
from turnout.testing.simulator.expander import Expander
from turnout.testing.simulator.hub import Hub, Watched, Writer
from turnout.testing.simulator.link import Refused
from turnout.testing.simulator.memory import Disk, Tx
from turnout.testing.simulator.sampling import Life, Makers
from turnout.testing.simulator.world import LEASE
from turnout.wire.messages import Attempt, Grant, Hello, JobOrder, Orders, Poll, Stop, Welcome

A = TypeVar("A")
B = TypeVar("B")
IDLE = 1.5
GLANCE = 0.5
MAX_RUNS = 3
NODE = "yard"


class ModelEngine:
    """One life of a hub. All that outlives it is `disk`."""

    def __init__(
        self, hub: Hub, disk: Disk, targets: Mapping[str, Target], watched: Watched, lives: list[Life]
    ) -> None:  # fmt: skip
        self._hub = hub
        self._disk = disk
        self._watched = watched
        self._sessions = hub.sessions
        self._targets = {name: Target(name, target.provider) for name, target in targets.items()}
        self._writer = Writer(hub, self._transact)
        self._known: dict[int, Agent] = {}
        self._quiet = Quiet()
        self._next_glance = 0.0
        self._desk = Desk(disk, Makers(lives), self._writer.write, self._end)
        self._expander = Expander(hub, disk, self._writer.write, hub.end_pipeline)

    def _transact(self, works: list[Callable[[Tx], Any]]) -> tuple[list[Any], set[str]]:
        tx = Tx(self._disk, self._hub.world.clock.time())
        results: list[Any] = []
        for work in works:
            try:
                results.append(work(tx))
            except Refused as refusal:
                results.append(refusal)
            disk = self._disk
            jobs = {run: row.job for run, row in disk.rows.items()} if disk.searches or disk.graph.steps else {}
            self._watched.look(disk.records.values(), disk.searches, disk.jobs, jobs, disk.graph)
        self._hub.world.seen |= tx.seen
        self._quiet.stir(tx.touched)
        return results, tx.touched

    # --- the conversation with agents ---------------------------------------------------------------------------------

    def agent_of(self, token: str) -> Agent | None:
        found = (agent for agent, known in self._disk.tokens.items() if known == token)
        return self._disk.agents.get(next(found, 0))

    def welcome(self, agent: Agent, hello: Hello) -> Future[Welcome]:
        held = frozenset(hello.held)

        def work(tx: Tx) -> tuple[list[Grant], dict[Attempt, str | None]]:
            if agent.id not in tx.disk.agents:
                raise Refused(401, "this agent was given up")
            if tx.disk.boots.setdefault(agent.id, hello.facts.boot_id) != hello.facts.boot_id:
                # What its machine does not remember may have been executed before it went down.
                tx.disk.boots[agent.id] = hello.facts.boot_id
                actions.lose(tx, agent.id, Lost(message="its machine was restarted"), keep=held)
            return actions.held_by(tx, agent.id, MAX_RUNS)

        def answer(result: tuple[list[Grant], dict[Attempt, str | None]]) -> Welcome:
            grants, current = result
            self._new_session(agent, grants, current).greet(hello)
            fenced = [attempt for attempt in hello.held if attempt not in current]
            return Welcome(agent.node, LEASE, IDLE, MAX_RUNS, fenced)

        return _then(self._writer.submit(work), answer)

    def hear(self, session: Session, poll: Poll) -> list[Attempt]:
        self._sessions.renew(session.agent, self._hub.monotonic())
        session.hear(poll)
        return [attempt for attempt in poll.held if attempt not in session.held]

    def take(self, session: Session) -> Future[list[Grant]] | None:
        room = session.room()
        if session.taking or session.leaving or self._newest(session) is not session or room.slots + room.ahead <= 0:
            return None
        if self._quiet.is_empty(session.queue, self._hub.monotonic()):
            self._hub.world.sometimes("queue known to be empty")
            return None
        session.taking = True
        stamp = self._quiet.stamp(session.queue)
        taker = Taker(agent=session.agent, queue=session.queue, node=session.node, room=room)

        def done(future: Future[Taken]) -> None:
            session.taking = False
            if future.exception() is None:
                self._newest(session).grant(future.result().grants)
                if not future.result().saw_any:
                    self._quiet.found_empty(session.queue, stamp, self._hub.monotonic())

        future = self._writer.submit(lambda tx: actions.take(tx, taker))
        future.add_done_callback(done)
        return _then(future, lambda taken: taken.grants)

    def report(self, session: Session, telling: Telling) -> Future[Receipt]:
        def answer(receipt: Receipt) -> Receipt:
            self._newest(session).release(receipt.closed | receipt.fenced)
            return receipt

        return _then(self._writer.submit(lambda tx: actions.report(tx, telling)), answer)

    def orders(self, session: Session, fenced: list[Attempt], receipt: Receipt | None = None) -> Orders:
        receipt = receipt or Receipt()
        grants = list(session.unconfirmed.values())
        jobs = sorted({grant.order for grant in grants} - session.orders_known)
        return Orders(
            grants=grants, jobs=[_job_order(job) for job in jobs], stops=list(session.stops.values()),
            fenced=[*fenced, *(attempt for attempt in receipt.fenced if attempt not in fenced)],
            refused=receipt.refused, acks=receipt.acks, exit=session.leaving,
        )  # fmt: skip

    def _newest(self, session: Session) -> Session:
        """What the agent of this session has now: it may have begun anew while an answer to it was under way."""
        return self._sessions.get(session.agent) or session

    # --- people -------------------------------------------------------------------------------------------------------

    def submit(self, submission: Submission | PipelineSubmission) -> Future[dict[str, object]]:
        if isinstance(submission, PipelineSubmission):
            return self._writer.submit(lambda tx: actions.submit_pipeline(tx, submission))
        return self._writer.submit(lambda tx: actions.submit(tx, submission))

    def runs_of(self, names: list[str]) -> list[int]:
        return [run for run, row in self._disk.rows.items() if row.name in names]

    def cancel(self, runs: list[int], *, by: str = "user", job: int | None = None) -> Future[list[Cancelled]]:
        def answer(cancelled: list[Cancelled]) -> list[Cancelled]:
            for item in cancelled:
                session = self._sessions.get(item.agent) if item.agent is not None else None
                if session is not None:
                    session.stops[item.run, item.attempt] = Stop(item.run, item.attempt, Cause.CANCELLED)
            return cancelled

        return _then(self._writer.submit(lambda tx: actions.cancel(tx, runs, by=by, job=job)), answer)

    def restart(self, runs: list[int]) -> Future[list[RunRecord]]:
        def answer(asked: list[RunRecord]) -> list[RunRecord]:
            for record in asked:
                session = self._sessions.get(record.agent) if record.agent is not None else None
                if session is not None:
                    stop = Stop(record.id, record.attempt, Cause.PREEMPTED)
                    session.stops.setdefault((record.id, record.attempt), stop)
            return asked

        return _then(self._writer.submit(lambda tx: actions.preempt(tx, runs)), answer)

    def change(self, key: str, job: int, asked: Change) -> Future[dict[str, object]]:
        return self._writer.submit(lambda tx: seeking.change(tx, key, job, asked))

    def resume(self, key: str, job: int) -> Future[dict[str, object]]:
        raise NotImplementedError("only the real engine takes pipelines up again")

    def _end(self, runs: list[RunRecord]) -> None:
        """Their nodes have to end them."""
        for record in runs:
            session = self._sessions.get(record.agent) if record.agent is not None else None
            if session is not None and record.cancel is not None:
                stop = Stop(record.id, record.attempt, record.cancel.order)
                session.stops.setdefault((record.id, record.attempt), stop)
        self._hub.publish({f"agent:{record.agent}" for record in runs})

    def look(self) -> None:
        self._expander.look()

    # --- the fleet ----------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        for agent in list(self._disk.agents.values()):
            handle = agent.handle or self._targets[agent.target].provider.find(agent.launch_token)
            if handle is None:
                self._give_up(agent, "it was never started")
                continue
            self._known[agent.id] = agent if agent.handle else self._set_handle(agent, handle)
            grants, current = self._writer.write(lambda tx, a=agent: actions.held_by(tx, a.id, MAX_RUNS))  # type: ignore[misc]
            self._new_session(agent, grants, current)

    def tend(self, now: float) -> None:
        for agent_id in self._sessions.lost(now):
            if agent_id in self._known:
                self._give_up(self._known[agent_id], "no sign of life")
        for _, target in sorted(self._targets.items()):
            mine = {agent.id for agent in self._known.values() if agent.target == target.name}
            for agent_id, attempts in self._sessions.dropped().items():
                if agent_id in mine:
                    self._lose(agent_id, attempts)
            self._observe(target, now)
            self._start_needed(target, now)
            self._send_home(target)
        is_glance = now >= self._next_glance
        self._next_glance = now + GLANCE if is_glance else self._next_glance
        self._desk.tend(self._hub.world.clock.time(), is_glance=is_glance)

    def _observe(self, target: Target, now: float) -> None:
        mine = {agent.handle or "": agent for agent in self._known.values() if agent.target == target.name}
        try:
            seen = target.provider.observe(list(mine)) if mine else {}
        except Failure:
            return
        for handle, agent in mine.items():
            session = self._sessions.get(agent.id)
            if handle in seen:
                if session is not None and session.heard:
                    target.heard()
            elif session is None or not session.held:
                self._forget(agent)
            elif now >= target.not_before:
                self._hub.world.sometimes("agent started again")
                was_heard, session.heard = session.heard, False
                self._launch(target, agent, now)
                if was_heard:
                    self._sessions.renew(agent.id, now)

    def _start_needed(self, target: Target, now: float) -> None:
        if now < target.not_before:
            return
        rows = [self._disk.rows[record.id] for record in self._disk.records.values() if is_waiting(record)]
        served = {agent.queue for agent in self._known.values()}
        for queue in sorted({row.queue for row in rows if row.target == target.name} - served):
            self._start(target, queue, now)

    def _send_home(self, target: Target) -> None:
        rows, records = self._disk.rows, self._disk.records.values()
        busy = {rows[record.id].queue for record in records if not record.is_terminal}
        own = [agent for agent in self._known.values() if agent.target == target.name and "#" in agent.queue]
        for agent in own:
            session = self._sessions.get(agent.id)
            if agent.queue not in busy and session is not None and not session.held:
                session.leaving = True

    def _start(self, target: Target, queue: str, now: float) -> None:
        def intent(tx: Tx) -> Agent:
            number = tx.disk.agents_ever = tx.disk.agents_ever + 1
            agent = Agent(
                id=number, target=target.name, queue=queue, node=NODE + "".join(queue.partition("#")[1:]),
                directory=str(number), handle=None,
                launch_token=f"launch{number}", state=AgentState.LAUNCHING, created=tx.now,
            )  # fmt: skip
            tx.disk.agents[number] = agent
            return agent

        agent = self._writer.write(intent)
        self._sessions.open(Session(agent.id, target.name, agent.node, 1, queue=queue), now)
        self._launch(target, agent, now)

    def _launch(self, target: Target, agent: Agent, now: float) -> None:
        """Starts the agent's process with a fresh token; the old one opens nothing any more."""
        token = self._writer.write(lambda tx: _new_token(tx, agent.id))
        order = {"token": token, "directory": agent.directory}
        launch = Launch(agent.launch_token, agent.node, agent.directory, (), json.dumps(order).encode())
        (answer,) = target.provider.submit([launch])
        if isinstance(answer, Failure):
            target.tried(now, answer.message)
            session = self._sessions.get(agent.id)
            if session is None or not session.held:
                self._forget(agent)
            return
        target.tried(now)
        self._known[agent.id] = self._set_handle(agent, answer)

    def _set_handle(self, agent: Agent, handle: str) -> Agent:
        def work(tx: Tx) -> Agent:
            known = tx.disk.agents[agent.id] = replace(agent, handle=handle)
            return known

        return self._writer.write(work)

    def _lose(self, agent: int, attempts: set[Attempt]) -> None:
        """The agent named them and has them no more; nobody heard how they ended."""
        self._hub.world.sometimes("attempt dropped without a word")
        lost = Lost(reason=Reason.INFRA, message="its agent let go of it without a word")
        self._writer.write(lambda tx: actions.lose(tx, agent, lost, only=attempts))
        self._sessions.release(agent, attempts)

    def _give_up(self, agent: Agent, why: str) -> None:
        """The agent is lost: its runs go back to the queue or end."""
        self._drop(agent, why, Lost(message=why))

    def _forget(self, agent: Agent) -> None:
        """It left with nothing in hand: a grant that was being made for it at that moment reached nobody."""
        self._drop(agent, "it left", Returned())

    def _drop(self, agent: Agent, why: str, fact: Lost | Returned) -> None:
        def work(tx: Tx) -> list[Attempt]:
            del tx.disk.agents[agent.id]  # its token is worth nothing from now on
            return actions.lose(tx, agent.id, fact)

        lost = self._writer.write(work)
        self._hub.world.note("hub", "gives up agent", agent.id, why, lost)
        self._hub.world.sometimes(f"agent given up: {why}{', with runs' if lost else ''}")
        self._sessions.drop(agent.id)
        self._known.pop(agent.id, None)

    def _new_session(self, agent: Agent, grants: list[Grant], current: dict[Attempt, str | None]) -> Session:
        session = Session(agent.id, agent.target, agent.node, MAX_RUNS, queue=agent.queue)
        session.grant(grants)
        asked = {attempt: Cause(cause) for attempt, cause in current.items() if cause is not None}
        session.stops = {attempt: Stop(*attempt, cause.order) for attempt, cause in asked.items()}
        return self._sessions.open(session, self._hub.monotonic())


def _new_token(tx: Tx, agent: int) -> str:
    tx.disk.launches += 1
    token = tx.disk.tokens[agent] = f"token{tx.disk.launches}"
    return token


def _job_order(job: int) -> JobOrder:
    return JobOrder(job, "", "", "", None, None, None, [], {}, None, 0.0, None)


def _then(future: Future[A], answer: Callable[[A], B]) -> Future[B]:
    chained: Future[B] = Future()

    def done(first: Future[A]) -> None:
        error = first.exception()
        if error is not None:
            chained.set_exception(error)
            return
        try:
            chained.set_result(answer(first.result()))
        except Exception as problem:
            chained.set_exception(problem)

    future.add_done_callback(done)
    return chained
