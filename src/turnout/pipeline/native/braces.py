"""Places in braces, as they stand in a text.

``{sample}`` is a place. ``${HOME}``, ``{a,b}``, ``{1..3}`` and ``{}`` are text, and so is every brace that belongs to
no name. ``{{print}}`` is the text ``{print}``: two braces that open and the two that close them are one each. Two that
have no others are text, too, such as the end of ``${a:-${b}}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

_TOKEN = re.compile(r"\$\{(?!\{)|\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Slot(NamedTuple):
    """A place, by its name."""

    name: str


Piece = str | Slot
_STEP = Slot("step")


def parse(text: str) -> tuple[Piece, ...]:
    """Texts and places by turns. Every text can be parsed; whether a place is known is for the reader to say."""
    if "{" not in text:
        return (text,) if text else ()
    pieces: list[Piece] = []
    opened: list[int] = []
    end = 0
    for found in _TOKEN.finditer(text):
        pieces.append(text[end : found.start()])
        end = found.end()
        if found[1] is not None:
            pieces.append(Slot(found[1]))
            continue
        if found[0] == "{{":
            opened.append(len(pieces))
        if found[0] == "}}" and opened:
            pieces[opened.pop()] = "{"
            pieces.append("}")
        else:
            pieces.append(found[0])
    pieces.append(text[end:])
    return tuple(_joined(pieces))


def _joined(pieces: list[Piece]) -> Iterator[Piece]:
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
            text = ""
        yield piece
    if text:
        yield text


def slots(pieces: tuple[Piece, ...]) -> tuple[str, ...]:
    """The names of the places, each once."""
    return tuple(dict.fromkeys(piece.name for piece in pieces if isinstance(piece, Slot)))


def with_step(pieces: tuple[Piece, ...], step: str) -> tuple[Piece, ...]:
    """The same, with the name of the step, which all of its runs have in common, in its place."""
    if _STEP not in pieces:
        return pieces
    return tuple(_joined([step if piece == _STEP else piece for piece in pieces]))


def variables(text: str) -> list[str]:
    """Names of variables of the shell: ``${HOME}``."""
    return _VARIABLE.findall(text)


class Filler:
    """Fills a text whose places are one value each. It is asked for every run, so all that can be is done before."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        names = [piece.name for piece in pieces if isinstance(piece, Slot)]
        self._format = "".join("%s" if isinstance(piece, Slot) else piece.replace("%", "%%") for piece in pieces)
        self._pick = itemgetter(*names) if names else None
        self._whole = "".join(piece for piece in pieces if isinstance(piece, str))

    def fill(self, texts: Mapping[str, str]) -> str:
        return self._whole if self._pick is None else self._format % self._pick(texts)
