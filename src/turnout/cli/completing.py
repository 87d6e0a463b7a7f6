"""What the tab key offers: names of what there is, columns. Quick, and silent when no hub runs or anything is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from turnout.client import Client
    from turnout.config import Config
    from turnout.query import Table

_MOST = 50
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names_of(*kinds: str) -> Complete:
    """Names of runs, jobs, experiments, workspaces, targets, nodes, boxes, shares, setups, secrets, settings,
    providers, samplers or stoppers."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        found = dict.fromkeys(name for kind in kinds for name in _quietly(kind, incomplete))
        return [name for name in found if name.startswith(incomplete)]

    return complete


def paths(kind: Literal["file", "dir"] = "file") -> Callable[..., list[CompletionItem]]:
    """Files, or directories, which the shell knows better than we do."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=kind)]

    return complete


def _quietly(kind: str, incomplete: str) -> Iterator[str]:
    """What there is, up to where something is wrong."""
    try:
        yield from _names(kind, incomplete)
    except Exception:  # whatever it is, a person who presses tab wants no message in the line being typed
        return


def _names(kind: str, incomplete: str) -> Iterator[str]:
    if kind == "secrets":
        from turnout.config import secrets

        yield from (each.name for each in secrets.known())
    elif kind == "settings":
        yield from _setting_names(incomplete)
    elif kind in ("targets", "boxes", "setups"):
        yield from getattr(_settings(), kind)
    elif kind == "providers":
        from turnout.config.providing import known_providers

        yield from known_providers(_settings())
    elif kind in ("samplers", "stoppers"):
        from importlib.metadata import entry_points

        named = _settings().samplers if kind == "samplers" else {}
        yield from sorted({*named, *(point.name for point in entry_points(group=f"turnout.{kind}"))})
    if kind not in ("secrets", "settings", "boxes", "setups", "providers", "samplers", "stoppers"):
        from turnout.client import Client

        yield from _hub_names(Client(start=False), kind, incomplete)


def _hub_names(client: Client, kind: str, incomplete: str) -> list[str]:
    if kind in ("runs", "jobs"):
        return _recent(client, kind, incomplete)
    fetch = {
        "experiments": client.experiments, "workspaces": client.workspaces, "nodes": client.nodes,
        "targets": client.queues, "shares": client.shares,
    }[kind]  # fmt: skip
    return [str(row["name"]) for row in fetch()]


def _settings() -> Config:
    from turnout import config

    return config.settings_at(Path.cwd())


def _setting_names(incomplete: str) -> Iterator[str]:
    """Sections; with a dot typed, the keys of that one."""
    from turnout.config.sections import ROOT

    section, dot, _ = incomplete.partition(".")
    if not dot:
        yield from ROOT.keys
    elif section in ROOT.keys:
        keys = getattr(ROOT.keys[section].kind, "keys", ()) or getattr(_settings(), section.replace("-", "_"))
        yield from (f"{section}.{name}" for name in keys)


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
