"""What the tab key offers: names of what there is, columns. Quick, and silent when no hub runs or anything is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from turnout.client import Client
    from turnout.query import Table

_MOST = 50
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names_of(kind: str) -> Complete:
    """Names of runs, jobs, experiments, workspaces, targets, nodes, boxes or shares."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in _names(kind, incomplete) if name.startswith(incomplete)]
        except Exception:  # whatever it is, a person who presses tab wants no message in the line being typed
            return []

    return complete


def _names(kind: str, incomplete: str) -> list[str]:
    if kind == "boxes":
        from turnout.cli import reports

        return [box["name"] for box in reports.boxes()]
    from turnout.client import Client

    client = Client(start=False)
    if kind in ("runs", "jobs"):
        return _recent(client, kind, incomplete)
    fetch = {
        "experiments": client.experiments, "workspaces": client.workspaces, "nodes": client.nodes,
        "targets": client.queues, "shares": client.shares,
    }[kind]  # fmt: skip
    return [str(row["name"]) for row in fetch()]


def _recent(client: Client, kind: str, incomplete: str) -> list[str]:
    """The newest whose names begin so; with nothing typed yet, the newest of all, and their labels."""
    typed = re.fullmatch(r"(run|job)\d+", incomplete)
    pattern = [f"{incomplete}*"] if typed and incomplete.startswith(kind[:3]) else []
    find = client.runs if kind == "runs" else client.jobs
    found = find(names=pattern, limit=_MOST)
    labels = dict.fromkeys(str(view["label"]) for view in found if view["label"])
    return [*(str(view["name"]) for view in found), *labels, f"@last{kind[:3]}"]


def columns_of(kind: str, where: str) -> Complete:
    """Columns, for the word of a filter, the column of a sort, or the last of a list of columns that is being typed."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            head, word = _split(incomplete, where)
            return [head + name for name in _column_names(kind, word) if name.startswith(word)]
        except Exception:  # as above
            return []

    return complete


def _split(text: str, where: str) -> tuple[str, str]:
    """What stays as it is, and the word at its end."""
    if where == "sort":
        return ("-", text[1:]) if text.startswith("-") else ("", text)
    begin = max(text.rfind(sign) for sign in (",", *((" ", "(") if where == "filter" else ()))) + 1
    return text[:begin], text[begin:]


def _column_names(kind: str, word: str) -> list[str]:
    from turnout import query
    from turnout.query.writing import write_column

    table: Table = getattr(query, kind.upper())
    names = [*table.columns, *(f"{space}." for space in table.namespaces)]
    space, dot, _ = word.partition(".")
    if dot and kind == "runs":
        from turnout.client import Client

        space = table.aliases.get(space, space)
        made = Client(start=False).recorded_names().get(space, [])
        names += [write_column(f"{space}.{name}") for name in made]
    return names
