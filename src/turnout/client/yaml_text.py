"""YAML as plain names and values, also by the megabyte. A name that is written twice is a mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from turnout.model.acyclic import acyclic

_BRACKETS = re.compile(r"[\[{\]}]")
_DEEP = re.compile(r"^[ ?:-]{400}", re.MULTILINE)
_DEEPEST = 1000
_LONGEST = 40  # of what is shown of a value
_LARGE = 1 << 20  # characters, of which the slow loader makes minutes
_FAST = getattr(yaml, "CSafeLoader", None)
_TAG = "tag:yaml.org,2002:"
_INTEGER = f"{_TAG}int"
#: YAML 1.1 takes 1e-3 for a text, because it lacks the point, and 010 for eight, or for ten, and never for a name.
_IN_POWERS = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_TEXT, _LIST, _NAMES, _MERGE = f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map", f"{_TAG}merge"


class WrittenTwice(yaml.MarkedYAMLError):
    """Of two values of a name, one would be lost."""


def read_yaml(text: str) -> Any:
    """YAMLError also for what PyYAML lets through: a name that is there twice, or is none, a date that is none, an
    integer of thousands of digits, half a character, thousands of brackets in each other."""
    try:
        with acyclic():
            return _read(text)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise yaml.MarkedYAMLError(problem=f"a value is not what it looks like: {error}") from error
    except RecursionError as error:
        raise yaml.MarkedYAMLError(problem="there are too many brackets in each other") from error


def _read(text: str) -> Any:
    """libyaml is several times as fast, but tells less of a mistake, and crashes where something is very deep."""
    try:
        return _built(_loader(text))
    except WrittenTwice:
        raise
    except yaml.YAMLError as error:
        if len(text) > _LARGE or _is_half_a_character(error):
            raise
    return _built(yaml.SafeLoader(text))  # it says better what is wrong


def _is_half_a_character(error: yaml.YAMLError) -> bool:
    r"""Of ``"\ud800"`` PyYAML makes a text that can be neither written nor shown."""
    return "Unicode character escape" in str(getattr(error, "problem", ""))


def _loader(text: str) -> Any:
    return _FAST(text) if _FAST is not None and not _is_deep(text) else yaml.SafeLoader(text)


def _is_deep(text: str) -> bool:
    """Whether things may be in each other by the hundred."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        if depth > _DEEPEST:
            return True
    return _DEEP.search(text) is not None


def _built(loader: Any) -> Any:
    node = loader.get_single_node()
    return None if node is None else _Builder(loader).value(node)


class _Builder:
    """Makes values of nodes, the plain ones itself: PyYAML is three times as slow, and takes the last of two values."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._made: dict[int, Any] = {}
        """what has aliases is one object; by the identity of its node, for all of them live on"""

    def value(self, node: Any) -> Any:
        if node.tag == _TEXT:
            return float(node.value) if not node.style and _IN_POWERS.fullmatch(node.value) else node.value
        if node.tag == _INTEGER and _LEADING_ZERO.match(node.value):
            return node.value
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._made:
            return self._made[id(node)]
        if node.tag == _LIST:
            items = self._made[id(node)] = []
            items.extend([self.value(each) for each in node.value])
            return items
        if node.tag == _NAMES:
            names = self._made[id(node)] = {}
            self._fill(names, node)
            return names
        return self._loader.construct_object(node, deep=True)

    def _name(self, node: Any) -> Any:
        return node.value if node.tag == _TEXT else self.value(node)

    def _scalar(self, node: Any) -> Any:
        try:
            return self._loader.construct_object(node)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            why = f": {error}" if isinstance(error, ValueError) and len(str(error)) <= _LONGEST else ""
            what = f"{node.value[:_LONGEST]} is not what it looks like{why}"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark) from error

    def _fill(self, names: dict[Any, Any], node: Any) -> None:
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        for key, _ in own:
            if not isinstance(key, yaml.ScalarNode):
                what = "what stands in braces or brackets here is no name; a text that begins with one is put in quotes"
                raise yaml.MarkedYAMLError(problem=what, problem_mark=key.start_mark)
        found = {self._name(key): self.value(value) for key, value in own}
        if len(found) < len(own):
            self._tell_twice([key for key, _ in own])
        if len(own) < len(node.value):
            self._loader.flatten_mapping(node)
            merged = node.value[: len(node.value) - len(own)]
            names.update((self.value(key), self.value(value)) for key, value in merged)
        names.update(found)

    def _tell_twice(self, keys: Sequence[Any]) -> None:
        first: dict[Any, Any] = {}
        for key in keys:
            other = first.setdefault(self._name(key), key)
            if other is not key:
                there = "there already" if other.value == key.value else f"the same as {other.value!r}, which is there"
                what = f"{key.value!r} is {there}, in line {other.start_mark.line + 1}"
                raise WrittenTwice(problem=what, problem_mark=key.start_mark)


class Lines:
    """Where in a text, which can be read, names are."""

    def __init__(self, text: str) -> None:
        self._root = _loader(text).get_single_node()

    def of(self, names: Sequence[str]) -> int | None:
        """The line of a name, of one below it, and so on, as far as there are such. None = not even of the first."""
        line, node = None, self._root
        for name in names:
            keys = node.value if isinstance(node, yaml.MappingNode) else ()
            found = next((pair for pair in keys if pair[0].value == name), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line
