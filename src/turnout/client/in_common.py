"""What the jobs of a pipeline have in common: found out once, and brought to the hub once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnout import config as configuration
from turnout.snapshot import Joined, Snapshot

if TYPE_CHECKING:
    from turnout.client.preparing import Hub

#: Which files were frozen: of what, without what, with which secrets.
Frozen = tuple[Path, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class InCommon:
    """For the moment in which several jobs are prepared: nobody looks whether something has changed since. Who prepares
    one puts here what it finds: settings by all that they are made of, files, the trees that these make, and what runs
    inherit of the environment."""

    settings: dict[Hashable, configuration.Config] = field(default_factory=dict)
    frozen: dict[Frozen, Snapshot] = field(default_factory=dict)
    trees: dict[Hashable, Joined] = field(default_factory=dict)
    environments: dict[Hashable, dict[str, str]] = field(default_factory=dict)


class Once:
    """A hub that is told everything once: what it has answered, and what it has, is known the second time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._targets: list[tuple[str, configuration.TargetSettings, dict[str, Any]]] = []
        self._shares: dict[tuple[str, str], dict[str, Any]] = {}
        self._sent: dict[int, tuple[Joined, Joined]] = {}  # as it was, and as it is kept; the first so that it lives on

    def send(self, tree: Joined) -> Joined:
        """As `Joined.deliver`; the same object is sent once."""
        if id(tree) not in self._sent:
            self._sent[id(tree)] = tree, tree.deliver(self)
        return self._sent[id(tree)][1]

    def define_target(self, name: str, target: configuration.TargetSettings) -> dict[str, Any]:
        for known, settings, view in self._targets:
            if known == name and settings == target:
                return view
        view = self._hub.define_target(name, target)
        self._targets.append((name, target, view))
        return view

    def bind_share(self, name: str, path: str = "") -> dict[str, Any]:
        if (name, path) not in self._shares:
            self._shares[name, path] = self._hub.bind_share(name, path)
        return self._shares[name, path]

    def missing(self, digests: Iterable[str]) -> list[str]:
        return self._hub.missing(digests)

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        self._hub.put_many(blobs)

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        self._hub.put_stream(digest, chunks)
