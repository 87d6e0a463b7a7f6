"""An agent's process, by the rules of ``turnout.agent`` (`intake`, `starter`, `ender`, `teller`, `poller`, `adopt`).

It differs from the real one in three ways only: bytes are counted in tens instead of millions, so that every limit is
met; a run's directory is a `Files`; and what threads do one after the other is done by timers.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial

from turnout.testing.simulator.command import Command, Files, Truth
from turnout.testing.simulator.link import Call, Line, Refused
from turnout.testing.simulator.shipping import PIECE, Shipping
from turnout.testing.simulator.world import LEASE, Process, World
from turnout.wire.messages import (
    PROTOCOL,
    Attempt,
    Chunk,
    Fact,
    Grant,
    Hello,
    NodeFacts,
    Orders,
    Poll,
    Report,
    Stop,
    Welcome,
)  # fmt: skip

_TAIL_SECONDS = 0.25
_REPORT_BYTES = 2 * PIECE
_RETRY_LEAST, _RETRY_MOST, _REPEAT = 0.05, 0.5, 0.1
_RETURN_SECONDS = 0.5
_POLL_TIMEOUT, _REPORT_TIMEOUT, _HELLO_TIMEOUT = LEASE, 2 * LEASE, LEASE
_REFUSALS = 3
_CPUS = 3


class Phase(IntEnum):
    STAGING = 1
    READY = 2
    STARTED = 3
    RUNNING = 4
    ENDED = 5
    CAPTURED = 6
    OVER = 7


class Held:
    """One attempt, from grant to the hub's last acknowledgement. `began`: a supervisor was asked for it."""

    __slots__ = (
        "began", "confirmed", "facts", "files", "grant", "granted", "phase", "ref", "refusals", "result", "shipping",
        "stop_cause",
    )  # fmt: skip

    def __init__(self, grant: Grant, files: Files, now: float) -> None:
        self.grant = grant
        self.ref: Attempt = (grant.run, grant.attempt)
        self.files = files
        self.shipping = Shipping(self.ref, files)
        self.phase = Phase.STAGING
        self.began = False
        self.confirmed = False
        self.granted = now
        self.stop_cause: str | None = None
        self.facts: list[Fact] = []
        self.result: dict[str, object] | None = None
        self.refusals = 0

    def tell(self, kind: str, body: dict[str, object]) -> None:
        self.facts.append(Fact(*self.ref, kind, 0.0, body))


class Machine:
    """A node: its disk, its commands, and the agent's process there."""

    def __init__(self, world: World, name: str, fate_of: Callable[[Grant], str]) -> None:
        self.world = world
        self.name = name
        self.fate_of = fate_of
        self.boot = 0
        self.directories: dict[str, dict[Attempt, Files]] = {}
        self.commands: list[Command] = []
        self.truth: dict[Attempt, Truth] = {}

    def execute(self, files: Files) -> Command:
        """A supervisor begins: the point from which the command may have been executed."""
        truth = self.truth.setdefault((files.grant.run, files.grant.attempt), Truth())
        files.command = Command(self.world, files, truth, self.fate_of(files.grant))
        self.commands.append(files.command)
        files.command.start()
        return files.command

    def lose_power(self) -> None:
        """And it comes up again, as another boot. The caller ends the agent."""
        self.boot += 1
        for command in self.commands:
            command.kill()
        self.commands.clear()
        for directory in self.directories.values():
            for ref, files in directory.items():
                files.lose_power(self.world.rng)
                if ref in self.truth:
                    self.truth[ref].damaged = True


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


class Agent(Process):
    """One agent process on `machine`; `token` and `directory` are what it was launched with."""

    def __init__(
        self, machine: Machine, line: Callable[[Process], Line], routes: Routes, token: str, directory: str
    ) -> None:
        super().__init__(machine.world, f"agent@{machine.name}")
        self.machine = machine
        self.line = line(self)
        self.pace = self.world.rng.uniform(0.8, 1.25)
        self._ahead = self.world.rng.choice((0.0, 0.0, 2.0))
        self._routes = routes
        self._token = token
        self._disk = machine.directories.setdefault(directory, {})
        self._held: dict[Attempt, Held] = {}

    def holding(self) -> list[Held]:
        return list(self._held.values())

    def stray_commands(self) -> list[str]:
        """Commands in its directory that run though it does not hold them, or is not there to."""
        here = self._disk.items()
        running = [(ref, files.command) for ref, files in here if files.command is not None and files.command.alive]
        return [command.name for ref, command in running if not self.alive or ref not in self._held]

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Its program begins, or begins anew in the same process."""
        now = self.world.now
        self.begin()
        self._held = {}
        self._over: set[Attempt] = set()
        self._jobs: dict[int, None] = {}
        self._welcome: Welcome | None = None
        self._is_busy, self._is_polling, self._is_leaving = False, False, False
        self._must_greet, self._must_report = True, False
        self._retry_at, self._pause, self._poll_pause = 0.0, _RETRY_LEAST, _RETRY_LEAST
        self._heard = self._idle_since = self._renewed = now
        self._polls = 0
        self._told = self._say()
        self._begin_with: Attempt | None = None
        self._adopt()
        self._tick()

    def _adopt(self) -> None:
        for ref, files in list(self._disk.items()):
            if not files.begun and files.exit is None:
                self.world.sometimes("adopt: never begun")
                del self._disk[ref]
                continue
            held = self._held[ref] = Held(files.grant, files, self.world.now)
            held.confirmed = held.began = True
            held.phase = Phase.RUNNING
            held.tell("staged", {"adopted": True})
            held.tell("running", {})
            command = files.command
            if command is None or not command.alive or not command.supervised:
                self.world.sometimes("adopt: ended" if files.exit else "adopt: supervisor gone")
                self._end(held)
            else:
                self.world.sometimes("adopt: running")
                self._watch(held)

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
        return welcome is not None and (self._is_leaving or now - self._idle_since > welcome.idle)

    def _leave(self, why: str) -> None:
        self.world.note(self.name, "leaves:", why)
        self.world.sometimes("agent left: " + why)
        self.kill()

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
        slots = 0.0 if self._is_leaving else max_runs - busy
        short = list(self._jobs) if self._ahead and not self._is_leaving else []
        self._polls += 1
        return Poll(
            slots,
            0,
            0,
            list(self._held),
            list(self._jobs),
            LEASE / 3,
            self._polls,
            self._ahead if short else 0.0,
            short,
        )

    def _take(self, orders: Orders, asked: Poll, sent: float) -> bool:
        """Does as it is told; whether anything was new."""
        self._heard = self.world.now
        self._renewed = max(self._renewed, sent)
        for job in orders.jobs:
            self._jobs[job.job] = None
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

    # --- one attempt, from grant to start -----------------------------------------------------------------------------

    def _accept(self, grant: Grant) -> bool:
        ref = (grant.run, grant.attempt)
        if ref in self._held or ref in self._over or grant.job not in self._jobs:
            return False
        self.world.note(self.name, "accepts", grant.name, grant.attempt)
        held = self._held[ref] = Held(grant, Files(grant), self.world.now)
        if self.world.rng.random() < 0.5:
            self._staged(held)
        else:
            self.after(self.world.rng.uniform(0.0, 0.3), partial(self._staged, held))
        return True

    def _staged(self, held: Held) -> None:
        if held.phase is Phase.STAGING:
            self._disk[held.ref] = held.files
            held.tell("staged", {})
            held.phase = Phase.READY

    def _start_ready(self) -> None:
        """Starts what is confirmed and fits while the lease lasts; gives back what has waited too long."""
        now = self.world.now
        waiting = [held for held in self._held.values() if held.phase is Phase.READY and held.confirmed]
        if not waiting or self._welcome is None:
            return
        if now - self._renewed >= self._welcome.lease:
            self.world.sometimes("start held back: no lease")
            return
        busy = sum(h.grant.slots for h in self._held.values() if h.phase in (Phase.STARTED, Phase.RUNNING))
        for held in waiting:
            if busy + held.grant.slots <= self._welcome.max_runs + 1e-9:
                busy += held.grant.slots
                held.phase, held.began = Phase.STARTED, True
                self.after(self.world.rng.uniform(0.0, 0.05), partial(self._started, held))
            elif now - held.granted > _RETURN_SECONDS:
                self.world.sometimes("grant returned")
                held.phase = Phase.CAPTURED
                held.tell("returned", {})

    def _started(self, held: Held) -> None:
        if held.phase is not Phase.STARTED:
            return
        self.world.note(self.name, "starts", held.grant.name, held.grant.attempt)
        self.machine.execute(held.files)
        held.phase = Phase.RUNNING
        held.tell("running", {})
        if held.files.exit is not None:
            self._end(held)
        else:
            self._watch(held)
        self._turn()

    # --- one attempt, from start to end -------------------------------------------------------------------------------

    def _watch(self, held: Held) -> None:
        command = held.files.command
        assert command is not None
        held.files.watcher = partial(self.do, self.life, partial(self._see_end, held))
        if held.stop_cause is not None:
            command.terminate(held.stop_cause)

    def _see_end(self, held: Held) -> None:
        if held.phase is Phase.RUNNING:
            self._end(held)
            self._turn()

    def _end(self, held: Held) -> None:
        held.files.watcher = None
        if held.files.exit is not None:
            self._conclude(held, dict(held.files.exit))
        else:
            held.phase = Phase.ENDED
            self.after(self.world.rng.uniform(0.0, 0.3), partial(self._bury, held))

    def _bury(self, held: Held) -> None:
        self._end_tree(held)
        if held.phase is Phase.ENDED:
            self._conclude(held, {"cause": held.stop_cause or "infra", "message": "its supervisor was killed"})

    def _conclude(self, held: Held, body: dict[str, object]) -> None:
        held.phase = Phase.ENDED
        held.tell("ended", body)
        self.after(self.world.rng.choice((0.0, 0.3)), partial(self._captured, held))

    def _captured(self, held: Held) -> None:
        if held.phase is Phase.ENDED:
            held.result = {"files": 0, **held.shipping.seal()}
            held.phase = Phase.CAPTURED

    def _stop(self, stop: Stop) -> bool:
        held = self._held.get((stop.run, stop.attempt))
        if held is None or held.stop_cause is not None or held.phase >= Phase.ENDED:
            return False
        held.stop_cause = stop.cause
        if held.phase < Phase.STARTED:
            self.world.sometimes("stop before start")
            self._conclude(held, {"cause": stop.cause, "message": "ended before it was started"})
        elif held.files.command is not None:
            self.world.sometimes("stop while running")
            held.files.command.terminate(stop.cause)
        return True

    def _fence(self, ref: Attempt) -> bool:
        held = self._held.get(ref)
        if held is None:
            return False
        self.world.note(self.name, "fences", held.grant.name, held.grant.attempt)
        self.world.sometimes("fenced: " + held.phase.name.lower())
        self._end_tree(held)
        self._drop(held)
        return True

    def _drop(self, held: Held) -> None:
        self._held.pop(held.ref, None)
        self._over.add(held.ref)
        self._disk.pop(held.ref, None)
        held.phase = Phase.OVER

    def _end_tree(self, held: Held) -> None:
        held.files.watcher = None
        if held.files.command is not None:
            held.files.command.end_tree()

    # --- telling the hub ----------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        facts = NodeFacts(self.machine.name, _CPUS, 0, [], str(self.machine.boot), self.life, "", "")
        hello = Hello(PROTOCOL, "", facts, list(self._held))
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
