"""The keys a provider takes, from the dataclass it publishes. Plain types are checked, all else is its own affair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Shape:
    """`types` are the Python types a written value may have; none = any."""

    words: str = "anything"
    types: tuple[type[Any], ...] = ()
    json: tuple[str, ...] = ()
    doc: str = ""

    def fits(self, value: object) -> bool:
        return not self.types or type(value) in self.types or (isinstance(value, str) and str in self.types)

    def schema(self) -> dict[str, object]:
        described: dict[str, object] = {"type": list(self.json)} if self.json else {}
        return {**described, "description": self.doc} if self.doc else described


_SIMPLE: dict[Any, tuple[str, tuple[type[Any], ...], tuple[str, ...]]] = {
    str: ("text", (str,), ("string",)),
    int: ("a whole number", (int,), ("integer",)),
    float: ("a number", (int, float), ("number",)),
    bool: ("true or false", (bool,), ("boolean",)),
    list: ("a list", (list,), ("array",)),
    tuple: ("a list", (list,), ("array",)),
    Sequence: ("a list", (list,), ("array",)),
}


def shapes_of(schema: type[Any]) -> dict[str, Shape]:
    """By key, as it is written: with dashes. The one line of each is `doc` in its metadata."""
    try:
        hints = get_type_hints(schema)
    except NameError:  # a type that only its type checker sees
        hints = {}
    return {
        each.name.replace("_", "-"): _shape(hints.get(each.name), str(each.metadata.get("doc", "")))
        for each in fields(schema)
    }


def _shape(hint: Any, doc: str) -> Shape:
    parts = get_args(hint)
    inner = [each for each in parts if each is not type(None)]
    may_be_empty = len(inner) < len(parts) and len(inner) == 1
    base = inner[0] if may_be_empty else hint
    simple = _SIMPLE.get(get_origin(base) or base)
    if simple is None:
        return Shape(doc=doc)
    words, types, json = simple
    if may_be_empty:
        types, json = (*types, type(None)), (*json, "null")
    return Shape(words, types, json, doc)
