"""A node: its disk, what runs on it, and what an agent knows of one attempt there."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from turnout.testing.simulator.command import Command, Files, Truth
from turnout.testing.simulator.shipping import Shipping
from turnout.testing.simulator.world import World
from turnout.wire.messages import Attempt, Fact, Grant


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
