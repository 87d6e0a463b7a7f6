"""Spaces as Hydra's users write them: ``lr=tag(log, interval(0.0001, 0.1)) layers=range(1,5) optimizer=adam,sgd``.

``interval`` is continuous, of integers where it is cast: ``int(interval(1, 8))``. The end of a ``range`` is not
included. One value alone does not vary. Text in quotes is always text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnout.errors import InvalidInput
from turnout.plugin.space import Choice, Parameter, Range
from turnout.search.spaces.checking import checked, wrong
from turnout.search.spaces.drawing import tidy
from turnout.search.spaces.notation import Call, Unreadable, read_values

_HINT = "write lr=0.1,0.2 or lr=interval(0.1, 1) or layers=range(1, 5)"
_KNOWN = "choice, range, interval, int, float, tag(log, ...)"
_MOST_VALUES = 10_000


def read(overrides: Sequence[str]) -> dict[str, Parameter]:
    """One override each. InvalidInput names the parameter that is wrong."""
    found: dict[str, Parameter] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        name = name.strip().lstrip("+")
        if not equals or not name or name.startswith("~"):
            raise InvalidInput(f"{override!r} is no NAME=VALUES", hint=_HINT)
        if name in found:
            raise wrong(name, "it is given twice", "write all its values once")
        found[name] = checked(name, _read(name, text))
    return found


def _read(name: str, text: str) -> Parameter:
    try:
        values = read_values(text, mark="")
    except Unreadable as error:
        raise wrong(name, str(error), _HINT) from error
    if len(values) == 1 and isinstance(values[0], Call):
        return _of_call(name, values[0])
    if any(isinstance(value, Call) for value in values):
        raise wrong(name, "a function stands among values", "write it alone, or use choice(a, b)")
    return Choice(tuple(values))


def _of_call(name: str, call: Call) -> Parameter:
    if call.name == "choice":
        if any(isinstance(each, Call) for each in call.args):
            raise wrong(name, "a function stands among values", "give choice values alone")
        return Choice(call.args)
    if call.name == "tag":
        return _tagged(name, call)
    if call.name in ("int", "float"):
        return _cast(name, call)
    if call.name == "interval":
        low, high = _numbers(name, call, (2,))
        return Range(low, high)
    if call.name == "range":
        return _range(name, call)
    raise wrong(name, f"there is no function {call.name!r}", f"use one of {_KNOWN}")


def _tagged(name: str, call: Call) -> Parameter:
    """Of all tags only ``log`` has a meaning; it makes a range one of magnitudes."""
    if len(call.args) < 2 or not isinstance(call.args[-1], Call):
        raise wrong(name, "tag has no function in it", "write tag(log, interval(0.0001, 0.1))")
    found = _of_call(name, call.args[-1])
    if "log" not in call.args[:-1]:
        return found
    if not isinstance(found, Range):
        raise wrong(name, "only a range can be logarithmic", "write tag(log, interval(0.0001, 0.1))")
    return replace(found, log=True)


def _cast(name: str, call: Call) -> Parameter:
    if len(call.args) != 1 or not isinstance(call.args[0], Call):
        raise wrong(name, f"{call.name} has no function in it", f"write {call.name}(interval(1, 8))")
    found = _of_call(name, call.args[0])
    if isinstance(found, Range):
        return replace(found, whole=call.name == "int")
    raise wrong(name, f"{call.name} takes an interval or a range", f"write {call.name}(interval(1, 8))")


def _range(name: str, call: Call) -> Parameter:
    numbers = _numbers(name, call, (1, 2, 3))
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0 or (stop - start) * step <= 0:
        raise wrong(name, "its range is empty", "write range(first, end); the end is not included")
    if step == 1 and all(isinstance(each, int) for each in (start, stop)):
        return Range(start, stop - 1, whole=True)
    count = -int(-(stop - start) // step)
    if count > _MOST_VALUES:
        raise wrong(name, f"its range has {count} values", "write interval(low, high)")
    values = (tidy(start + index * step) for index in range(count))
    return Choice(tuple(value for value in values if (stop - value) * step > 0))


def _numbers(name: str, call: Call, counts: Sequence[int]) -> list[float]:
    numbers = [each for each in call.args if isinstance(each, (int, float)) and not isinstance(each, bool)]
    if len(numbers) != len(call.args) or len(numbers) not in counts:
        raise wrong(name, f"{call.name} takes {' or '.join(map(str, counts))} numbers", _HINT)
    return numbers
