"""What goes wrong, and when. Each simulation has a few kinds of trouble, so that each is met alone and with others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.link import Weather
from turnout.testing.simulator.node import Phase
from turnout.testing.simulator.siding import Siding
from turnout.testing.simulator.world import LEASE, Process, World
from turnout.testing.simulator.yard import Yard

#: What lasts until the faults are over: messages lost, late or doubled, slow commits, a hub that dies right after a
#: commit, and a provider that cannot start or see agents.
LASTING = ("rain", "mist", "echo", "slow disk", "fragile hub", "bad yard")
#: What strikes a few times.
SUDDEN = (
    "kill hub", "stop hub", "kill agent", "stop agent", "kill launcher", "kill supervisor", "cut up", "cut down",
    "sleep", "power cut", "freeze",
)  # fmt: skip
KINDS = LASTING + SUDDEN


class Faults:
    """Begins at once and ends for good after `seconds`."""

    def __init__(
        self, world: World, hub: Hub, yards: list[Yard], weather: Weather, seconds: float, spared: frozenset[str]
    ) -> None:
        self._world = world
        self._hub = hub
        self._yards = yards
        self._weather = weather
        self._until = seconds
        self._spared = spared
        self.kinds: list[str] = []

    def begin(self) -> None:
        """Chooses this simulation's troubles; about one in eight has none."""
        rng = self._world.rng
        lasting = dict(zip(LASTING, (
            self._rain, self._mist, self._echo, self._slow_disk, self._fragile_hub, self._bad_yard,
        ), strict=True))  # fmt: skip
        sudden: dict[str, Callable[[], None]] = dict(zip(SUDDEN, (
            self._kill_hub, self._stop_hub, self._kill_agent, self._stop_agent, self._kill_launcher,
            self._kill_supervisor, partial(self._cut, "up_cut"), partial(self._cut, "down_cut"), self._sleep,
            self._power_cut, self._freeze,
        ), strict=True))  # fmt: skip
        share = rng.choice((0.0, 0.15, 0.15, 0.3, 0.3, 0.5))
        for name, start in lasting.items():
            if rng.random() < share and name not in self._spared:
                self.kinds.append(name)
                start()
        for name, strike in sudden.items():
            if rng.random() < share and name not in self._spared:
                self.kinds.append(name)
                for _ in range(rng.choice((1, 1, 2, 3))):
                    self._world.clock.after(rng.uniform(0.0, 0.8 * self._until), partial(self._strike, name, strike))
        for site in self._yards:
            if isinstance(site, Siding):
                for _ in range(rng.choice((0, 1, 3))):
                    self._world.clock.after(rng.uniform(0.0, 0.8 * self._until), site.preempt)
        self._world.note("faults", "are", ", ".join(self.kinds))
        self._world.clock.after(self._until, self._end)

    def _strike(self, name: str, strike: Callable[[], None]) -> None:
        self._world.note("faults", name)
        strike()

    def _end(self) -> None:
        """From here on nothing goes wrong, and what was stopped or cut off is not any more."""
        self._world.note("faults", "are over")
        self._world.faulty = False

    def _seconds(self) -> float:
        """How long something lasts: a moment, about a lease, or well beyond it; over when the faults are."""
        rng = self._world.rng
        wanted = rng.choice((0.1, 0.5, 2.0, 2.5)) * LEASE * rng.uniform(0.5, 1.5)
        return max(0.0, min(wanted, self._until - self._world.now))

    # --- lasting ------------------------------------------------------------------------------------------------------

    def _rain(self) -> None:
        self._weather.loss = self._world.rng.choice((0.02, 0.1, 0.3, 0.5))

    def _mist(self) -> None:
        self._weather.late = self._world.rng.choice((0.05, 0.3))
        self._weather.latest = self._world.rng.choice((0.2, LEASE, 2 * LEASE))

    def _echo(self) -> None:
        self._weather.doubled = 0.2

    def _slow_disk(self) -> None:
        self._hub.slow_commits = 0.05

    def _fragile_hub(self) -> None:
        self._hub.crash_after_commit = 0.02

    def _bad_yard(self) -> None:
        for yard in self._yards:
            yard.failing = 0.3

    # --- sudden -------------------------------------------------------------------------------------------------------

    def _kill_hub(self) -> None:
        if self._hub.alive:
            self._world.sometimes("hub killed")
            self._hub.crash()

    def _stop_hub(self) -> None:
        self._pause("hub", self._hub)

    def _kill_agent(self) -> None:
        yard = self._world.rng.choice(self._yards)
        agent = yard.agent
        if agent is not None:
            self._world.sometimes("agent killed")
            for held in agent.holding():
                # The launcher may have had the order to start it already.
                if held.phase is Phase.STARTED and self._world.rng.random() < 0.5:
                    self._world.sometimes("command begun while the agent died")
                    yard.machine.execute(held.files)
            agent.kill()

    def _stop_agent(self) -> None:
        agent = self._world.rng.choice(self._yards).agent
        if agent is not None:
            self._pause("agent", agent)

    def _kill_launcher(self) -> None:
        """The agent's program begins again, as the same process with the same token."""
        agent = self._world.rng.choice(self._yards).agent
        if agent is not None and not agent.stopped:
            self._world.sometimes("launcher killed")
            agent.kill()
            agent.start()

    def _kill_supervisor(self) -> None:
        commands = [command for yard in self._yards for command in yard.machine.commands if command.alive]
        if commands:
            self._world.sometimes("supervisor killed")
            self._world.rng.choice(commands).lose_supervisor()

    def _cut(self, direction: str) -> None:
        agent = self._world.rng.choice(self._yards).agent
        if agent is not None:
            seconds = self._seconds()
            self._world.sometimes(f"{direction} {'beyond' if seconds > 1.5 * LEASE else 'within'} the lease")
            setattr(agent.line, direction, True)
            self._world.clock.after(seconds, partial(setattr, agent.line, direction, False))

    def _sleep(self) -> None:
        """A machine sleeps: the hub's, an agent's with its commands, or one that has both."""
        yard = self._world.rng.choice((None, *self._yards))
        seconds = self._seconds()
        sleepers: list[Process] = []
        if yard is None or self._world.rng.random() < 0.3:
            self._world.sometimes("hub asleep")
            sleepers.append(self._hub)
            self._world.clock.after(seconds, partial(self._wake_hub, seconds))
        if yard is not None:
            self._world.sometimes("node asleep")
            sleepers += [*(command for command in yard.machine.commands if command.alive)]
            sleepers += [yard.agent] if yard.agent is not None else []
        for process in sleepers:
            process.stop()
            self._world.clock.after(seconds, process.go_on)

    def _wake_hub(self, seconds: float) -> None:
        self._hub.slept += seconds

    def _power_cut(self) -> None:
        yard = self._world.rng.choice(self._yards)
        self._world.sometimes("power cut")
        for agent in yard.agents.values():
            agent.kill()
        yard.machine.lose_power()

    def _freeze(self) -> None:
        """An agent stands still for good. Its provider sees it live; only its lease tells."""
        agent = self._world.rng.choice(self._yards).agent
        if agent is not None:
            self._world.sometimes("agent frozen")
            agent.freeze()

    def _pause(self, what: str, process: Process) -> None:
        seconds = self._seconds()
        self._world.sometimes(f"{what} stopped {'beyond' if seconds > 1.5 * LEASE else 'within'} the lease")
        process.stop()
        self._world.clock.after(seconds, process.go_on)
