"""Two spellings of one name: NNI's own (``submitTrialJob``), and Python's (``submit_trial_job``)."""

from __future__ import annotations

import dataclasses
import functools
import inspect
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
    """A dataclass whose fields can be given, read and set under both spellings; so can those of who inherits it."""
    _spell_init(cls)
    for name, method in {"__new__": staticmethod(_new), "__getattr__": _read, "__setattr__": _write}.items():
        setattr(cls, name, method)
    return cls


@functools.cache
def _fields(cls: Any) -> dict[str, str]:
    """By NNI's spelling."""
    return {camel(each.name): each.name for each in dataclasses.fields(cls)}


def _spell_init(cls: Any) -> None:
    """Idempotent. A parameter of its `__init__` is given as it is: somebody may have written that."""
    plain_init = cls.__init__
    if getattr(plain_init, "is_twice_spelled", False):
        return
    taken = inspect.signature(plain_init).parameters

    @functools.wraps(plain_init)
    def init(self: Any, *given: Any, **named: Any) -> None:
        fields = {theirs: ours for theirs, ours in _fields(cls).items() if theirs not in taken}
        plain_init(self, *given, **{fields.get(name, name): value for name, value in named.items()})

    init.is_twice_spelled = True  # type: ignore[attr-defined]
    cls.__init__ = init


def _new(cls: Any, *given: Any, **named: Any) -> Any:
    """Only now is it known which `__init__` a class has that inherits: `dataclass` gives it one when it is made."""
    _spell_init(cls)
    return object.__new__(cls)


def _read(self: Any, name: str) -> Any:
    fields = _fields(self.__class__)
    if name not in fields or fields[name] == name:
        raise AttributeError(f"{self.__class__.__name__!r} object has no attribute {name!r}")
    return getattr(self, fields[name])


def _write(self: Any, name: str, value: Any) -> None:
    object.__setattr__(self, _fields(self.__class__).get(name, name), value)


def read_either(thing: object, name: str, default: Any = None) -> Any:
    """What an object, or a mapping, has under that name in either spelling."""
    for spelled in (name, camel(name)):
        if isinstance(thing, dict):
            if spelled in thing:
                return thing[spelled]
        elif hasattr(thing, spelled):
            return getattr(thing, spelled)
    return default
