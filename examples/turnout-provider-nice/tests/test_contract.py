"""The provider keeps every promise of turnout's contract."""

from __future__ import annotations

from collections.abc import Mapping

from turnout_provider_nice import NiceProvider

from turnout.plugin.provider import Provider
from turnout.testing import Lab, ProviderContract


class TestNice(ProviderContract):
    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        return NiceProvider({**settings, "level": 5})

    def make_lab(self) -> Lab:
        return NiceLab()


class NiceLab(Lab):
    """Nothing remembers how processes ended, so there is nothing to forget."""

    def purge(self) -> None:
        pass
