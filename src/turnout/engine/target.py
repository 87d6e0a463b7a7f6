"""A place to run, and how its provider takes what it is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from turnout.plugin.provider import Failure, Provider

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SLOWEST_RETRY = 60.0


@dataclass(slots=True)
class Target:
    """A place to run (`name` is that of the place): its provider, how the last starts of an agent there went, and what
    is wrong there.

    Each start puts the next one off, twice as long as the last time, until an agent that was started is heard.
    """

    name: str
    provider: Provider
    max_runs: int | None = None
    starts: int = 0
    not_before: float = 0.0
    trouble: str = ""
    last_try: float = -1.0
    prolog: Sequence[str] = ()
    epilog: Sequence[str] = ()
    python: str = ""
    """what agents start with there, if that is said"""
    ailing: str = ""
    """what the last agent there said is wrong"""

    def tried(self, now: float, trouble: str = "") -> None:
        if now != self.last_try:
            self.not_before = now + min(0.25 * 2.0**self.starts, _SLOWEST_RETRY)
            self.starts += 1
            self.last_try = now
        self.trouble = trouble

    def heard(self) -> None:
        self.starts, self.trouble, self.ailing = 0, "", ""

    @property
    def complaint(self) -> str:
        """What is wrong with it, as far as anybody knows."""
        return self.trouble or self.ailing

    def ask(self, question: Callable[[Provider], T], trouble: str = "") -> T | Failure:
        """Asks the provider. It is code of others: whatever it raises is a failure of this target and stops nothing
        else. `trouble` is what a failure means here."""
        try:
            return question(self.provider)
        except Failure as error:
            failure = error
        except OSError as error:
            failure = Failure(str(error))
        except Exception as error:
            _log.exception("the provider of %s raised what it may not", self.name)
            failure = Failure(str(error) or type(error).__name__)
        if trouble:
            said = f"{trouble}: {failure.message}"
            if said != self.trouble:
                _log.warning("%s: %s", self.name, said)
            self.trouble = said
        return failure
