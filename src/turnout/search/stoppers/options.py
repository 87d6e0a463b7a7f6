"""Options of a stopper as they were written in the search's file: read one by one, and nothing may be left over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeGuard

from turnout.plugin.sampler import BadOption


class Options:
    """Each reading method gives the option's value, or `default` where it is not given, and raises BadOption, which
    tells what is allowed, for another value. An option without a default (None) may be left out and is then None."""

    def __init__(self, stopper: str, given: Mapping[str, object]) -> None:
        self._stopper = stopper
        self._given = given
        self._known: list[str] = []

    def whole(self, name: str, default: int, *, least: int) -> int:
        """A whole number of at least `least`."""
        value = self._take(name, default)
        if not _is_number(value) or value != int(value) or value < least:
            raise self.wrong(name, f"a whole number, {least} or more")
        return int(value)

    def some_whole(self, name: str, *, least: int) -> int | None:
        return None if self._take(name, None) is None else self.whole(name, least, least=least)

    def needed_whole(self, name: str, meaning: str, *, least: int) -> int:
        value = self.some_whole(name, least=least)
        if value is None:
            raise self.missing(name, meaning)
        return value

    def number(self, name: str, default: float, *, least: float = -math.inf, most: float = math.inf) -> float:
        """A number from `least` to `most`."""
        value = self._take(name, default)
        if not _is_number(value) or not least <= value <= most:
            raise self.wrong(name, _between(least, most))
        return float(value)

    def some_number(self, name: str) -> float | None:
        return None if self._take(name, None) is None else self.number(name, 0.0)

    def is_on(self, name: str, default: bool) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def finish(self) -> None:
        """BadOption for an option that nobody read."""
        for name in self._given:
            if name not in self._known:
                near = get_close_matches(str(name), self._known, 1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(self._known)}"
                raise BadOption(f"stopper {self._stopper} has no option {name!r}; {hint}", str(name))

    def wrong(self, name: str, allowed: str) -> BadOption:
        return BadOption(f"stopper {self._stopper}: {name} must be {allowed}, not {self._given.get(name)!r}", name)

    def missing(self, name: str, meaning: str) -> BadOption:
        return BadOption(f"stopper {self._stopper} needs {name}: {meaning}", name)

    def _take(self, name: str, default: object) -> object:
        if name not in self._known:
            self._known.append(name)
        value = self._given.get(name)
        return default if value is None else value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _between(least: float, most: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f"a number from {least:g} to {most:g}"
    return f"a number, {least:g} or more" if math.isfinite(least) else "a number"
