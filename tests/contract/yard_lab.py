"""The yard from behind, with every hook that the kit knows, and the contract of its providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.contract.yard import Yard, YardProvider
from turnout.plugin.provider import Launch, Provider
from turnout.testing import Lab, ProviderContract


class YardLab(Lab):
    """Every hook there is."""

    patience = 10.0
    shortest_time = 0.5

    def __init__(self, yard: Yard, folder: Path) -> None:
        self._yard = yard
        self._folder = folder

    def calls(self) -> int:
        return self._yard.calls

    @contextmanager
    def _fault(self, fault: str, answer: str | None = None) -> Iterator[None]:
        self._yard.fault, self._yard.answer = fault, answer
        yield
        self._yard.fault, self._yard.answer = "", None

    def lost_reply(self) -> AbstractContextManager[None]:
        return self._fault("lost")

    def garbled(self, status: str) -> AbstractContextManager[None]:
        return self._fault("", status)

    def throttled(self) -> AbstractContextManager[None]:
        return self._fault("busy")

    def login_refused(self) -> AbstractContextManager[None]:
        return self._fault("login")

    def unreachable(self) -> AbstractContextManager[None]:
        return self._fault("down")

    def purge(self) -> None:
        self._yard.purge()

    def read_log(self, launch: Launch) -> bytes:
        return (self._folder / "nodes" / "there" / launch.directory / "agent.log").read_bytes()


class YardContract(ProviderContract):
    """The contract of a provider of a yard that is this test's own."""

    kind: type[YardProvider] = YardProvider
    patience = YardLab.patience

    def setup_method(self) -> None:
        self.yard = Yard()
        super().setup_method()

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        if not hasattr(self, "yard"):
            self.yard = Yard()
        return self.kind({**settings, "yard": self.yard})

    def make_lab(self) -> Lab:
        lab = YardLab(self.yard, self.folder)
        lab.patience = self.patience
        return lab
