"""A line from a client to the hub: requests and answers are lost, late, doubled, overtaken, or cut off one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from turnout.testing.simulator.world import Process, World


class Refused(Exception):
    """The hub answered, and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(Exception):
    """No answer."""


@dataclass(slots=True)
class Weather:
    """How bad the lines are: chances per message, and the longest delay of a late one."""

    loss: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    latest: float = 0.0


Handler = Callable[["Call"], None]


class Call:
    """One request and its one answer. What comes behind the first outcome, or to a dead process, is not heard."""

    __slots__ = ("_line", "_on_answer", "_on_trouble", "client", "life", "open", "sent")

    def __init__(
        self, line: Line, on_answer: Callable[[object], None], on_trouble: Callable[[Exception], None]
    ) -> None:
        self._line = line
        self._on_answer = on_answer
        self._on_trouble = on_trouble
        self.client = line.client
        self.life = line.client.life
        self.open = True
        self.sent = line.world.now

    def answer(self, message: object) -> None:
        """From the hub: this is the answer, unless the line loses it."""
        if self._line.world.verbose:
            self._line.world.note("hub", f"answers {self.client.name}:", message)
        self._line.carry(self.open and not self._line.down_cut, partial(self._deliver, message))

    def reset(self) -> None:
        """The hub's process is gone, or was not there."""
        self._line.carry(self.open and not self._line.down_cut, partial(self._deliver, Unreachable("connection reset")))

    def give_up(self) -> None:
        """In the client: it has waited long enough."""
        if self.open:
            self.open = False
            self._line.world.sometimes("time out")
            self._on_trouble(Unreachable("timed out"))

    def _deliver(self, message: object) -> None:
        self.client.do(self.life, partial(self._hear, message))

    def _hear(self, message: object) -> None:
        if not self.open:
            return
        self.open = False
        if isinstance(message, Exception):
            self._on_trouble(message)
        else:
            self._on_answer(message)


class Line:
    """From `client` to the hub. `up_cut` and `down_cut` are partitions, one for each direction."""

    def __init__(
        self, world: World, weather: Weather, client: Process, receive: Callable[[Call, Handler], None]
    ) -> None:
        self.world = world
        self.client = client
        self.up_cut = False
        self.down_cut = False
        self._weather = weather
        self._receive = receive

    def ask(
        self,
        handler: Handler,
        *,
        timeout: float,
        on_answer: Callable[[object], None],
        on_trouble: Callable[[Exception], None],
    ) -> None:
        """Has the hub do `handler`; one of the two is called, once, unless the client dies first."""
        call = Call(self, on_answer, on_trouble)
        if self.world.verbose and isinstance(handler, partial):
            self.world.note(self.client.name, f"asks {handler.func.__name__.removeprefix('on_')}:", *handler.args)
        self.client.after(timeout, call.give_up)
        arrive = partial(self._receive, call, handler)
        self.carry(not self.up_cut, arrive)
        if self.world.chance(self._weather.doubled):
            self.world.sometimes("message doubled")
            self.carry(not self.up_cut, arrive)

    def carry(self, passable: bool, deliver: Callable[[], None]) -> None:
        """Takes a message to the other side, or does not."""
        weather, rng, world = self._weather, self.world.rng, self.world
        if not passable:
            return
        if world.chance(weather.loss):
            world.sometimes("message lost")
            return
        delay = 0.001 + 0.004 * rng.random()
        if world.chance(weather.late):
            world.sometimes("message late")
            delay += weather.latest * rng.random()
        world.clock.after(delay, deliver)
