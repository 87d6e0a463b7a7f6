"""A YAML file as a tree that knows its lines.

Plain names and values only: tags could make objects, aliases could grow without end, a name that is written twice is a
mistake. Scalars stay text until somebody knows what they are meant to be, so that ``python: 3.10`` is not 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnout.config.problem import Problem

_LARGEST_FILE = 1 << 20
_DEEPEST = 20
_PLAIN = "write plain names and values: no tags, no anchors, no aliases"


@dataclass(frozen=True, slots=True)
class Scalar:
    """`plain`: written without quotes, so that it may be a number, a flag or nothing."""

    text: str
    plain: bool
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Table:
    """Names and values. `lines` are those of the names."""

    entries: dict[str, Node]
    lines: dict[str, int]
    line: int


Node = Scalar | Items | Table


@dataclass(slots=True)
class Document:
    """`root` is empty where the file could not be read as names and values; `problems` then says why."""

    file: str
    root: Table = field(default_factory=lambda: Table({}, {}, 1))
    problems: list[Problem] = field(default_factory=list)

    def complain(self, line: int, what: str, instead: str) -> None:
        self.problems.append(Problem(f"{self.file}:{line}", what, instead))


def read(path: Path) -> Document:
    """Never raises: whatever is wrong is among the problems."""
    document = Document(str(path))
    try:
        if path.stat().st_size > _LARGEST_FILE:
            document.complain(1, "it is over 1 MB", "this does not look like settings")
            return document
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        document.complain(_line_of_byte(path, error.start), "it is not UTF-8 text", "save it as UTF-8")
        return document
    except OSError as error:
        document.complain(1, f"it cannot be read: {error.strerror}", "make it a readable file")
        return document
    _parse(document, text)
    return document


def parse(file: str, text: str) -> Document:
    """What the file would be with this text. Never raises, as `read` does not."""
    document = Document(file)
    _parse(document, text)
    return document


def _line_of_byte(path: Path, position: int) -> int:
    return path.read_bytes().count(b"\n", 0, position) + 1


def _parse(document: Document, text: str) -> None:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = _Builder(document, yaml.parse(text, Loader=loader), yaml.events).build()
    except yaml.YAMLError as error:
        _complain_of_syntax(document, text, error)
        return
    except _Unreadable:
        return
    if isinstance(node, Table):
        document.root = node
    elif node is not None and not is_empty(node):
        document.complain(node.line, f"expected sections, found {describe(node)}", "write for instance `general:`")


def is_empty(node: Node) -> bool:
    """Nothing was written there."""
    return isinstance(node, Scalar) and node.plain and node.text in ("", "~", "null")


def describe(node: Node) -> str:
    if isinstance(node, Scalar):
        return "nothing" if is_empty(node) else repr(node.text)
    return "a list" if isinstance(node, Items) else "names and values"


def _complain_of_syntax(document: Document, text: str, error: Any) -> None:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        document.complain(line, "a character that no text has", "remove it")
        return
    number = min(mark.line, max(text.count("\n") - (text.endswith("\n")), 0))
    written = text.split("\n")[number]
    indentation = written[: len(written) - len(written.lstrip())]
    if "\t" in indentation or written[mark.column : mark.column + 1] == "\t":
        document.complain(mark.line + 1, "a tab", "indent with spaces")
        return
    instead = _SYNTAX.get(error.problem or "", "check quotes, brackets and indentation here and in the line above")
    document.complain(mark.line + 1, error.problem or "not valid YAML", instead)


_SYNTAX = {
    "mapping values are not allowed in this context": "quote a value that has ': ' in it, and check the indentation",
    "could not find expected ':'": "write `name: value`",
    "did not find expected key": "write `name: value`, indented like the lines around it",
    "found unexpected end of stream": "close the quote",
    "found character that cannot start any token": "quote it",
}


class _Unreadable(Exception):
    """The rest of the file is not looked at."""


class _Builder:
    """Makes the tree of a stream of events (of these `kinds`), and complains of what settings may not hold."""

    def __init__(self, document: Document, events: Iterator[Any], kinds: Any) -> None:
        self._document = document
        self._events = events
        self._kinds = kinds

    def build(self) -> Node | None:
        """The only document; None for a file without one."""
        root: Node | None = None
        for event in self._events:
            if isinstance(event, self._kinds.DocumentStartEvent):
                if root is not None:
                    self._stop(event, "a second document", "keep what is above `---`")
                root = self._node(next(self._events), 0)
        return root

    def _stop(self, event: Any, what: str, instead: str) -> None:
        self._document.complain(event.start_mark.line + 1, what, instead)
        raise _Unreadable

    def _node(self, event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        if depth > _DEEPEST:
            self._stop(event, "it is nested too deep", f"{_DEEPEST} levels are allowed")
        if isinstance(event, self._kinds.AliasEvent):
            self._document.complain(line, f"an alias, *{event.anchor}", _PLAIN)
            return Scalar("", True, line)
        if event.anchor is not None:
            self._document.complain(line, f"an anchor, &{event.anchor}", _PLAIN)
        if event.tag is not None and event.tag != "!":  # a quoted text has the tag `!` in some parsers
            self._document.complain(line, f"a tag, {event.tag}", _PLAIN)
        if isinstance(event, self._kinds.ScalarEvent):
            return Scalar(event.value, bool(event.implicit[0]), line)
        if isinstance(event, self._kinds.SequenceStartEvent):
            return Items(tuple(self._items(depth)), line)
        return self._table(line, depth)

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), self._kinds.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _table(self, line: int, depth: int) -> Table:
        table = Table({}, {}, line)
        while not isinstance(event := next(self._events), self._kinds.MappingEndEvent):
            name = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if not isinstance(name, Scalar):
                self._document.complain(name.line, f"{describe(name)} as a name", "write `name: value`")
            elif name.text in table.entries:
                first = table.lines[name.text]
                self._document.complain(
                    name.line, f"{name.text!r} is there already, in line {first}", "keep one of them"
                )
            else:
                table.entries[name.text] = value
                table.lines[name.text] = name.line
        return table
