"""Lists, named entries and sections: how settings are put together from single values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from turnout.config.document import Items, Node, Table, describe, is_empty
from turnout.config.reference import as_text
from turnout.config.setting import DEFAULT, Setting, Tree, plain, walk
from turnout.config.values import Kind, Report, Single, meant
from turnout.errors import InvalidInput
from turnout.model.ids import check_label
from turnout.model.likeness import instead_of

T = TypeVar("T")
#: The field of an open record that holds what belongs to its provider.
REST = "settings"


def key(
    kind: Kind[T], default: T, doc: str, *, also: tuple[str, ...] = (), variable: str | None = None, **starts: object
) -> T:
    """A field of a section. `also`: other spellings; `variable`: a short one beside ``TURNOUT_SECTION_KEY``.

    `starts` are entries that are there before anything is written, for a section of named entries.
    """
    about = {"kind": kind, "doc": doc, "also": also, "variable": variable, "starts": starts}
    if isinstance(default, dict):
        return cast(T, field(default_factory=lambda: cast(Any, dict(default)), metadata=about))
    return field(default=default, metadata=about)


def section(cls: type[T]) -> T:
    """A field of all settings that has the keys of `cls`, and what its docstring says."""
    return key(Record(cls), cls(), (cls.__doc__ or "").strip().partition("\n")[0])


@dataclass(frozen=True, slots=True)
class Key:
    """One field of a section as it is written: with dashes."""

    name: str
    attribute: str
    kind: Kind[Any]
    default: object
    doc: str
    also: tuple[str, ...]
    variable: str | None
    starts: Mapping[str, object]


def keys_of(cls: type[Any]) -> dict[str, Key]:
    """In the order they are declared."""
    found = {}
    blank = cls()
    for each in fields(cls):
        if "kind" in each.metadata:
            name = each.name.replace("_", "-")
            found[name] = Key(name, each.name, default=getattr(blank, each.name), **each.metadata)
    return found


class Optional(Kind[T | None]):
    """Or nothing: ``~``, ``null``, or nothing after the colon."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.words = kind.words

    def read(self, node: Node, path: str, report: Report) -> Tree | Setting | None:
        return Setting(None, report.origin(node.line)) if is_empty(node) else self.kind.read(node, path, report)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [self.kind.schema(), {"type": "null"}]}


class ListOf(Kind[tuple[T, ...]]):
    """A list; a single value is a list of one."""

    def __init__(self, kind: Single[T]) -> None:
        self.kind = kind
        self.words = f"a list of {kind.words}"

    def read(self, node: Node, path: str, report: Report) -> Setting | None:
        if is_empty(node):
            return Setting((), report.origin(node.line))
        if isinstance(node, Table):
            report.complain(node.line, f"{path}: expected a list, found names and values", "write `[one, two]`")
            return None
        nodes = node.items if isinstance(node, Items) else (node,)
        found = [self.kind.read(each, path, report) for each in nodes]
        return Setting(tuple(each.value for each in found if each is not None), report.origin(node.line))

    def schema(self) -> dict[str, object]:
        inner = self.kind.schema()
        return {"anyOf": [{"type": "array", "items": inner}, inner, {"type": "null"}]}


class Named(Kind[Mapping[str, T]]):
    """Entries under names of the user's choice. With `label`, a name is one that commands can take. With `needed`, an
    entry must not be empty, and that is what to write."""

    def __init__(self, kind: Kind[T], *, label: str | None = None, needed: str | None = None) -> None:
        self.kind = kind
        self.label = label
        self.needed = needed
        self.words = f"names, each with {kind.words}"

    def read(self, node: Node, path: str, report: Report) -> Tree | None:
        table = as_table(node, path, report)
        if table is None:
            return None
        tree: Tree = {}
        for name, value in table.entries.items():
            if self.label is not None:
                try:
                    check_label(name, self.label)
                except InvalidInput as error:
                    report.complain(table.lines[name], f"{path}: {error.message}", error.hint)
                    continue
            found = self.kind.read(value, f"{path}.{name}", report)
            if self.needed is not None and isinstance(found, dict) and not any(walk(found)):
                report.complain(table.lines[name], f"{path}.{name}: there is nothing in it", self.needed)
            elif found is not None:
                tree[name] = found
        return tree

    def build(self, found: Tree | Setting) -> dict[str, T]:
        assert isinstance(found, dict)
        return {name: self.kind.build(each) for name, each in found.items()}

    def schema(self) -> dict[str, object]:
        return {"type": ["object", "null"], "additionalProperties": self.kind.schema()}


class Record(Kind[T]):
    """The keys of a dataclass. With `is_open`, further keys belong to a provider and are kept as they are written.
    `beside` are words that may stand there too, and that somebody else reads."""

    def __init__(self, cls: type[T], *, is_open: bool = False, beside: tuple[str, ...] = ()) -> None:
        self.cls = cls
        self.keys = keys_of(cls)
        self.is_open = is_open
        self.beside = beside
        self.words = "names and values"
        self._spellings = {also: each.name for each in self.keys.values() for also in each.also}

    def read(self, node: Node, path: str, report: Report) -> Tree | None:
        table = as_table(node, path, report)
        if table is None:
            return None
        tree: Tree = {}
        for written, value in table.entries.items():
            name = self._spellings.get(written, written)
            line = table.lines[written]
            if name in self.keys:
                kind: Kind[Any] = self.keys[name].kind
            elif self.is_open:
                kind = ANYTHING
            else:
                what = f"unknown key {written!r} in {path}" if path else f"unknown section {written!r}"
                report.complain(line, what, instead_of(written, {*self.keys, *self.beside}))
                continue
            if name in tree:
                report.complain(line, f"{written!r} is another word for {name!r}, which is there too", "keep one")
                continue
            found = kind.read(value, f"{path}.{name}" if path else name, report)
            if found is not None:
                tree[name] = found
        return tree

    def build(self, found: Tree | Setting) -> T:
        assert isinstance(found, dict)
        values = {
            self.keys[name].attribute: self.keys[name].kind.build(found[name]) for name in found if name in self.keys
        }
        if self.is_open:
            values[REST] = {name: plain(each) for name, each in found.items() if name not in self.keys}
        return self.cls(**values)

    def defaults(self) -> Tree:
        """What holds when nothing is written, as the lowest layer."""
        tree: Tree = {}
        for name, each in self.keys.items():
            if isinstance(each.kind, Record):
                tree[name] = each.kind.defaults()
            elif isinstance(each.kind, Named):
                tree[name] = cast(Tree, _with_origin(dict(each.starts)))
            else:
                tree[name] = Setting(each.default, DEFAULT)
        return tree

    def schema(self) -> dict[str, object]:
        properties = {}
        for name, each in self.keys.items():
            described = {**each.kind.schema(), "description": each.doc}
            properties.update(dict.fromkeys((name, *each.also), described))
        return {"type": ["object", "null"], "properties": properties, "additionalProperties": self.is_open}


def _with_origin(value: object) -> Tree | Setting:
    if isinstance(value, dict):
        return {name: _with_origin(each) for name, each in value.items()}
    return Setting(value, DEFAULT)


def as_table(node: Node, path: str, report: Report) -> Table | None:
    """Names and values, which may be none; anything else is reported."""
    if isinstance(node, Table):
        return node
    if is_empty(node):
        return Table({}, {}, node.line)
    report.complain(
        node.line, f"{path}: expected names and values, found {describe(node)}", "write `name: value` below it"
    )
    return None


class Anything(Kind[object]):
    """Whatever is written: it is for a provider that does not say what it takes."""

    words = "anything"

    def read(self, node: Node, path: str, report: Report) -> Tree | Setting | None:
        if isinstance(node, Table):
            table = {name: self.read(each, f"{path}.{name}", report) for name, each in node.entries.items()}
            whole: Tree = {name: each for name, each in table.items() if each is not None}
            return whole or Setting({}, report.origin(node.line))  # an empty one, too, is written somewhere
        if isinstance(node, Items):
            found = [self.read(each, path, report) for each in node.items]
            return Setting([plain(each) for each in found if each is not None], report.origin(node.line))
        try:
            return Setting(as_text(node.text) if not node.plain else meant(node.text), report.origin(node.line))
        except ValueError as error:
            report.complain(node.line, f"{path}: {error}", "write secret:NAME with letters, digits and _")
            return None

    def schema(self) -> dict[str, object]:
        return {}


ANYTHING = Anything()
