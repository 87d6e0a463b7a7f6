"""What a run does, made from what its step says: prepared once for a step, filled for each of its runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from turnout.pipeline.native.braces import Piece, Slot
from turnout.pipeline.native.shell import Quote, Scanner
from turnout.pipeline.plan import CALL, SHELL, Value

Read = Callable[[str], tuple[Piece, ...]]
"""Takes a text apart."""


class Filling(NamedTuple):
    """What a run is done to: its values, as text too, and its files by the names of their places."""

    values: Mapping[str, Value]
    texts: Mapping[str, str]
    files: Mapping[str, tuple[str, ...]]

    def words(self, name: str) -> tuple[str, ...]:
        return self.files[name] if name in self.files else (self.texts[name],)


def is_of_files(place: str) -> bool:
    """Whether files stand for it, and no value."""
    return place.partition(".")[0] in ("input", "inputs", "output", "outputs")


class Command(Protocol):
    def fill(self, filling: Filling) -> tuple[str, ...]:
        """The argv of a run. Each place of the command has to be in `filling`."""


class ShellCommand:
    """A text for bash, in which values are quoted as the place that they stand in wants it."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self._slots: list[tuple[str, bool, Quote]] = []
        self._format = "".join("%s" if isinstance(piece, Slot) else piece.replace("%", "%%") for piece in pieces)
        self.escaped: list[str] = []
        """Places behind a backslash, which would belong to the quotes that values are put in."""
        scanner = Scanner()
        last = max((at for at, piece in enumerate(pieces) if isinstance(piece, Slot)), default=-1)
        for piece in pieces[: last + 1]:
            if isinstance(piece, str):
                scanner.feed(piece)
                continue
            if scanner.is_escaped:
                self.escaped.append(piece.name)
            self._slots.append((piece.name, is_of_files(piece.name), scanner.quote))
            scanner.pass_place()

    def fill(self, filling: Filling) -> tuple[str, ...]:
        _, texts, files = filling
        filled = [
            " ".join(map(quote, files[name])) if is_file else quote(texts[name]) for name, is_file, quote in self._slots
        ]
        return *SHELL, self._format % tuple(filled)


class ListCommand:
    """An argv. An element that is nothing but the place of files becomes as many as there are."""

    def __init__(self, elements: Sequence[tuple[Piece, ...]]) -> None:
        self._elements = elements

    def fill(self, filling: Filling) -> tuple[str, ...]:
        argv: list[str] = []
        for pieces in self._elements:
            if len(pieces) == 1 and isinstance(pieces[0], Slot):
                argv.extend(filling.words(pieces[0].name))
            else:
                argv.append(_joined(pieces, filling))
        return tuple(argv)


class FunctionCall:
    """A function and its arguments. One that is nothing but a place keeps its kind: a number, a text, and for the
    places in `many` a list of files, however many there are. Who submits has a program for what `CALL` stands for."""

    def __init__(self, function: str, args: object, read: Read, many: Collection[str]) -> None:
        self._function = function
        self._args = _argument(args, read, many)

    def fill(self, filling: Filling) -> tuple[str, ...]:
        return CALL, self._function, json.dumps(self._args(filling))


def _argument(value: object, read: Read, many: Collection[str]) -> Callable[[Filling], object]:
    if isinstance(value, str):
        pieces = read(value)
        if len(pieces) == 1 and isinstance(pieces[0], Slot):
            return _whole(pieces[0].name, many)
        return lambda filling: _joined(pieces, filling)
    if isinstance(value, Mapping):
        named = {key: _argument(each, read, many) for key, each in value.items()}
        return lambda filling: {key: each(filling) for key, each in named.items()}
    if isinstance(value, list | tuple):
        items = [_argument(each, read, many) for each in value]
        return lambda filling: [each(filling) for each in items]
    return lambda filling: value


def _whole(name: str, many: Collection[str]) -> Callable[[Filling], object]:
    if name in many:
        return lambda filling: list(filling.files[name])
    if is_of_files(name):
        return lambda filling: filling.files[name][0]
    return lambda filling: filling.values[name] if name in filling.values else filling.texts[name]


def _joined(pieces: tuple[Piece, ...], filling: Filling) -> str:
    return "".join(piece if isinstance(piece, str) else " ".join(filling.words(piece.name)) for piece in pieces)
