"""``from interface import Interface, implements``, as the package of that name has them: an interface is a class whose
methods say what another class must have; ``class Mine(implements(Theirs))`` is checked when it is defined."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["Interface", "InvalidImplementation", "implements"]


class InvalidImplementation(TypeError):
    """A class has not all that an interface asks for."""


class Interface:
    """Base of interfaces."""


def implements(*interfaces: type) -> type:
    """A base class: who has it as one has every method of `interfaces`, with the same names of arguments, or
    InvalidImplementation is raised where it is defined."""

    class Implements:
        def __init_subclass__(cls, **given: Any) -> None:
            super().__init_subclass__(**given)
            wrong = [line for interface in interfaces for line in _wrong(cls, interface)]
            if wrong:
                names = ", ".join(interface.__name__ for interface in interfaces)
                raise InvalidImplementation(f"class {cls.__name__} fails to implement {names}: {'; '.join(wrong)}")

    return Implements


def methods_of(interface: type) -> dict[str, Any]:
    """By name; what begins with ``_`` is the interface's own affair."""
    return {name: each for name, each in vars(interface).items() if callable(each) and not name.startswith("_")}


def _wrong(cls: type, interface: type) -> list[str]:
    found = []
    for name, wanted in methods_of(interface).items():
        method = getattr(cls, name, None)
        if not callable(method):
            found.append(f"no method {name}")
            continue
        asked, taken = (list(inspect.signature(each).parameters.values()) for each in (wanted, method))
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in taken):
            continue
        lacking = [each.name for each in asked if each.name not in {other.name for other in taken}]
        if lacking:
            found.append(f"{name} has no argument {', '.join(lacking)}")
    return found
