"""How a function gets to where it is called: once by its name, once by value, or by value with each call."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_STEADY = (int, float, complex, bool, str, bytes, type(None), types.ModuleType)
#: What a class has by itself, and does not change.
_OF_CLASSES = {
    "__annotations__", "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__match_args__",
    "__module__", "__weakref__",
}  # fmt: skip

#: What a function has by itself, and can be changed.
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_ABSENT = object()


class Function:
    """One that workers LEARN under `number`, as `data`; or, with number 0, one that comes with each call. `pace` is how
    many seconds a call took of late."""

    __slots__ = ("data", "number", "pace")

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.data = data
        self.pace: float | None = None

    def took(self, seconds: float) -> None:
        self.pace = seconds if self.pace is None else self.pace + 0.1 * (seconds - self.pace)


class Functions:
    """All that were called. A function that may be another one the next time, because it refers to something that can
    change, goes by value with each call."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Function, list[_Reference]]] = {}
        self._passing: dict[Any, Function] = {}
        self._count = 0

    def get(self, function: Callable[..., Any]) -> Function:
        try:
            known = self._known.get(function)
        except TypeError:  # it has no hash
            return self._with_each_call(type(function))
        if known is not None:
            for each in known[1]:
                if each.names.get(each.name, _ABSENT) is not each.value:
                    break
            else:
                return known[0]
        return self._learn(function)

    def _learn(self, function: Callable[..., Any]) -> Function:
        by_name = is_importable(function)
        references = [] if by_name else _references(function, set())
        if references is None:
            return self._with_each_call(getattr(function, "__code__", type(function)))
        import cloudpickle

        self._count += 1
        learned = Function(self._count, (pickle if by_name else cloudpickle).dumps(function, 5))
        self._known[function] = learned, references
        return learned

    def _with_each_call(self, like: Any) -> Function:
        """`like` is what its calls have in common."""
        found = self._passing.get(like)
        if found is None:
            if len(self._passing) > 1000:
                self._passing.clear()
            found = self._passing[like] = Function(0, b"")
        return found


class _Attributes:
    """Of a function, as names."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def get(self, name: str, default: Any) -> Any:
        return getattr(self._thing, name, default)


class _Extent:
    """How many names a class has: the same while there are no more and no fewer."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._count = len(names)

    def get(self, name: str, default: Any) -> Any:
        return self if len(self._names) == self._count else default


class _Reference(NamedTuple):
    """What something refers to by a name, and what that was; `_ABSENT` = there was nothing."""

    names: Mapping[str, Any] | _Attributes | _Extent
    name: str
    value: Any


def is_importable(thing: Any) -> bool:
    """Whether another process finds the same under its name."""
    module = getattr(thing, "__module__", None)
    found: Any = sys.modules.get(module) if module and module != "__main__" else None
    path = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "?")
    for name in str(path).split("."):
        found = getattr(found, name, None)
    return found is not None and found is thing


def _references(thing: Any, seen: set[int]) -> list[_Reference] | None:
    """All that a function or class depends on which goes by value; None when something there may change unseen."""
    if isinstance(thing, _STEADY) or id(thing) in seen or is_importable(thing):
        return []
    seen.add(id(thing))
    if isinstance(thing, (staticmethod, classmethod)):
        return _references(thing.__func__, seen)
    if isinstance(thing, property):
        return _all([thing.fget, thing.fset, thing.fdel], seen)
    if isinstance(thing, type):
        names = {name: value for name, value in vars(thing).items() if name not in _OF_CLASSES}
        extent = _Extent(vars(thing))
        own = [_Reference(extent, "", extent), *(_Reference(vars(thing), name, names[name]) for name in names)]
        found = _all([*thing.__bases__, *names.values()], seen)
    elif isinstance(thing, types.FunctionType) and not thing.__closure__ and not thing.__dict__:
        known = thing.__globals__
        own = [_Reference(known, name, known.get(name, _ABSENT)) for name in set(_names(thing.__code__))]
        kept = [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        found = _all([*kept, *(each.value for each in own if each.value is not _ABSENT)], seen)
        own += [_Reference(_Attributes(thing), name, getattr(thing, name)) for name in _OF_FUNCTIONS]
    else:
        return None
    return None if found is None else own + found


def _all(things: Iterable[Any], seen: set[int]) -> list[_Reference] | None:
    found: list[_Reference] = []
    for each in things:
        those = _references(each, seen)
        if those is None:
            return None
        found += those
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)
