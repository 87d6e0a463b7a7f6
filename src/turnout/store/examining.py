"""Looking at every row of an archive before any of it is taken in: whoever made it may have been anybody."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from turnout.errors import TurnoutError
from turnout.model.ids import check_label, parse_job_name, parse_run_name
from turnout.model.state import TERMINAL
from turnout.store.archived import MANIFESTS, NAMED_IN_EVENTS, TABLES, Archived
from turnout.store.values import storable, storable_name
from turnout.wire.archive import BadArchive
from turnout.wire.manifest import is_digest

Row = dict[str, Any]
_LIMITS = {"INTEGER": 1 << 31, "BIGINT": 1 << 63, "SMALLINT": 1 << 15}
_LABELS = ("workspace", "experiment", "target", "label")


class Source(Protocol):
    """A checked archive. Everything can be read as often as wanted, always the same."""

    def rows(self, table: str) -> Iterator[Row]: ...
    def output(self) -> Iterator[tuple[str, int, Iterator[bytes]]]: ...


@dataclass(slots=True)
class Contents:
    """The names in an archive, in order, and what its snapshots are."""

    jobs: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    manifests: set[str] = field(default_factory=set)
    metrics: set[str] = field(default_factory=set)


def examine(source: Source) -> Contents:
    """Looks at every row before any is written. BadArchive when one is not as it must be."""
    contents = Contents()
    for each in TABLES:
        check = _Check(each, contents)
        for number, row in enumerate(source.rows(each.table.name), 1):
            try:
                check(row)
            except (BadArchive, TurnoutError) as error:
                raise BadArchive(f"row {number} of {each.table.name}: {error}") from error
    for run, _, _ in source.output():
        if run not in contents.runs:
            raise BadArchive(f"output of {run}, which is not in the archive")
    if not contents.jobs:
        raise BadArchive("there is no job in the archive")
    return contents


class _Check:
    """Whether a row of one table can be taken in."""

    def __init__(self, each: Archived, contents: Contents) -> None:
        self._each = each
        self._contents = contents
        self._columns = dict(zip(each.fields, each.columns, strict=True))
        self._names = frozenset(self._columns)
        self._needed = frozenset(
            name for name, column in self._columns.items() if not column.nullable and column.server_default is None
        )
        self._checks = [(name, _value_check(name, each, column)) for name, column in self._columns.items()]

    def __call__(self, row: Row) -> None:
        if row.keys() - self._names:
            raise BadArchive(f"{sorted(row.keys() - self._names)[0]!r} is not known to this turnout")
        if self._needed - row.keys():
            raise BadArchive(f"{sorted(self._needed - row.keys())[0]!r} is missing")
        for name, check in self._checks:
            if name in row:
                check(row[name])
        self._refer(row)

    def _refer(self, row: Row) -> None:
        """Names of what comes first are learnt, and then have to be known."""
        contents, table = self._contents, self._each.table.name
        if table == "jobs":
            _learn(contents.jobs, row["name"], parse_job_name(row["name"]) is not None)
        elif table == "runs":
            self._learn_run(row)
        if "job" in row and row["job"] not in contents.jobs:
            raise BadArchive(f"{row['job']!r} is not in the archive")
        if "run" in row and row["run"] not in contents.runs:
            raise BadArchive(f"{row['run']!r} is not in the archive")
        for name in NAMED_IN_EVENTS.get(row.get("event", ""), ()):
            run = json.loads(row["data"]).get(name)
            if run and not (isinstance(run, str) and run in contents.runs):
                raise BadArchive(f"{str(run)[:40]!r} is not in the archive")
        if "metric" in row:
            contents.metrics.add(storable_name(row["metric"]))
        if table == "metric_chunks" and len(base64.b64decode(row["points"])) != 4 + 24 * row["count"]:
            raise BadArchive("the points of a metric are damaged")
        for column in MANIFESTS.get(table, ()):
            digest = row.get(column)
            if digest is not None and not is_digest(digest):
                raise BadArchive(f"{column} is not a digest")
            if digest is not None:
                contents.manifests.add(digest)

    def _learn_run(self, row: Row) -> None:
        contents = self._contents
        parsed = parse_run_name(row["name"])
        if row.get("parent") is not None and row["parent"] not in contents.runs:
            raise BadArchive(f"its parent {row['parent']!r} does not come before it")
        _learn(contents.runs, row["name"], parsed is not None)
        assert parsed is not None
        contents.numbers.setdefault(parsed[0], len(contents.numbers))
        if row["state"] not in TERMINAL:
            raise BadArchive(f"{row['name']} is {row['state']}: only what is over can be taken in")


def _learn(known: dict[str, int], name: str, is_valid: bool) -> None:
    if not is_valid or name in known:
        raise BadArchive(f"{name!r} is not a name, or comes twice")
    known[name] = len(known)


def _value_check(name: str, each: Archived, column: sa.Column[Any]) -> Callable[[Any], None]:
    """Tells whether a value fits a column, as strictly as the strictest database."""
    check = _kind_check(name, each, column)
    if not column.nullable:
        return check

    def check_unless_none(value: Any) -> None:
        if value is not None:
            check(value)

    return check_unless_none


def _kind_check(name: str, each: Archived, column: sa.Column[Any]) -> Callable[[Any], None]:
    kind = str(column.type)
    refers = name in ("job", "run", "metric", "parent", "name") or column.name == each.owner
    if isinstance(column.type, sa.LargeBinary):
        return lambda value: _decode(name, value)
    if name in _LABELS and each.table.name in ("jobs", "runs"):
        return lambda value: _check_label(name, value)
    if kind == "TEXT" or refers:
        expected = each.texts.get(column.name)
        return lambda value: _check_text(name, value, expected)
    limit = _LIMITS.get(kind)
    if limit is not None:
        return lambda value: _check_whole(name, value, limit)
    return lambda value: _check_number(name, value)


def _check_label(name: str, value: Any) -> None:
    _check_text(name, value, None)
    check_label(value, name)


def _check_whole(name: str, value: Any, limit: int) -> None:
    if type(value) is not int or not -limit <= value < limit:
        raise BadArchive(f"{name} is not a number that fits")


def _check_number(name: str, value: Any) -> None:
    if type(value) not in (int, float):
        raise BadArchive(f"{name} is not a number")


def _check_text(name: str, value: Any, expected: type | None) -> None:
    if not isinstance(value, str) or storable(value) != value:
        raise BadArchive(f"{name} is not text")
    if expected is not None:
        try:
            is_right = isinstance(json.loads(value), expected)
        except (ValueError, RecursionError):
            is_right = False
        if not is_right:
            raise BadArchive(f"{name} is not JSON of the right kind")


def _decode(name: str, value: Any) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadArchive(f"{name} is not base64") from error
