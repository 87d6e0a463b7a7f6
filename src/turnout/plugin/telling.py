"""What a provider may be besides, whose launches tell things to their own system instead of to the hub.

A run whose program reaches the hub tells of itself; what its provider passes on counts where it does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Dict, Mapping, Sequence

from turnout.plugin.provider import Handle


@dataclass(frozen=True)
class Known:
    """How many bytes of what a launch told are with the hub."""

    records: int = 0
    output: int = 0


@dataclass(frozen=True)
class News:
    """What comes behind those. `records` are frames (see `turnout.wire.frames`), each a record as a run's own process
    writes it: ``{"t": seconds since 1970, "m": {metric: value}, "s": step}``. `output` is what it printed; it may be
    kept back until the launch is gone."""

    records: bytes = b""
    output: bytes = b""


class Telling(ABC):
    """Failure from any method means that it could not be done."""

    @abstractmethod
    def news(self, known: Mapping[Handle, Known]) -> Dict[Handle, News]:
        """What these launches have told, behind what is known of each; who has nothing new may be left out. Asked for
        the same once more it gives the same, or more: what was told is kept until `Provider.rest`."""

    @abstractmethod
    def stop(self, handles: Sequence[Handle]) -> None:
        """As `Provider.cancel`, of launches that a stopper ends: their system is to know them as stopped early."""
