"""``turnout help`` and ``turnout completion``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from turnout.cli import render
from turnout.cli.pages import Page, find_pages
from turnout.errors import NotFound

TOPICS = "topics"


def show(context: click.Context, words: Sequence[str], json: bool) -> None:
    """What ``--help`` shows of that command, or the page of that topic; of ``topics``, the pages there are."""
    if list(words) == [TOPICS]:
        _show_topics(_pages(context), json)
        return
    found = _find_command(context, words)
    page = _pages(context).get(words[0]) if len(words) == 1 else None
    if found is None and page is None:
        hint = "`turnout --help` lists the commands, `turnout help topics` the pages"
        raise NotFound(f"no command or topic {' '.join(words)!r}", hint=hint)
    if found is not None:
        _show_command(*found, json)
    elif page is not None:
        _show_page(page, json)


def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The words that can come next: commands behind those that are there, and first of all topics."""
    words = tuple(context.params.get("words") or ())
    found = _find_command(context, words)
    command, path = found if found is not None else (None, context)
    names = command.list_commands(path) if isinstance(command, click.Group) else []
    names += [] if words else [TOPICS, *_pages(context)]
    return [name for name in names if name.startswith(incomplete)]


def _find_command(context: click.Context, words: Sequence[str]) -> tuple[click.Command, click.Context] | None:
    path = context.find_root()
    command = path.command
    for word in words:
        found = command.get_command(path, word) if isinstance(command, click.Group) else None
        if found is None:
            return None
        command, path = found, click.Context(found, info_name=word, parent=path)
    return command, path


def _pages(context: click.Context) -> dict[str, Page]:
    root = context.find_root()
    commands = root.command.list_commands(root) if isinstance(root.command, click.Group) else []
    return find_pages({*commands, TOPICS})


def _show_command(command: click.Command, path: click.Context, json: bool) -> None:
    text = command.get_help(path)
    if json:
        render.print_json({"command": path.command_path, "help": text})
    else:
        click.echo(text)


def _show_page(page: Page, json: bool) -> None:
    if json:
        render.print_json({"topic": page.topic, "about": page.about, "page": page.path, "text": page.text})
    elif sys.stdout.isatty():
        click.echo_via_pager(page.text)
    else:
        click.echo(page.text, nl=False)


def _show_topics(pages: Mapping[str, Page], json: bool) -> None:
    if json:
        rows = [{"topic": each.topic, "about": each.about, "page": each.path} for each in pages.values()]
        render.print_json(rows)
    else:
        render.table(["topic", "about"], [[each.topic, each.about] for each in pages.values()])


def completion(shell: str, json: bool) -> None:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    from turnout.cli.app import app

    text = kind(app, {}, "turnout", "_TURNOUT_COMPLETE").source()
    if json:
        render.print_json({"shell": shell, "script": text})
    else:
        click.echo(text)
