"""Spaces as NNI's users write them: ``{"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}}``.

Where a choice lists mappings with a ``_name``, the other names in them are parameters that exist only there.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.space import Branch, Choice, Parameter
from turnout.search.spaces import functions
from turnout.search.spaces.checking import checked, wrong

TYPE, VALUE, NAME = "_type", "_value", "_name"
_TYPES = (
    "choice", "randint", "uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal", "lognormal",
    "qlognormal",
)  # fmt: skip
_HINT = 'write {"_type": "choice", "_value": [1, 2]}'


def read(content: Mapping[str, object], above: str = "") -> dict[str, Parameter]:
    """InvalidInput names the parameter that is wrong."""
    return {str(name): _read(f"{above}{name}", value) for name, value in content.items()}


def _read(name: str, entry: object) -> Parameter:
    if not isinstance(entry, Mapping) or not {TYPE, VALUE} <= entry.keys():
        raise wrong(name, f"it has no {TYPE} and {VALUE}", _HINT)
    kind, value = entry[TYPE], entry[VALUE]
    if kind not in _TYPES:
        raise wrong(name, f"there is no type {kind!r}", f"use one of {', '.join(_TYPES)}")
    if not isinstance(value, (list, tuple)):
        raise wrong(name, f"its {VALUE} is no list", _HINT)
    if kind == "choice":
        return checked(name, Choice(tuple(_option(name, each) for each in value)))
    if kind == "randint" and len(value) != 2:
        raise wrong(name, f"randint does not take {len(value)} values", "write [low, above]")
    return functions.apply(name, kind, value)


def _option(name: str, value: object) -> object:
    if not isinstance(value, Mapping) or NAME not in value:
        return value
    branch = str(value[NAME])
    below = {key: each for key, each in value.items() if key != NAME}
    return Branch(branch, read(below, f"{name}/{branch}/"))
