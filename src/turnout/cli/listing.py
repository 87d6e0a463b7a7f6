"""``turnout list``: what there is, chosen, ordered and shown as asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from turnout import query
from turnout.cli import names, render, reports, tables
from turnout.client import Client
from turnout.client.lists import each_page
from turnout.errors import InvalidInput
from turnout.query import Column, Sort, Table
from turnout.query.names import parse_name
from turnout.query.writing import write_column

View = dict[str, Any]
_USUAL = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of ``turnout list`` as they were typed; those that a kind does not have keep their defaults."""

    names: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    sort: str = ""
    reverse: bool = False
    columns: str = ""
    group: str = ""
    first: int | None = None
    last: int | None = None
    limit: int | None = None
    everything: bool = False
    csv: bool = False
    table: bool = False
    json: bool = False
    only_names: bool = False
    available: bool = False


@dataclass(frozen=True, slots=True)
class Lot:
    """One kind of thing: its word, its columns and those shown unasked, how it is fetched; one of them, and the column
    with its name.

    `find` asks the hub to choose and order, as only it can with a million; otherwise `fetch` gets all of them.
    """

    word: str
    table: Table
    usual: tuple[str, ...]
    fetch: Callable[[Client], list[View]]
    find: Callable[..., list[View]] | None = None
    none_yet: str = ""
    one: str = ""
    key: str = "name"

    def count(self, number: int) -> str:
        return f"{number} {self.singular if number == 1 else self.word}"

    @property
    def singular(self) -> str:
        return self.one or self.word[:-1]


RUNS = Lot(
    "runs", query.RUNS, ("name", "label", "state", "job", "experiment", "duration", "created", "command"),
    Client.runs, Client.runs, "`turnout run COMMAND` makes one",
)  # fmt: skip
JOBS = Lot(
    "jobs", query.JOBS, ("name", "label", "state", "done", "runs", "failed:$bz", "experiment", "created", "command"),
    Client.jobs, Client.jobs, "`turnout run COMMAND` makes one",
)  # fmt: skip
EXPERIMENTS = Lot(
    "experiments", query.EXPERIMENTS, ("name", "workspace", "jobs", "runs", "live:$bz", "first", "last"),
    Client.experiments, none_yet="`turnout run --experiment NAME COMMAND` makes one",
)  # fmt: skip
WORKSPACES = Lot(
    "workspaces", query.WORKSPACES, ("name", "experiments", "jobs", "runs", "live:$bz", "first", "last"),
    Client.workspaces, none_yet="`turnout run --workspace NAME COMMAND` makes one",
)  # fmt: skip
TARGETS = Lot(
    "targets", query.TARGETS, ("name", "service", "max_runs", "nodes", "waiting", "running"), reports.targets,
)  # fmt: skip
NODES = Lot(
    "nodes", query.NODES, ("name", "target", "state", "cpus", "gpus", "free_gpus", "memory", "running", "since"),
    lambda client: client.nodes(), none_yet="they come with the first run",
)  # fmt: skip
BOXES = Lot("boxes", query.BOXES, ("name", "address", "os", "max_runs"), lambda _client: reports.boxes(),
            none_yet="name your machines in the section `boxes` of turnout.yaml", one="box")  # fmt: skip
SHARES = Lot(
    "shares", query.SHARES, ("name", "files", "bytes=size", "updated"), Client.shares,
    none_yet="`turnout upload PATH --share NAME` makes one",
)  # fmt: skip


def files_of(share: str) -> Lot:
    """What is in a share, by path."""

    def fetch(client: Client) -> list[View]:
        entries = sorted(client.share_files(share))
        return [{"path": e.path, "bytes": e.size, "digest": e.digest or None, "link": e.link or None} for e in entries]

    return Lot("files", query.FILES, ("path", "bytes=size", "link"), fetch, key="path")


def show(lot: Lot, asked: Asked) -> None:
    _check_forms(asked)
    defaults = reports.settings_of(lot.word)
    if asked.available:
        _show_available(lot, asked)
        return
    asked = replace(
        asked, sort=asked.sort or defaults.sort, reverse=asked.reverse != defaults.reverse,
        columns=asked.columns or defaults.columns, group=asked.group or defaults.group,
    )  # fmt: skip
    columns = _columns(lot, asked.columns)
    group = query.parse_sort(asked.group, lot.table, "group").column if asked.group else None
    found, is_all = _find(lot, asked, defaults.last or _USUAL)
    if not asked.columns and lot is RUNS:
        columns = _with_values(columns, found)
    if asked.only_names:
        print("".join(f"{view[lot.key]}\n" for view in found), end="")
    elif asked.json:
        render.print_json(found if group is None else list(_as_json(lot, found, group)))
    elif not found:
        _say_none(lot, asked)
    else:
        style = tables.style_of(as_csv=asked.csv, as_table=asked.table)
        look = tables.Look(
            table=lot.table, columns=columns, asked=bool(asked.columns), style=style, precision=defaults.precision,
            max_width=defaults.max_width,
        )  # fmt: skip
        _write(lot, found, look, group)
    if not is_all and not asked.json:
        print(f"… there are more {lot.word}: -n shows more, --all all of them", file=sys.stderr)


def show_shares(asked: Asked) -> None:
    """The shares; of one that is named, its files."""
    wanted = tuple(names.several(asked.names))
    is_one = len(wanted) == 1 and "*" not in wanted[0] and "?" not in wanted[0]
    show(files_of(wanted[0]) if is_one else SHARES, replace(asked, names=() if is_one else wanted))


def _check_forms(asked: Asked) -> None:
    forms = {"--names": asked.only_names, "--json": asked.json, "--table": asked.table, "--csv": asked.csv}
    given = [name for name, is_given in forms.items() if is_given]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} say different things", hint="give one of them")


def _columns(lot: Lot, text: str) -> list[Column]:
    return query.parse_columns(text or ",".join(lot.usual), lot.table)


def _with_values(columns: list[Column], found: list[View]) -> list[Column]:
    """Without chosen columns, metrics are shown too where there are a few."""
    logged = sorted({name for view in found for name in view["metrics"]})
    return [*columns[:-1], *(Column(f"metrics.{name}", name) for name in logged[:3]), columns[-1]]


def _find(lot: Lot, asked: Asked, usual: int) -> tuple[list[View], bool]:
    """What was asked for, and whether there is no more of it."""
    filters = _filters(asked)
    wanted = names.several(asked.names)
    for name in wanted:
        parse_name(name)
    query.parse_all(filters, lot.table)
    order = query.parse_sort(asked.sort, lot.table) if asked.sort else None
    if len([each for each in (asked.first, asked.last, asked.limit) if each is not None]) + asked.everything > 1:
        raise InvalidInput("--first, --last, --limit and --all say different things", hint="give one of them")
    if lot.find is not None:
        return _ask(lot, asked, filters, wanted, usual)
    rows = _arranged(lot, filters, wanted, order, asked.reverse)
    if asked.last is not None:
        return rows[-asked.last :], True
    most = asked.first or asked.limit or len(rows)
    return rows[:most], len(rows) <= most or asked.first is not None


def _ask(lot: Lot, asked: Asked, filters: list[str], wanted: list[str], usual: int) -> tuple[list[View], bool]:
    """Of things in time's order, the last are the newest, whichever end they are shown from."""
    assert lot.find is not None
    client = Client()
    in_time = not asked.sort
    reverse, from_end = asked.reverse, asked.last is not None
    if in_time and asked.first is not None:
        reverse = True
    elif in_time and asked.last is not None:
        from_end = asked.reverse
    how = {"names": wanted, "sort": asked.sort, "reverse": reverse, "from_end": from_end}
    if asked.everything:
        return list(each_page(partial(lot.find, client), filters, **how)), True
    count = asked.first or asked.last
    most = count or asked.limit or usual
    found = lot.find(client, filters, limit=most if count else most + 1, **how)
    return found[:most], count is not None or len(found) <= most


def _arranged(lot: Lot, filters: list[str], wanted: list[str], order: Sort | None, reverse: bool) -> list[View]:
    """Chosen and ordered here: there are never many of these."""
    rows = lot.fetch(Client())
    if wanted:
        known = {row["name"] for row in rows}
        for name in wanted:
            if "*" not in name and "?" not in name and name not in known:
                raise InvalidInput(f"no {lot.singular} {name!r}", hint=f"`turnout list {lot.word}` shows them")
        rows = [row for row in rows if any(query.like(row["name"], name) for name in wanted)]
    if order is not None and reverse:
        order = replace(order, descending=not order.descending)
    elif reverse:
        rows = rows[::-1]
    return query.arrange(rows, query.parse_all(filters, lot.table), order, now=datetime.now(UTC), table=lot.table)


def _filters(asked: Asked) -> list[str]:
    return [*asked.filters, *map(_tag_filter, asked.tags)]


def _tag_filter(text: str) -> str:
    name, equals, value = text.partition("=")
    column = write_column(f"tags.{name}")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{column} = "{quoted}"' if equals else f"{column} exists"


def _write(lot: Lot, found: Sequence[View], look: tables.Look, group: str | None) -> None:
    if group is None:
        tables.write(found, look)
        return
    if look.style is not tables.Style.TERMINAL:  # one table, so that it stays one for programs; the group leads
        leading = [Column(group, group), *(column for column in look.columns if column.name != group)]
        rows = [view for _, views in _groups(found, group) for view in views]
        tables.write(rows, replace(look, columns=leading))
        return
    for number, (value, views) in enumerate(_groups(found, group)):
        title = f"{group} = {render.harmless(render.shown(value)) or 'none'} ({lot.count(len(views))})"
        print(("\n" if number else "") + title)
        rest = [column for column in look.columns if column.name != group or look.asked]
        tables.write(views, replace(look, columns=rest))


def _groups(found: Sequence[View], column: str) -> list[tuple[Any, list[View]]]:
    """In the order in which their first rows stand."""
    groups: dict[str, tuple[Any, list[View]]] = {}
    for view in found:
        value = query.look_up(view, column)
        groups.setdefault(repr(value), (value, []))[1].append(view)
    return list(groups.values())


def _as_json(lot: Lot, found: Sequence[View], group: str) -> Iterator[View]:
    for value, views in _groups(found, group):
        yield {"column": group, "value": value, "count": len(views), lot.word: views}


def _say_none(lot: Lot, asked: Asked) -> None:
    """To people, not into a pipe: what reads there wants rows."""
    chosen = asked.filters or asked.tags or asked.names
    text = f"no {lot.word}" + (" match" if chosen else f" yet; {lot.none_yet}" if lot.none_yet else "")
    lines = [text]
    asked_about = query.columns_of(query.parse_all(_filters(asked), lot.table))
    if lot is RUNS and any("." in column for column in asked_about):
        from turnout.cli.guessing import unknown_names

        lines += unknown_names(asked_about, Client().recorded_names())
    print("\n".join(map(render.harmless, lines)), file=sys.stdout if sys.stdout.isatty() else sys.stderr)


def _show_available(lot: Lot, asked: Asked) -> None:
    """Every column there is, also those that runs made themselves."""
    recorded = Client().recorded_names() if lot is RUNS else {}
    rows = [{"column": name, "kind": str(field.kind), "meaning": field.meaning}
            for name, field in lot.table.columns.items()]  # fmt: skip
    rows += [{"column": name, "kind": "text", "meaning": "to be shown only"} for name in sorted(lot.table.shown_only)]
    for space, field in lot.table.namespaces.items():
        made = recorded.get(space, ["NAME"] if lot is not RUNS else [])
        rows += [
            {"column": write_column(f"{space}.{name}"), "kind": str(field.kind), "meaning": field.meaning}
            for name in made
        ]
    if asked.json:
        render.print_json(rows)
    else:
        render.table(["column", "kind", "meaning"], [list(row.values()) for row in rows])
