"""Specifications back from the plain values they travel as."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from turnout.errors import InvalidInput

T = TypeVar("T")


def build(kind: type[T], value: Any) -> T:
    """A `kind` (a dataclass of our own: plain fields, tuples, enumerations and others like it) from what JSON made of
    it. InvalidInput for a field it does not have: whoever wrote it is newer."""
    return typing.cast(T, _build(kind, value))


def _build(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if value is None else _build(rest[0], value) if len(rest) == 1 else value
    if origin is tuple:
        return tuple(_build(typing.get_args(kind)[0], each) for each in value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if not is_dataclass(kind):
        return value
    hints = typing.get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    unknown = sorted(value.keys() - names)
    if unknown:
        hint = "upgrade it: pip install --upgrade turnout"
        raise InvalidInput(f"{unknown[0]!r} is not known to this turnout", hint=hint)
    make: Any = kind
    return make(**{name: _build(hints[name], each) for name, each in value.items()})
