"""Spaces as NNI's users write them: ``{"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}}``.

Where a choice lists mappings with a ``_name``, the other names in them are parameters that exist only there.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.space import Choice, Parameter
from turnout.search.spaces import functions
from turnout.search.spaces.branching import read_each, read_option
from turnout.search.spaces.checking import checked, wrong

TYPE, VALUE = "_type", "_value"
_TYPES = (
    "choice", "randint", "uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal", "lognormal",
    "qlognormal",
)  # fmt: skip
_HINT = 'write {"_type": "choice", "_value": [1, 2]}'


def read(content: Mapping[str, object]) -> dict[str, Parameter]:
    """InvalidInput names the parameter that is wrong."""
    return read_each(content, _read)


def _read(name: str, entry: object) -> Parameter:
    if not isinstance(entry, Mapping) or not {TYPE, VALUE} <= entry.keys():
        raise wrong(name, f"it has no {TYPE} and {VALUE}", _HINT)
    kind, value = entry[TYPE], entry[VALUE]
    if kind not in _TYPES:
        raise wrong(name, f"there is no type {kind!r}", f"use one of {', '.join(_TYPES)}")
    if not isinstance(value, (list, tuple)):
        raise wrong(name, f"its {VALUE} is no list", _HINT)
    if kind == "choice":
        return checked(name, Choice(tuple(read_option(name, each, _read) for each in value)))
    if kind == "randint" and len(value) != 2:
        raise wrong(name, f"randint does not take {len(value)} values", "write [low, above]")
    return functions.apply(name, kind, value)
