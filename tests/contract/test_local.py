"""This machine, as a provider, keeps every promise of the contract."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.provider import Provider
from turnout.providers.local import LocalProvider
from turnout.testing import ProviderContract


class TestLocal(ProviderContract):
    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        return LocalProvider(settings)
