"""What stands behind the keys of a step: is it of the kind that belongs there?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date

from turnout.errors import InvalidInput
from turnout.model.ids import check_param_name
from turnout.pipeline.native.model import RESERVED, Files
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.plan import Value

_LONGEST = 60  # of what is shown of a value that is none
_Row = Mapping[str, tuple[Value, ...]]


def shown(value: object) -> str:
    """As the file has it, if it is short."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)[:_LONGEST]


class Shapes:
    """Reads one step. What is not of its kind is a problem, and is left out."""

    def __init__(self, place: str, content: Mapping[str, object], problems: Problems) -> None:
        self._place = place
        self._content = content
        self._problems = problems

    def text(self, key: str) -> str | None:
        value = self._content.get(key)
        return None if value is None else self._text(key, value)

    def texts(self, key: str) -> tuple[str, ...]:
        """One, or a list; each once."""
        value = self._content.get(key)
        if value is None:
            return ()
        items = value if isinstance(value, list | tuple) else [value]
        texts = [self._text(key, each) for each in items]
        return tuple(dict.fromkeys(each for each in texts if each is not None))

    def command(self) -> str | tuple[str, ...] | None:
        value = self._content.get("command")
        if value is None:
            return None
        if isinstance(value, list | tuple):
            words = [self._text("command", each, allow_empty=number > 0) for number, each in enumerate(value)]
            if not words:
                self._add("command", "is empty", "write the program, and its arguments after it")
            return tuple(word for word in words if word is not None)
        return self._text("command", value)

    def condition(self) -> str | None:
        value = self._content.get("when")
        return json.dumps(value) if isinstance(value, bool) else self.text("when")

    def args(self) -> dict[str, object]:
        value = self._content.get("args")
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self._add("args", "are no names and values", "write `NAME: VALUE` below it")
            return {}
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            self._add("args", "have something that JSON cannot hold", "use numbers, texts, lists; put dates in quotes")
            return {}
        return dict(value)

    def files(self, key: str) -> Files:
        value = self._content.get(key)
        if not isinstance(value, Mapping):
            return self.texts(key)
        named: dict[str, str] = {}
        for name, each in value.items():
            text = self._text(f"{key}.{name}", each)
            if self._is_name(key, name) and text is not None:
                named[str(name)] = text
        return named

    def matrix(self) -> tuple[_Row, ...]:
        value = self._content.get("matrix")
        if value is None:
            return ()
        given = value if isinstance(value, list | tuple) else [value]
        rows = [row for row in given if isinstance(row, Mapping) and row]
        if not rows or len(rows) < len(given):
            instead = "write `NAME: [VALUE, VALUE]` below it, or a list of such rows"
            self._add("matrix", "is no block of names and values", instead)
            return ()
        found = tuple(dict(self._row(row)) for row in rows)
        for number, row in enumerate(found, 1):
            if row.keys() != found[0].keys():
                odd = ", ".join(sorted(row.keys() ^ found[0].keys()))
                self._add("matrix", f"row {number} has other names than the first: {odd}", "give all rows the same")
                return ()
        return found

    def _row(self, row: Mapping[object, object]) -> Iterator[tuple[str, tuple[Value, ...]]]:
        for name, values in row.items():
            key = f"matrix.{name}"
            items = values if isinstance(values, list | tuple) else [values]
            if not items:
                self._add(key, "has no values", "write at least one")
            if str(name).partition(".")[0] in RESERVED:
                instead = f"call it otherwise; {', '.join(RESERVED)} are places of their own"
                self._add(key, "is a name that is taken", instead)
            elif self._is_name("matrix", name):
                found = tuple(self._value(key, each) for each in items)
                yield str(name), tuple(each for each in found if each is not None)

    def _is_name(self, key: str, name: object) -> bool:
        try:
            check_param_name(name if isinstance(name, str) else "")
        except InvalidInput as error:
            self._add(key, f"{shown(name)} is no name", error.hint)
            return False
        return True

    def _value(self, key: str, value: object) -> Value | None:
        if isinstance(value, date):  # as it is written
            return str(value)
        if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        is_odd = value is None or isinstance(value, float)
        instead = "put it in quotes" if is_odd else "write texts, numbers, true or false"
        self._add(key, f"{shown(value)} is no value", instead)
        return None

    def _text(self, key: str, value: object, *, allow_empty: bool = False) -> str | None:
        """Numbers and dates as they are written; what YAML makes of ``yes`` or of nothing is no text."""
        if isinstance(value, bool) or not isinstance(value, str | int | float | date):
            is_word = isinstance(value, bool) or value is None
            self._add(key, f"{shown(value)} is no text", "put it in quotes" if is_word else f"write `{key}: TEXT`")
            return None
        text = str(value)
        if not text.strip() and not allow_empty:
            self._add(key, "is empty", "leave it out, or write something")
            return None
        return text

    def _add(self, key: str, what: str, instead: str) -> None:
        self._problems.add(f"{self._place}.{key}", what, instead)
