"""Values of Python as a file would have them."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Protocol, runtime_checkable

_AS_THEY_ARE = (bool, int, float, str)


@runtime_checkable
class PathLike(Protocol):
    """What is a path to `os` and to `open`."""

    def __fspath__(self) -> str: ...


def plain(value: object) -> object:
    """Numbers of others (numpy's, a tensor of one) as numbers of Python, their arrays as lists, paths as texts,
    also within lists and dicts. Nothing is imported for that, and what is none of these stays what it is."""
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, PathLike):
        return value.__fspath__()
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return _number(value)


def _number(value: object) -> object:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    as_list, as_one = getattr(value, "tolist", None), getattr(value, "item", None)
    if callable(as_one) and getattr(value, "shape", None) == ():
        return plain(as_one())
    return plain(as_list()) if callable(as_list) else value
