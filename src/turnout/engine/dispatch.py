"""The hub's side of the conversation with agents, without the waiting: what each message does and what is answered."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from typing import TypeVar

from turnout.engine import steer
from turnout.engine.quiet import Quiet
from turnout.engine.report import Receipt, Telling, report
from turnout.engine.sessions import Session, Sessions
from turnout.engine.take import Jobs, Taken, Taker, held_by, job_orders, take
from turnout.errors import Denied
from turnout.schedule.record import Cause, Lost, Returned, RunRecord
from turnout.store.agents import Agent, boot_of, set_kept, set_up
from turnout.store.store import Store
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt, Grant, Hello, JobOrder, Orders, Poll, Stop, Welcome
from turnout.wire.protocol import PROTOCOL

A = TypeVar("A")
B = TypeVar("B")
_ORDERS_KEPT = 200


class Dispatch:
    """Every method may be called from any thread; those that write give a future that is answered after the commit."""

    def __init__(
        self, store: Store, sessions: Sessions, *, max_runs: Callable[[Agent, int], int],
        idle: Callable[[Agent], float], quiet: Quiet | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._sessions = sessions
        self._max_runs = max_runs
        self._idle = idle
        self._quiet = quiet
        self._jobs = Jobs()
        self._orders: OrderedDict[int, JobOrder] = OrderedDict()

    def welcome(self, agent: Agent, hello: Hello) -> Future[Welcome]:
        """An agent's process began. It keeps what it still holds by right, is told what to drop, and will be granted
        again what the store says it has and it does not know of. Denied when it was given up meanwhile."""
        held = set(hello.held)
        max_runs = self._max_runs(agent, hello.facts.cpus)

        def work(tx: Tx) -> tuple[list[Grant], dict[Attempt, str | None]]:
            rebooted = boot_of(tx, agent.id) not in (None, hello.facts.boot_id)
            if not set_up(tx, agent.id, json.dumps(asdict(hello.facts))):
                raise Denied(
                    "this agent was given up", hint="its runs went elsewhere; a new one is started when needed"
                )
            if rebooted:
                steer.lose(tx, agent.id, Lost(message="its machine was restarted"), keep=held)
            elif hello.protocol != PROTOCOL:  # it is not told of anything that it does not have already
                steer.lose(tx, agent.id, Returned(), keep=held)
            return held_by(tx, self._jobs, agent.id, max_runs)

        def answer(result: tuple[list[Grant], dict[Attempt, str | None]]) -> Welcome:
            grants, current = result
            self._new_session(agent, max_runs, current, grants, hello)
            fenced = [attempt for attempt in held if attempt not in current]
            lease = self._sessions.lease_seconds
            return Welcome(node=agent.node, lease=lease, idle=self._idle(agent), max_runs=max_runs, fenced=fenced)

        return _then(self._store.submit(work), answer)

    def recover(self, agent: Agent, *, is_leased: bool = True) -> Session:
        """Takes up with an agent that the store says is alive, after a start of the hub: it gets a full lease; or none,
        while a site has it in a queue of its own."""
        max_runs = self._max_runs(agent, agent.cpus or 1)
        grants, current = self._store.write(lambda tx: held_by(tx, self._jobs, agent.id, max_runs))
        return self._new_session(agent, max_runs, current, grants, is_leased=is_leased)

    def hear(self, session: Session, poll: Poll) -> list[Attempt]:
        """Renews the lease, takes what the agent says of itself, and gives what it holds without right."""
        self._sessions.renew(session.agent, time.monotonic())
        with self._sessions.lock:
            session.hear(poll)
            return [attempt for attempt in poll.held if attempt not in session.held]

    def take(self, session: Session, *, follows: bool = False) -> Future[list[Grant]] | None:
        """Grants what fits now; None when a grant is being made already, nothing would fit, or the agent began anew.
        One that `follows` another write, and is committed with it, also finds what that puts into an empty queue."""
        with self._sessions.lock:
            room = session.room()
            if session.taking or session.is_closed or self._newest(session) is not session:
                return None
            if room.slots + room.ahead <= 0:
                return None
            is_empty = self._quiet is not None and self._quiet.is_empty(session.queue, time.monotonic())
            if is_empty and not follows:
                return None
            session.taking = True
        stamp = self._quiet.stamp(session.queue) if self._quiet is not None else None
        taker = Taker(agent=session.agent, queue=session.queue, node=session.node, room=room)

        def done(future: Future[Taken]) -> None:
            with self._sessions.lock:
                session.taking = False
                if future.exception() is None:
                    taken = future.result()
                    self._newest(session).grant(taken.grants)
                    session.wants_gpus = taken.lacks_gpus and bool(room.gpus)
                    if self._quiet is not None and stamp is not None and not taken.saw_any:
                        self._quiet.found_empty(session.queue, stamp, time.monotonic())

        def work(tx: Tx) -> Taken:
            if is_empty and not tx.touched & {"queue", f"queue:{session.queue}"}:
                return Taken([], saw_any=True, lacks_gpus=False)  # nobody looked
            return take(tx, self._jobs, taker)

        future = self._store.submit(work)
        future.add_done_callback(done)
        return _then(future, lambda taken: taken.grants)

    def report(self, session: Session, telling: Telling) -> Future[Receipt]:
        def answer(receipt: Receipt) -> Receipt:
            with self._sessions.lock:
                self._newest(session).release(receipt.closed | receipt.fenced)
            return receipt

        return _then(self._store.submit(lambda tx: report(tx, telling)), answer)

    def cancel(
        self, runs: list[int], *, by: str, stopped: str | None = None, job: int | None = None, everything: bool = False
    ) -> Future[list[steer.Cancelled]]:
        """`stopped`: why they are stopped early, if they are. With `job`, all of it; or `everything`."""
        cause = Cause.CANCELLED if stopped is None else Cause.STOPPED

        def answer(cancelled: list[steer.Cancelled]) -> list[steer.Cancelled]:
            for item in cancelled:
                session = self._sessions.get(item.agent) if item.agent is not None else None
                if session is not None:
                    with self._sessions.lock:
                        asked = session.stops.get((item.run, item.attempt))
                        if asked is None or asked.cause == Cause.PREEMPTED:  # else how it ends is said
                            session.stops[item.run, item.attempt] = Stop(item.run, item.attempt, cause)
            return cancelled

        def work(tx: Tx) -> list[steer.Cancelled]:
            return steer.cancel(tx, runs, by=by, stopped=stopped, job=job, everything=everything)

        return _then(self._store.submit(work), answer)

    def restart(self, runs: Collection[int], *, by: str) -> Future[list[RunRecord]]:
        """Has the attempts of these runs ended as if their nodes had been taken away; gives those that were on one."""

        def answer(asked: list[RunRecord]) -> list[RunRecord]:
            for record in asked:
                session = self._sessions.get(record.agent) if record.agent is not None else None
                if session is not None:
                    with self._sessions.lock:
                        stop = Stop(record.id, record.attempt, Cause.PREEMPTED)
                        session.stops.setdefault((record.id, record.attempt), stop)
            return asked

        return _then(self._store.submit(lambda tx: steer.preempt(tx, runs, by=by)), answer)

    def end(self, runs: Collection[RunRecord]) -> set[int]:
        """Has nodes end these runs, as was asked of each; gives the agents that are to be told."""
        told: set[int] = set()
        for record in runs:
            session = self._sessions.get(record.agent) if record.agent is not None else None
            if session is not None and record.cancel is not None:
                with self._sessions.lock:
                    stop = Stop(record.id, record.attempt, record.cancel.order)
                    session.stops.setdefault((record.id, record.attempt), stop)
                told.add(session.agent)
        return told

    def held_on(self, node: str) -> list[int]:
        """The runs whose attempts are on this node."""
        sessions = [session for session in self._sessions.all() if session.node == node]
        with self._sessions.lock:
            return [run for session in sessions for run, _ in session.held]

    def free_gpus(self) -> dict[int, int]:
        """By agent: on how many GPUs of its node a run could be put now."""
        sessions = [session for session in self._sessions.all() if session.heard]
        with self._sessions.lock:
            rooms = {session.agent: session.room().gpus for session in sessions}
        return {agent: sum(room.runs > 0 for room in found) for agent, found in rooms.items()}

    def let_go(self, node: str) -> list[int]:
        """Lets agents go that are kept on this node; gives them. On disk when this returns."""
        kept = [session.agent for session in self._sessions.all() if session.node == node and session.kept]
        for agent in kept:
            self._store.write(lambda tx, agent=agent: set_kept(tx, agent, False))  # type: ignore[misc]
            self._sessions.let_go(agent)
        return kept

    def dismiss(self) -> list[int]:
        """Has all agents leave as soon as they hold nothing; they get nothing more. Gives them."""
        agents = [session.agent for session in self._sessions.all()]
        for agent in agents:
            self._sessions.let_go(agent)
        return agents

    def orders(self, session: Session, fenced: list[Attempt], receipt: Receipt | None = None) -> Orders:
        """All that the agent should know now and may not have heard."""
        with self._sessions.lock:
            grants = list(session.unconfirmed.values()) if session.protocol == PROTOCOL else []
            stops = list(session.stops.values())
            unknown = {grant.order: grant.job for grant in grants if grant.order not in session.orders_known}
            leaving = session.leaving
        receipt = receipt or Receipt()
        return Orders(
            grants=grants, jobs=self._job_orders(unknown), stops=stops,
            fenced=[*fenced, *(attempt for attempt in receipt.fenced if attempt not in fenced)],
            refused=receipt.refused, acks=receipt.acks, exit=leaving, gpus_wanted=session.wants_gpus,
        )  # fmt: skip

    def _new_session(
        self, agent: Agent, max_runs: int, current: dict[Attempt, str | None], grants: list[Grant],
        hello: Hello | None = None, *, is_leased: bool = True,
    ) -> Session:  # fmt: skip
        session = Session(agent.id, agent.target, agent.node, max_runs, queue=agent.queue, kept=agent.kept)
        session.grant(grants)
        session.stops = {
            attempt: Stop(*attempt, Cause(cancel).order) for attempt, cancel in current.items() if cancel is not None
        }
        if hello is not None:
            session.greet(hello)
        return self._sessions.open(session, time.monotonic(), is_leased=is_leased)

    def _newest(self, session: Session) -> Session:
        """What the agent of this session has now: it may have begun anew while an answer to it was under way."""
        return self._sessions.get(session.agent) or session

    def _job_orders(self, wanted: Mapping[int, int]) -> list[JobOrder]:
        missing = {order: job for order, job in wanted.items() if order not in self._orders}
        if missing:
            with self._store.read() as connection:
                self._orders.update(job_orders(connection, missing))
        found = [self._orders[order] for order in wanted]
        while len(self._orders) > _ORDERS_KEPT:
            self._orders.popitem(last=False)
        return found


def _then(future: Future[A], answer: Callable[[A], B]) -> Future[B]:
    """A future of `answer(result)`, computed in the thread that answers the first. Nobody can cancel it: what was asked
    for is done, whether or not someone still waits."""
    chained: Future[B] = Future()
    chained.set_running_or_notify_cancel()

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
