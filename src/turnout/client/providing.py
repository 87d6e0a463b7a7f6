"""What the client does about compute providers. Their code runs in a process of its own; the hub has no part in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnout.home import Home

View = dict[str, Any]


class Providing:
    """The part of the client that looks after providers."""

    _home: Home

    def providers(self) -> list[View]:
        """All that are installed, and those that the settings here name by their path: ``{"name", "code", "package",
        "version", "place", "targets", "hides"}`` each. Nothing of theirs is imported."""
        from turnout.client import providers

        return providers.listed(self._home)

    def provider(self, name: str) -> View:
        """One of them, with what its class says: ``capabilities``, ``settings``, ``doc``; or, where it is broken, why
        it is (``broken``) and where (``trace``). NotFound when there is none of that name."""
        from turnout.client import providers

        return providers.described(self._home, name)

    def broken_providers(self) -> list[View]:
        """Those that cannot be used as they are, with why and where."""
        from turnout.client import providers

        return providers.broken(self._home)

    def test_provider(
        self, target: str, *, checks: Sequence[str] = (), patience: float = 60.0,
        tell: Callable[[View], None] = lambda outcome: None,
    ) -> View:  # fmt: skip
        """Makes the checks of the contract (all, if none is named) at a target; `tell` hears of each as it is over.
        The report comes back. `patience` is how long the place may take to start or end a launch, in seconds."""
        from turnout.client import providers

        return providers.tested(self._home, providers.Test(target, checks, patience), tell)

    def new_provider(self, name: str, directory: str | Path, *, kind: str = "plain") -> View:
        """Writes a package with a provider of that name, and tests of it that pass, below `directory`; `kind`:
        ``batch`` for a scheduler that is used by commands, ``training-service`` for a class that is NNI's,
        ``job-type`` for one of Metapipe's. ``{"directory", "files", "package", "class"}``. Conflict when it is there
        already."""
        from turnout.client import skeleton

        return skeleton.write(name, Path(directory), kind=kind)
