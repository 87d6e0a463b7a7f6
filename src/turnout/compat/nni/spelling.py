"""Two spellings of one name: NNI's own (``submitTrialJob``), and Python's (``submit_trial_job``)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

T = TypeVar("T")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_BAR = re.compile(r"_([a-z0-9])")


def snake(name: str) -> str:
    """``submitTrialJob`` as ``submit_trial_job``; what is so already stays."""
    return _HUMP.sub(lambda found: f"_{found[1].lower()}", name)


def camel(name: str) -> str:
    """The other way round."""
    return _BAR.sub(lambda found: found[1].upper(), name)


def twice_spelled(cls: type[T]) -> type[T]:
    """A dataclass whose fields can be given, read and set under both spellings."""
    plain_init = cls.__init__
    fields = {camel(each.name): each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]

    def init(self: Any, *given: Any, **named: Any) -> None:
        plain_init(self, *given, **{fields.get(name, name): value for name, value in named.items()})

    def read(self: Any, name: str) -> Any:
        if name not in fields or fields[name] == name:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
        return getattr(self, fields[name])

    def write(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, fields.get(name, name), value)

    for name, method in {"__init__": init, "__getattr__": read, "__setattr__": write}.items():
        setattr(cls, name, method)
    return cls


def read_either(thing: object, name: str, default: Any = None) -> Any:
    """What an object, or a mapping, has under that name in either spelling."""
    for spelled in (name, camel(name)):
        if isinstance(thing, dict):
            if spelled in thing:
                return thing[spelled]
        elif hasattr(thing, spelled):
            return getattr(thing, spelled)
    return default
