"""Options of a sampler or stopper as people wrote them: read one by one, and nothing may be left over."""

from __future__ import annotations

import math
from collections.abc import Mapping

from turnout.model.likeness import nearest
from turnout.plugin.sampler import BadOption
from turnout.search.spaces.checking import is_number


class Options:
    """Each reading method gives the option's value, or `default` where it is not given, and raises BadOption, which
    tells what is allowed, for another value. An option without a default may be left out and is then None. `who` takes
    them."""

    def __init__(self, who: str, given: Mapping[str, object]) -> None:
        self._who = who
        self._given = given
        self._known: list[str] = []

    def whole(self, name: str, default: int, *, least: int, most: int | None = None) -> int:
        """A whole number from `least` to `most`."""
        value = self._take(name, default)
        if not is_number(value) or value != int(value) or value < least or (most is not None and value > most):
            raise self.wrong(name, f"a whole number, {least} or more" if most is None else _whole_between(least, most))
        return int(value)

    def some_whole(self, name: str, *, least: int, most: int | None = None) -> int | None:
        return None if self._take(name, None) is None else self.whole(name, least, least=least, most=most)

    def needed_whole(self, name: str, meaning: str, *, least: int) -> int:
        value = self.some_whole(name, least=least)
        if value is None:
            raise self.missing(name, meaning)
        return value

    def number(self, name: str, default: float, *, least: float = -math.inf, most: float = math.inf) -> float:
        """A number from `least` to `most`."""
        value = self._take(name, default)
        if not is_number(value) or not least <= value <= most:
            raise self.wrong(name, _between(least, most))
        return float(value)

    def some_number(self, name: str, *, least: float = -math.inf, most: float = math.inf) -> float | None:
        return None if self._take(name, None) is None else self.number(name, 0.0, least=least, most=most)

    def is_on(self, name: str, default: bool) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def some_flag(self, name: str) -> bool | None:
        return None if self._take(name, None) is None else self.is_on(name, False)

    def finish(self) -> None:
        """BadOption for an option that nobody read."""
        for name in self._given:
            if name not in self._known:
                near = nearest(str(name), self._known)
                hint = f"did you mean {near}?" if near else f"it has {', '.join(self._known) or 'none'}"
                raise BadOption(f"{self._who} has no option {name!r}; {hint}", str(name))

    def wrong(self, name: str, allowed: str) -> BadOption:
        return BadOption(f"{self._who}: {name} must be {allowed}, not {self._given.get(name)!r}", name)

    def missing(self, name: str, meaning: str) -> BadOption:
        return BadOption(f"{self._who} needs {name}: {meaning}", name)

    def _take(self, name: str, default: object) -> object:
        if name not in self._known:
            self._known.append(name)
        value = self._given.get(name)
        return default if value is None else value


def _whole_between(least: int, most: int) -> str:
    return f"a whole number from {least} to {most}"


def _between(least: float, most: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f"a number from {least:g} to {most:g}"
    return f"a number, {least:g} or more" if math.isfinite(least) else "a number"
