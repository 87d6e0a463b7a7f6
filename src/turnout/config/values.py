"""What a single value may be: text, numbers, sizes, spans of time. Each reads what was written and describes itself.

Reading never raises: what is wrong is reported, with its place and what to write instead, and left out.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from turnout.config.document import Node, Scalar, describe, is_empty
from turnout.config.reference import as_text
from turnout.config.setting import Origin, Setting, Tree, plain
from turnout.errors import InvalidInput
from turnout.model.ids import check_address, check_label, check_pattern
from turnout.model.measures import parse_seconds, parse_size

T = TypeVar("T")
N = TypeVar("N", int, float)


class Report(Protocol):
    """Who is told of problems, and knows where values are from."""

    def complain(self, line: int, what: str, instead: str) -> None: ...

    def origin(self, line: int) -> Origin: ...


class Kind(ABC, Generic[T]):
    words: str

    @abstractmethod
    def read(self, node: Node, path: str, report: Report) -> Tree | Setting | None:
        """What was written, checked; None when it was reported as wrong."""

    def build(self, found: Tree | Setting) -> T:
        return cast(T, plain(found))

    @abstractmethod
    def schema(self) -> dict[str, object]:
        """As JSON schema."""


@dataclass(frozen=True, slots=True)
class Single(Kind[T]):
    """One value. `parse` raises ValueError on text that is none."""

    words: str
    parse: Callable[[str], T]
    json: Mapping[str, object]
    example: str
    is_text: bool = False

    def read(self, node: Node, path: str, report: Report) -> Setting | None:
        name = path.rpartition(".")[2]
        instead = f"write for instance `{name}: {self.example}`"
        if not isinstance(node, Scalar) or is_empty(node):
            report.complain(node.line, f"{path}: expected {self.words}, found {describe(node)}", instead)
            return None
        if self.is_text and node.plain and node.text in ("true", "false"):
            report.complain(
                node.line,
                f"{path}: expected {self.words}, found {node.text}",
                f'write "{node.text}" if you mean the word',
            )
            return None
        if not self.is_text and not node.plain:
            report.complain(node.line, f"{path}: expected {self.words}, found text in quotes", instead)
            return None
        try:
            return Setting(self.parse(node.text), report.origin(node.line))
        except ValueError:
            report.complain(node.line, f"{path}: expected {self.words}, found {node.text!r}", instead)
            return None

    def schema(self) -> dict[str, object]:
        return dict(self.json)


_NUMBER = re.compile(r"[-+]?(\d+|\d+\.\d*|\.\d+)([eE][-+]?\d+)?\Z")
_WORDS: dict[str, object] = {"true": True, "false": False, "": None, "~": None, "null": None}


def meant(text: str) -> object:
    """What text without quotes means where nobody says what it is for."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.match(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return as_text(text)


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[-+]?[0-9_]+", text) or int(text) < least:
            raise ValueError(text)
        return int(text)

    return parse


def _tries(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}|never", text):
        raise ValueError(text)
    return text


def _positive(parse: Callable[[str], N]) -> Callable[[str], N]:
    def parse_positive(text: str) -> N:
        value = parse(text)
        if value <= 0:
            raise ValueError(text)
        return value

    return parse_positive


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError(text)
    return as_text(text)


_CODE_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")


def _code_path(text: str) -> str:
    if not _CODE_PATH.match(text):
        raise ValueError(text)
    return text


def _command_line(text: str) -> str:
    for line in text.split("\n"):
        shlex.split(line, comments=True)  # raises for a quote that is not closed
    return _text(text)


def _pattern(text: str) -> str:
    try:
        return check_pattern(_text(text))
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _label(text: str) -> str:
    try:
        return check_label(_text(text), "name")
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _address(text: str) -> str:
    try:
        return check_address(_text(text))
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _inside(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(text)
    return _text(text)


def choice(*words: str) -> Single[str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return Single(f"one of {', '.join(words)}", parse, {"enum": list(words)}, words[-1], is_text=True)


TEXT = Single("text", _text, {"type": ["string", "number"]}, "text", is_text=True)
WHOLE = Single("a whole number above zero", _whole(1), {"type": "integer", "minimum": 1}, "4")
COUNT = Single("a whole number", _whole(0), {"type": "integer", "minimum": 0}, "3")
SECONDS = Single(
    "a number of seconds above zero, or 15m, 2h", _positive(parse_seconds), {"type": ["number", "string"]}, "15m"
)
SIZE = Single("a size in bytes above zero, or 500M, 4G", _positive(parse_size), {"type": ["integer", "string"]}, "4G")
TRIES = Single("a whole number, or never", _tries, {"type": ["integer", "string"]}, "2", is_text=True)
FLAG = Single("true or false", _flag, {"type": "boolean"}, "true")
COMMAND_LINE = Single(
    "a command line, its quotes closed", _command_line, {"type": "string"}, "[train.py --lr 0.1]", is_text=True
)
LABEL = Single(
    "a name of letters, digits and . _ @ + -", _label, {"type": ["string", "number"]}, "tuning", is_text=True
)
ADDRESS = Single("HOST or USER@HOST", _address, {"type": ["string", "number"]}, "ada@lab.example.org", is_text=True)
INSIDE = Single("a path below the files of a run", _inside, {"type": "string"}, "src/model", is_text=True)
PATTERN = Single("a pattern of files below a run's directory", _pattern, {"type": "string"}, "output/**", is_text=True)
CODE_PATH = Single("a class as package.module.Class", _code_path, {"type": "string"}, "mine.cloud.Cloud", is_text=True)
