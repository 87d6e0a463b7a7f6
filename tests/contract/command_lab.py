"""A scheduler from behind: who stands between the provider and its commands can count them and change their words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

from tests.batching import Commands
from turnout.plugin.provider import Launch
from turnout.testing import Lab


@dataclass(frozen=True)
class Words:
    """The names of a scheduler's commands (the first submits, the second tells states), and what they say when the
    reply is lost, when they are asked too often, when nobody is logged in, and when nothing answers. `purge` waits
    until it has forgotten what is over; `many` is how many jobs it can be asked for."""

    commands: Sequence[str]
    lost: str
    throttled: str
    login: str
    down: str
    purge: Callable[[], None] | None = None
    many: int = 1000


class CommandLab(Lab):
    """Every hook but that of wall times, which are minutes with schedulers."""

    patience = 40.0

    def __init__(self, words: Words, commands: Commands, root: Path) -> None:
        self._words = words
        self.many = words.many
        self._commands = commands
        self._root = root

    def calls(self) -> int:
        return self._commands.calls()

    def lost_reply(self) -> AbstractContextManager[None]:
        return self._commands.spoiled(self._words.commands[0], "lose", self._words.lost)

    def garbled(self, status: str) -> AbstractContextManager[None]:
        return self._commands.spoiled(self._words.commands[1], "answer", status)

    def throttled(self) -> AbstractContextManager[None]:
        return self._commands.spoiled(self._words.commands[0], "refuse", self._words.throttled)

    def login_refused(self) -> AbstractContextManager[None]:
        return self._commands.spoiled(self._words.commands[0], "refuse", self._words.login)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name in self._words.commands:
                stack.enter_context(self._commands.spoiled(name, "refuse", self._words.down))
            yield

    def purge(self) -> None:
        if self._words.purge is None:
            raise SkipTest("it remembers for ever")
        self._words.purge()

    def read_log(self, launch: Launch) -> bytes:
        (path,) = self._root.rglob(f"{launch.directory}/agent.log")
        return path.read_bytes()
