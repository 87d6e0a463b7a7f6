"""What has to be installed before a run starts, and how it is switched on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """`activate` are shell lines that come before everything else of a run. `conda` and `pip` are packages as those
    programs take them, `python` the version ("3.11"): if any is given, an environment with them is made on the node,
    once, and used by every run whose setup has the same `lock`."""

    name: str
    activate: str = ""
    conda: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    python: str | None = None

    @property
    def needs_environment(self) -> bool:
        return bool(self.conda or self.pip or self.python)

    @property
    def lock(self) -> str:
        """The digest of all that decides what the environment holds. The activate lines do: they choose the Python that
        it is made with."""
        text = json.dumps([self.activate, sorted(self.conda), list(self.pip), self.python])
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
