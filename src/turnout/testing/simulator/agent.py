"""An agent's process, by the rules of ``turnout.agent``: here its conversation with the hub (`teller`, `poller`).

It differs from the real one in three ways only: bytes are counted in tens instead of millions, so that every limit is
met; a run's directory is a `Files`; and what threads do one after the other is done by timers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from turnout.testing.simulator.keeper import GPUS, Keeper
from turnout.testing.simulator.link import Call, Line, Refused
from turnout.testing.simulator.node import Held, Machine, Phase
from turnout.testing.simulator.shipping import PIECE
from turnout.testing.simulator.world import LEASE, Process
from turnout.wire.gpus import GpuRoom, free_gpus, reserve
from turnout.wire.messages import Attempt, Chunk, Fact, Hello, NodeFacts, Orders, Poll, Report, Stop, Welcome
from turnout.wire.protocol import PROTOCOL

_TAIL_SECONDS = 0.25
_REPORT_BYTES = 2 * PIECE
_RETRY_LEAST, _RETRY_MOST, _REPEAT = 0.05, 0.5, 0.1
_POLL_TIMEOUT, _REPORT_TIMEOUT, _HELLO_TIMEOUT = LEASE, 2 * LEASE, LEASE
_REFUSALS = 3
_CPUS = 3


class Routes:
    """What an agent may ask of the hub; each makes the request a handler for the hub to run."""

    def __init__(
        self,
        hello: Callable[[str, Hello, Call], None],
        poll: Callable[[str, Poll, Call], None],
        report: Callable[[str, Report, list[bytes], Call], None],
    ) -> None:
        self.hello = hello
        self.poll = poll
        self.report = report


class Agent(Keeper):
    """One agent process on `machine`; `token` and `directory` are what it was launched with."""

    def __init__(
        self, machine: Machine, line: Callable[[Process], Line], routes: Routes, token: str, directory: str
    ) -> None:
        super().__init__(machine, directory)
        self.line = line(self)
        self.pace = self.world.rng.uniform(0.8, 1.25)
        self._ahead = self.world.rng.choice((0.0, 0.0, 2.0))
        self._routes = routes
        self._token = token
        self._polls = int(self.world.clock.time() * 1e9)
        self._has_begun = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Its program begins, or begins anew in the same process."""
        now = self.world.now
        self.begin()
        self._forget()
        self._has_begun = True
        self._is_busy, self._is_polling, self._is_leaving, self._is_yielding = False, False, False, False
        self._must_greet, self._must_report = True, False
        self._retry_at, self._pause, self._poll_pause = 0.0, _RETRY_LEAST, _RETRY_LEAST
        self._heard = self._idle_since = now
        self._told = self._say()
        self._begin_with: Attempt | None = None
        self._adopt()
        self._tick()

    def _tick(self) -> None:
        """What the main loop does when nothing happens: looks at growing output, starts what it can, or is done."""
        if self._is_done():
            self._leave("nothing to do" if self._welcome else "the hub does not answer")
        else:
            self._turn()
            self.after(_TAIL_SECONDS, self._tick)

    def _turn(self) -> None:
        self._start_ready()
        if self._is_busy or self.world.now < self._retry_at:
            return
        if self._must_greet:
            self._greet()
        elif self._held or self._must_report:
            self._report()

    def _is_done(self) -> bool:
        now = self.world.now
        if self._held:
            self._idle_since = now
            return False
        if now - self._heard > LEASE / 2:
            return True
        welcome = self._welcome
        is_over = self._is_leaving or self._is_yielding
        return welcome is not None and (is_over or now - self._idle_since > welcome.idle)

    def _leave(self, why: str) -> None:
        self.world.note(self.name, "leaves:", why)
        self.world.sometimes("agent left: " + why)
        self.kill()

    def give_back(self) -> None:
        """Whose node this is wants it back, and says so."""

        def do() -> None:
            self._is_yielding = True
            for held in list(self._held.values()):
                self._stop(Stop(*held.ref, "preempted"))
            self._must_report = True
            self._told = self._say()
            self._turn()

        if self.alive and self._has_begun:
            self.do(self.life, do)

    def end_everything(self) -> None:
        """Its site ends all that is there: the agent, and what it started."""
        self.kill()
        for files in self._disk.values():
            if files.command is not None:
                files.command.end_tree()

    def _surrender(self) -> None:
        self.world.note(self.name, "surrenders")
        self.world.sometimes("agent surrendered")
        for held in self._held.values():
            self._end_tree(held)
            self._disk.pop(held.ref, None)
        self.kill()

    # --- the hub's orders ---------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        asked, sent = self._told, self.world.now
        self.line.ask(
            partial(self._routes.poll, self._token, asked), timeout=_POLL_TIMEOUT,
            on_answer=partial(self._polled, asked, sent), on_trouble=self._not_polled,
        )  # fmt: skip

    def _polled(self, asked: Poll, sent: float, orders: object) -> None:
        assert isinstance(orders, Orders)
        self._poll_pause = _RETRY_LEAST
        news = self._take(orders, asked, sent)
        waits = not news and (orders.grants or orders.stops or orders.fenced or orders.exit)
        self._turn()
        self.after(_REPEAT if waits else 0.001, self._poll)

    def _not_polled(self, error: Exception) -> None:
        self._take_trouble(error)
        self.after(self._poll_pause, self._poll)
        self._poll_pause = min(self._poll_pause * 2, _RETRY_MOST)

    def _say(self) -> Poll:
        """What we say of ourselves now."""
        max_runs = self._welcome.max_runs if self._welcome is not None else 0
        busy = sum(held.grant.slots for held in self._held.values() if held.phase < Phase.ENDED)
        slots = 0.0 if self._is_leaving or self._is_yielding else max_runs - busy
        short = list(self._orders) if self._ahead and not self._is_leaving else []
        self._polls += 1
        return Poll(
            slots,
            0,
            0,
            list(self._held),
            list(self._orders),
            LEASE / 3,
            self._polls,
            self._ahead if short else 0.0,
            short,
            gpu_rooms=self._gpu_rooms(),
            protocol=PROTOCOL,
        )

    def _gpu_rooms(self) -> list[GpuRoom]:
        """As ``turnout.agent.gpus`` has it where nobody else computes."""
        rooms = free_gpus(GPUS)
        for held in self._held.values():
            if held.phase < Phase.ENDED and held.grant.gpus:
                rooms = reserve(rooms, held.grant.gpus)
        return rooms

    def _take(self, orders: Orders, asked: Poll, sent: float) -> bool:
        """Does as it is told; whether anything was new."""
        self._heard = self.world.now
        self._renewed = max(self._renewed, sent)
        for job in orders.jobs:
            self._orders[job.job] = None
        news = [self._fence(ref) for ref in orders.fenced]
        for ref in asked.held:
            if ref in self._held:
                self._held[ref].confirmed = True
        news += [self._accept(grant) for grant in orders.grants]
        news += [self._stop(stop) for stop in orders.stops]
        news.append(self._is_leaving is not orders.exit)
        self._is_leaving = orders.exit
        self._must_report = self._must_report or any(news)
        self._told = self._say()
        return any(news)

    def _take_trouble(self, error: Exception) -> None:
        if isinstance(error, Refused) and error.status in (401, 403):
            self._surrender()
        elif isinstance(error, Refused) and error.status == 409:
            self.world.sometimes("refused: say hello first")
            self._must_greet = True

    # --- telling the hub ----------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        facts = NodeFacts(self.machine.name, _CPUS, 0, [], str(self.machine.boot), self.life, "", "")
        self._polls += 1
        hello = Hello(PROTOCOL, "", facts, list(self._held), self._polls)
        self._is_busy = True
        self.line.ask(
            partial(self._routes.hello, self._token, hello), timeout=_HELLO_TIMEOUT,
            on_answer=partial(self._greeted, self.world.now), on_trouble=self._put_off,
        )  # fmt: skip

    def _greeted(self, sent: float, welcome: object) -> None:
        assert isinstance(welcome, Welcome)
        self._is_busy, self._must_greet, self._must_report = False, False, True
        self._pause = _RETRY_LEAST
        self._heard = self.world.now
        self._renewed = max(self._renewed, sent)
        self._welcome = welcome
        for ref in welcome.fenced:
            self._fence(ref)
        self._told = self._say()
        if not self._is_polling:
            self._is_polling = True
            self._poll()
        self._turn()

    def _report(self) -> None:
        facts: list[Fact] = []
        chunks: list[Chunk] = []
        payloads: list[bytes] = []
        told: list[tuple[Held, int, bool]] = []
        room, unserved = _REPORT_BYTES, None
        for held in self._in_turn():
            is_result_due = False
            if held.phase >= Phase.RUNNING and room >= PIECE:
                for chunk, content in held.shipping.pieces(room):
                    chunks.append(chunk)
                    payloads.append(content)
                    room -= len(content)
                is_result_due = held.result is not None and held.shipping.is_all_offered()
            elif room < PIECE:
                unserved = unserved or held.ref
            if held.facts or is_result_due:
                facts.extend(held.facts)
                if is_result_due and held.result is not None:
                    facts.append(Fact(*held.ref, "captured", 0.0, held.result))
                told.append((held, len(held.facts), is_result_due))
        if not (facts or chunks or self._must_report):
            return
        self._must_report = False
        self._begin_with = unserved
        asked = self._told = self._say()
        self._is_busy = True
        self.line.ask(
            partial(self._routes.report, self._token, Report(facts, chunks, asked), payloads), timeout=_REPORT_TIMEOUT,
            on_answer=partial(self._delivered, told, asked, self.world.now), on_trouble=self._undelivered,
        )  # fmt: skip

    def _in_turn(self) -> list[Held]:
        """All of them, beginning with the one whose streams had no room the last time."""
        held = list(self._held.values())
        first = self._held.get(self._begin_with) if self._begin_with is not None else None
        at = held.index(first) if first is not None else 0
        return held[at:] + held[:at]

    def _delivered(self, told: list[tuple[Held, int, bool]], asked: Poll, sent: float, orders: object) -> None:
        assert isinstance(orders, Orders)
        self._is_busy = False
        self._pause = _RETRY_LEAST
        for key, have in orders.acks.items():
            name, _, stream = key.partition("/")
            run, _, number = name.partition(".")
            held = self._held.get((int(run), int(number)))
            if held is not None and held.shipping.acknowledge(stream, have):
                self.world.sometimes("segment dropped")
        self._rewind()
        for held, count, with_result in told:
            is_last = with_result or any(fact.kind == "returned" for fact in held.facts[:count])
            held.facts = held.facts[count:]
            if with_result and f"{held.ref[0]}.{held.ref[1]}/captured" in orders.refused:
                self._reconsider(held)
            elif is_last and held.phase is not Phase.OVER:
                self._drop(held)
        self._take(orders, asked, sent)
        self._turn()

    def _reconsider(self, held: Held) -> None:
        self.world.sometimes("refused: output incomplete")
        held.refusals += 1
        if held.refusals >= _REFUSALS and held.result is not None:
            held.result = {**held.result, **held.shipping.settle()}

    def _undelivered(self, error: Exception) -> None:
        self._rewind()
        self._must_report = True
        self._put_off(error)

    def _put_off(self, error: Exception) -> None:
        self._is_busy = False
        self._retry_at = self.world.now + self._pause
        self._pause = min(self._pause * 2, _RETRY_MOST)
        self._take_trouble(error)

    def _rewind(self) -> None:
        for held in self._held.values():
            held.shipping.rewind()
