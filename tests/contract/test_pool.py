"""A pool of boxes, as a provider, keeps every promise of the contract. Its two boxes are one real ssh server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from tests import components
from tests.sshd import USER, Box, running_box
from turnout.plugin.provider import Launch, Provider
from turnout.providers.pool import PoolProvider
from turnout.testing import Lab, ProviderContract

pytestmark = [pytest.mark.xdist_group("sshd")]


class PoolLab(Lab):
    def __init__(self, box: Box) -> None:
        self._box = box

    def read_log(self, launch: Launch) -> bytes:
        (path,) = self._box.home.glob(f".turnout/boxes/*/{launch.directory}/agent.log")
        return path.read_bytes()


class TestPool(ProviderContract):
    box: ClassVar[Box]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def box_is_up(cls) -> Iterator[None]:
        with running_box(components.sshd()) as cls.box:
            yield

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        entry = {"address": f"{USER}@127.0.0.1", "port": self.box.port, "ssh-options": self.box.options}
        return PoolProvider({**settings, "boxes": {"oak": entry, "elm": {**entry, "max-runs": 2}}})

    def make_lab(self) -> Lab:
        return PoolLab(self.box)
