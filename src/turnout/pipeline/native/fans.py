"""What the runs of a step are done to, one row for each."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnout.pipeline.native.model import Step
from turnout.pipeline.plan import Value


class Row(NamedTuple):
    """`texts` are the values as they are filled in; a file has its name and its stem there, too."""

    label: str
    values: Mapping[str, Value]
    texts: Mapping[str, str]


ONE_ROW = (Row("", {}, {}),)


def text_of(value: Value) -> str:
    """As JSON has it, but for text."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | float) else str(value)


def size_of_matrix(step: Step) -> int:
    """How many rows there will be, without making them."""
    return sum(math.prod(map(len, row.values())) for row in step.matrix) if step.matrix else 1


def rows_of_matrix(step: Step) -> Sequence[Row]:
    """As of nested loops, the last name fastest."""
    if not step.matrix:
        return ONE_ROW
    rows: list[Row] = []
    for row in step.matrix:
        found: Sequence[Row] = ONE_ROW
        for name, values in row.items():
            texts = map(text_of, values)
            column = [
                Row(f"{name}={text}", {name: value}, {name: text}) for value, text in zip(values, texts, strict=True)
            ]
            found = multiply(found, column)
        rows.extend(found)
    return rows


def rows_of_files(files: Sequence[str]) -> Sequence[Row]:
    """They are called by their stems, or by their paths where two stems are the same."""
    texts = [texts_of_file(file) for file in files]
    label = "stem" if len({each["stem"] for each in texts}) == len(texts) else "file"
    return [Row(each[label], {"file": each["file"]}, each) for each in texts]


def texts_of_file(file: str) -> dict[str, str]:
    name = posixpath.basename(file)
    return {"file": file, "name": name, "stem": posixpath.splitext(name)[0]}


def row_of(label: str, values: Mapping[str, Value]) -> Row:
    """The row of a run that has these values."""
    texts = {name: text_of(value) for name, value in values.items()}
    if "file" in texts:
        texts.update(texts_of_file(texts["file"]))
    return Row(label, values, texts)


def multiply(outer: Sequence[Row], inner: Sequence[Row]) -> Sequence[Row]:
    if inner is ONE_ROW:
        return outer
    if outer is ONE_ROW:
        return inner
    return [
        Row(
            f"{one.label},{other.label}" if one.label else other.label,
            {**one.values, **other.values},
            {**one.texts, **other.texts},
        )
        for one in outer
        for other in inner
    ]


def twice(rows: Sequence[Row]) -> str | None:
    """The label of two rows that cannot be told apart, if there are such."""
    seen: set[str] = set()
    for row in rows:
        if row.label in seen:
            return row.label
        seen.add(row.label)
    return None
