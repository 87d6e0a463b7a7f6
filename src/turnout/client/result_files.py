"""Results of searches in files: as turnout writes them, as NNI exports them, or written by hand.

CSV has a column for each parameter, named ``params.lr`` or just ``lr``, and one for each objective, ``metrics.loss`` or
``loss``; with one objective also ``value`` or ``reward``. JSON has a list of ``{"params": {...}, "metrics": {...}}``,
or NNI's ``{"parameter": {...}, "value": ...}``. Other columns and keys are passed over, but for the ``state`` of runs:
those that failed have no result.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.client.result_tables import METRICS, PARAMS, text_of
from turnout.client.studied import Studied
from turnout.errors import InvalidInput, NotFound
from turnout.plugin.space import Branch, Choice, Parameter, Range, Space
from turnout.search.flattening import nested_params
from turnout.search.spaces.containing import objection
from turnout.search.spaces.drawing import NAME

_LARGEST_FILE = 64 << 20
_MOST_ROWS = 100_000
_MOST_TOLD = 10
_VALUES = ("value", "reward", "default")
#: Of rows that turnout wrote itself: what has such a state has a result.
_WITH_RESULT = frozenset({"completed", "stopped", "imported", ""})


class _Bad(ValueError):
    """What is wrong with a row."""


@dataclass(frozen=True, slots=True)
class Found:
    """`rows` as `Client.import_results` takes them; `left_out` rows say themselves that they have no result."""

    rows: list[dict[str, Any]]
    left_out: int


def read(path: Path, study: Studied) -> Found:
    """InvalidInput with the lines that do not fit the search; NotFound."""
    study.objective(None)
    text = _text(path)
    records = _of_json(text, path) if path.suffix.lower() in (".json", ".jsonl") else _of_csv(text, path, study)
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    left_out = 0
    for line, record in records:
        if len(rows) >= _MOST_ROWS:
            raise InvalidInput(f"{path.name} has more than {_MOST_ROWS:,} results", hint="bring in the best of them")
        if str(record.get("state") or "") not in _WITH_RESULT:
            left_out += 1
            continue
        try:
            rows.append(_row(record, study))
        except _Bad as error:
            problems.append(f"{path.name}:{line}: {error}")
    if problems:
        more = [f"… and {len(problems) - _MOST_TOLD} more"] if len(problems) > _MOST_TOLD else []
        hint = f"`turnout results {study.job} --format csv` shows how it is written"
        raise InvalidInput("\n".join(["nothing was imported", *problems[:_MOST_TOLD], *more]), hint=hint)
    if not rows and not left_out:
        raise InvalidInput(f"{path.name} has no results", hint="write a line with names, and one for each result")
    return Found(rows, left_out)


def _row(record: Mapping[str, Any], study: Studied) -> dict[str, Any]:
    params = record.get("params", record.get("parameter"))
    if isinstance(params, str):
        params = _json_or_none(params)
    if not isinstance(params, dict):
        raise _Bad("it has no parameters")
    params = _tidied(study.space, params)
    if why := objection(study.space, params):
        raise _Bad(why)
    return {"params": params, "metrics": _metrics(record, study)}


def _metrics(record: Mapping[str, Any], study: Studied) -> dict[str, float]:
    names = [aim.metric for aim in study.aims]
    told: Any = record.get("metrics")
    if told is None and isinstance(record.get("values"), list):
        told = dict(zip(names, record["values"], strict=False))
    if told is None:
        told = next((record[name] for name in _VALUES if name in record), None)
    told = _json_or_none(told) if isinstance(told, str) else told
    if not isinstance(told, dict):
        told = {names[0]: told}
    if len(names) == 1 and names[0] not in told:
        told = {names[0]: next((told[name] for name in _VALUES if name in told), None)}
    return {name: _number(name, told.get(name)) for name in names}


def _number(name: str, value: object) -> float:
    if value is None or value == "":
        raise _Bad(f"{name!r} has no value")
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _Bad(f"{name!r} is {value!r}, which is no number")
    return number


def _tidied(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """5.0 is the integer that was meant, where there are integers only."""
    found = dict(params)
    for name, parameter in space.items():
        value = params.get(name)
        if isinstance(parameter, Range) and parameter.whole and isinstance(value, float) and value.is_integer():
            found[name] = int(value)
        elif isinstance(parameter, Choice) and isinstance(value, Mapping):
            branches = [each for each in parameter.values if isinstance(each, Branch) and each.name == value.get(NAME)]
            found[name] = {**value, **_tidied(branches[0].space, value)} if branches else value
    return found


# --- JSON -------------------------------------------------------------------------------------------------------------


def _of_json(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object of a list, or of lines, with the line on which it begins."""
    decoder = json.JSONDecoder()
    at = _past(text, 0, " \t\r\n\ufeff")
    at = _past(text, at, " \t\r\n[") if text[at : at + 1] == "[" else at
    line, counted = 1, 0
    while at < len(text) and text[at] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where = line + text.count("\n", at, getattr(error, "pos", at))
            hint = 'write a list of {"params": {...}, "metrics": {...}}'
            raise InvalidInput(f"{path.name}:{where}: this is no JSON", hint=hint) from error
        yield line, value if isinstance(value, dict) else {}
        at = _past(text, at, " \t\r\n,")


def _past(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


# --- CSV --------------------------------------------------------------------------------------------------------------


def _of_csv(text: str, path: Path, study: Studied) -> Iterator[tuple[int, dict[str, Any]]]:
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in first else ",")
    try:
        columns = [name.strip() for name in reader.fieldnames or ()]
        _check_columns(columns, path, study)
        reader.fieldnames = columns
        has_states = any(_is_ours(name, columns, study) for name in ("run", "number"))
        has_states = has_states and _is_ours("state", columns, study)
        for row in reader:
            if None in row:
                what = f"{path.name}:{reader.line_num}: it has more cells than there are columns"
                raise InvalidInput(what, hint="name each column in the first line; quote cells that have commas")
            yield reader.line_num, {**_of_cells(row, study), "state": row["state"] if has_states else None}
    except csv.Error as error:
        raise InvalidInput(f"{path.name}:{max(1, reader.line_num)}: {error}", hint="quote cells as in CSV") from error


def _is_ours(name: str, columns: list[str], study: Studied) -> bool:
    """Whether that column has what turnout writes there, rather than a parameter of that name."""
    return name in columns and (name not in study.parameters or PARAMS + name in columns)


def _check_columns(columns: list[str], path: Path, study: Studied) -> None:
    for name in columns:
        if name.startswith(PARAMS) and name.removeprefix(PARAMS) not in study.parameters:
            known = ", ".join(study.parameters)
            raise InvalidInput(
                f"{path.name}:1: there is no parameter {name.removeprefix(PARAMS)!r}", hint=f"{study.job} has {known}"
            )


def _of_cells(row: Mapping[str, str | None], study: Studied) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, parameter in study.parameters.items():
        cell = row.get(PARAMS + name, row.get(name))
        if cell is not None and (cell != "" or _has(parameter, "")):
            flat[name] = _value(parameter, cell)
    metrics = {aim.metric: row.get(METRICS + aim.metric, row.get(aim.metric)) for aim in study.aims}
    if len(metrics) == 1 and None in metrics.values():
        told = next((row[name] for name in _VALUES if name in row and name not in study.parameters), None)
        metrics = dict.fromkeys(metrics, told)
    return {"params": nested_params(study.space, flat), "metrics": metrics}


def _value(parameter: Parameter, cell: str) -> object:
    """What a cell stands for; the cell itself, where it is no value of the parameter."""
    if isinstance(parameter, Choice):
        if _has(parameter, cell):
            return next(each for each in parameter.values if _is_written(each, cell))
        return _python_or_none(cell) or cell
    try:
        if isinstance(parameter, Range) and parameter.whole:
            return int(cell)
        return float(cell)
    except ValueError:
        return cell


def _has(parameter: Parameter, cell: str) -> bool:
    return isinstance(parameter, Choice) and any(_is_written(each, cell) for each in parameter.values)


def _is_written(value: object, cell: str) -> bool:
    if isinstance(value, bool) or value is None:
        return cell in (text_of(value), str(value))
    if isinstance(value, int | float):
        try:
            return float(cell) == value
        except ValueError:
            return False
    return cell == text_of(value)


def _python_or_none(cell: str) -> dict[str, Any] | None:
    """A dictionary, which is how NNI writes what a branch brings along."""
    try:
        found = ast.literal_eval(cell) if cell.startswith("{") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InvalidInput(f"{path.name} is over 64 MB", hint="this does not look like results of a search")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}", hint="check the path") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path.name} cannot be read: {why}", hint="give a CSV or JSON file") from error
