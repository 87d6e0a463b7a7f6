"""One simulation, from its seed to its verdict."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from turnout.engine.target import Target, Terms
from turnout.schedule.record import RunRecord
from turnout.store.searches import OVER
from turnout.testing.simulator.agent import Agent, Routes
from turnout.testing.simulator.checks import Broken, check_change, check_end
from turnout.testing.simulator.command import Truth
from turnout.testing.simulator.faults import Faults
from turnout.testing.simulator.hub import Engine, Hub, Watched
from turnout.testing.simulator.link import Line, Weather
from turnout.testing.simulator.memory import Disk
from turnout.testing.simulator.model import ModelEngine
from turnout.testing.simulator.node import Machine
from turnout.testing.simulator.people import Person
from turnout.testing.simulator.pipeline_checks import check_pipelines
from turnout.testing.simulator.real import Database, RealEngine, clock_of
from turnout.testing.simulator.sampling import Life
from turnout.testing.simulator.search_checks import SearchWatch, check_searches
from turnout.testing.simulator.siding import Siding
from turnout.testing.simulator.step_watch import StepWatch
from turnout.testing.simulator.world import LEASE, Happening, World
from turnout.testing.simulator.yard import Yard
from turnout.wire.messages import Attempt, Grant

_FAULTS_SECONDS = 12.0
_PATIENCE = 40 * LEASE
_MOST_EVENTS = 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problem` is None when all held. `seen` names what happened."""

    seed: int
    problem: BaseException | None
    seen: frozenset[str]
    seconds: float
    steps: int
    trace: list[Happening]

    def story(self) -> str:
        """What happened, one line each."""
        return "\n".join(
            f"{when:9.4f} {who:<11} {what} {' '.join(map(str, about))}".rstrip()
            for when, who, what, about in self.trace
        )

    def verdict(self) -> str:
        """One line: whether all held, and if not, what did not."""
        if self.problem is None:
            return f"seed {self.seed}: all held, {self.steps} steps in {self.seconds:.1f} simulated seconds"
        return f"seed {self.seed}: {type(self.problem).__name__}: {self.problem}"


class Simulation:
    """Made whole by its seed; `run` once. `real`: with the real engine on SQLite instead of its model. `sites`: what
    there is are sites with queues of their own, which the model does not know. `searches`, `pipelines`: people submit
    those, too; `resumes`: they take pipelines up again, which the model does not know either.
    `spared`: kinds of faults that do not happen."""

    def __init__(
        self, seed: int, *, real: bool = False, sites: bool = False, searches: bool = False, pipelines: bool = False,
        resumes: bool = False, spared: frozenset[str] = frozenset(), verbose: bool = False,
    ) -> None:  # fmt: skip
        self.world = world = World(seed, verbose=verbose)
        self.weather = Weather()
        self.truths: dict[Attempt, Truth] = {}
        self.disk = Disk()
        self.database = Database() if real else None
        self.watched = Watched(self._changed, SearchWatch(world).look, StepWatch().look)
        self.lives: list[Life] = []
        self.hub = Hub(world, self._engine)
        names = ["left", "right"][: world.rng.choice((1, 2, 2))]
        self.has_sites = sites
        self.yards = {name: (Siding if sites else Yard)(self._machine(name), self._agent) for name in names}
        self.person = Person(world, self.hub, self.weather, names, seeks=searches, plans=pipelines, resumes=resumes)
        self.faults = Faults(world, self.hub, list(self.yards.values()), self.weather, _FAULTS_SECONDS, spared)

    def run(self) -> Outcome:
        world, steps = self.world, 0
        problem: BaseException | None = None
        try:
            with clock_of(self.hub) if self.database is not None else nullcontext():
                steps = self._play()
            if self.database is not None:
                self.disk = self.database.export(self.person.asked, self.truths)
            check_end(self.disk, self.person, self.truths)
            check_searches(self.disk, self.person, self.truths, self.lives)
            check_pipelines(self.disk, self.person, self.truths, self.faults.kinds)
            self._check_processes()
        except Exception as error:
            problem = error
        return Outcome(world.seed, problem, frozenset(world.seen), world.now, steps, world.trace)

    def _play(self) -> int:
        world, steps = self.world, 0
        self.hub.start()
        self.person.plan(world.rng.randint(1, 7), world.rng.choice((0.1, 2.0, 8.0)))
        self.faults.begin()
        while not self._is_over():
            steps += 1
            if steps > _MOST_EVENTS or world.now > _FAULTS_SECONDS + _PATIENCE or not world.clock.step():
                break
            if world.problems:
                raise world.problems[0]
        return steps

    def _check_processes(self) -> None:
        """What still runs was left by an agent that is gone or stands still: one that lives ends what it lets go."""
        for yard in self.yards.values():
            for agent in yard.agents.values():
                stray = agent.stray_commands()
                if agent.alive and not agent.stopped and stray:
                    raise Broken(f"{agent.name} let go of {stray}, and they run on")
                if stray:
                    self.world.sometimes("command outlived its agent")

    def _is_over(self) -> bool:
        if self.world.faulty or self.person.is_waiting:
            return False
        is_idle = not self._is_searching() and not self._has_unmade()
        return is_idle and all(record.is_terminal for record in self.watched.known.values())

    def _has_unmade(self) -> bool:
        graph = self.disk.graph if self.database is None else self.database.current_graph
        return any(step.unmade for step in graph.steps.values())

    def _is_searching(self) -> bool:
        if self.database is not None:
            return self.database.is_searching
        return any(standing.state != OVER for standing in self.disk.searches.values())

    def _changed(self, old: RunRecord | None, new: RunRecord) -> None:
        self.world.note("store", new.state, new.id, new.attempt)
        check_change(self.world, old, new)
        if self.database is None and new.on_node and new.agent not in self.disk.agents:
            raise Broken(f"run {new.id} was given to agent {new.agent}, which was given up")

    def _machine(self, name: str) -> Machine:
        machine = Machine(self.world, name, _fate)
        machine.truth = self.truths
        return machine

    def _agent(self, machine: Machine, token: str, directory: str) -> Agent:
        routes = Routes(self.hub.on_hello, self.hub.on_poll, self.hub.on_report)
        return Agent(
            machine, lambda agent: Line(self.world, self.weather, agent, self.hub.receive), routes, token, directory
        )

    def _engine(self, hub: Hub) -> Engine:
        terms = Terms(interval=LEASE / 12, most=3) if self.has_sites else Terms()
        targets = {name: Target(name, yard, terms) for name, yard in self.yards.items()}
        if self.database is not None:
            return RealEngine(hub, self.database, targets, self.watched, self.lives)
        return ModelEngine(hub, self.disk, targets, self.watched, self.lives)


def _fate(grant: Grant) -> str:
    """What a run of a search comes to is among its parameters; its parent script is fine."""
    given = grant.params.get("fate")
    fates = given.split() if isinstance(given, str) else ["ok"] if grant.argv == ["work"] else grant.argv
    return fates[min(grant.attempt, len(fates)) - 1]


def simulate(
    seed: int, *, real: bool = False, sites: bool = False, searches: bool = False, pipelines: bool = False,
    resumes: bool = False, spared: frozenset[str] = frozenset(), verbose: bool = False,
) -> Outcome:  # fmt: skip
    """Plays the simulation of that seed to its end."""
    return Simulation(
        seed,
        real=real,
        sites=sites,
        searches=searches,
        pipelines=pipelines,
        resumes=resumes,
        spared=spared,
        verbose=verbose,
    ).run()
