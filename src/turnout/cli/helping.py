"""``turnout help`` and ``turnout completion``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from turnout.cli import render
from turnout.errors import InvalidInput, NotFound

#: Pages of the documentation, by what they are about; in docs/ of the source.
TOPICS = {
    "getting-started": ("the first five minutes", "tutorial/getting-started.md"),
    "everyday": ("commands of all day: lists, filters, tags", "howto/everyday.md"),
    "run-styles": ("the same again, many at once, several nodes", "howto/run-styles.md"),
    "configuration": ("settings, layers, secrets", "howto/configuration.md"),
    "data-and-models": ("files that runs share", "howto/data-and-models.md"),
    "setups": ("packages for runs", "howto/setups.md"),
    "upgrade": ("a newer version while runs are going", "howto/upgrade.md"),
    "how-it-works": ("a submission, step by step", "explanation/how-it-works.md"),
    "glossary": ("the words", "explanation/glossary.md"),
    "states": ("what happens to a run, and when", "explanation/states.md"),
    "guarantees": ("what is promised, and what is not", "explanation/guarantees.md"),
    "commands": ("every command and option", "reference/cli.md"),
    "filters": ("filters, sorts, columns", "reference/filters.md"),
    "settings": ("every setting", "reference/config.md"),
    "json": ("answers for programs", "reference/json.md"),
    "benchmarks": ("how fast it is", "reference/benchmarks.md"),
}


def show(context: click.Context, words: Sequence[str], json: bool) -> None:
    """What ``--help`` shows of that command; of ``topics``, the pages there are."""
    if list(words) == ["topics"]:
        _show_topics(json)
        return
    command, path = context.find_root().command, context.find_root()
    for word in words:
        found = command.get_command(path, word) if isinstance(command, click.Group) else None
        if found is None:
            _refuse(word, words, path)
        assert found is not None
        command, path = found, click.Context(found, info_name=word, parent=path)
    text = command.get_help(path)
    if json:
        render.print_json({"command": path.command_path, "help": text})
    else:
        click.echo(text)


def _refuse(word: str, words: Sequence[str], path: click.Context) -> None:
    if len(words) == 1 and word in TOPICS:
        raise InvalidInput(f"{word!r} is a page, not a command", hint=f"read docs/{TOPICS[word][1]}")
    raise NotFound(f"no command {' '.join(words)!r}", hint=f"`{path.command_path} --help` lists what there is")


def _show_topics(json: bool) -> None:
    if json:
        rows = [{"topic": name, "about": about, "page": f"docs/{page}"} for name, (about, page) in TOPICS.items()]
        render.print_json(rows)
    else:
        render.table(
            ["topic", "about", "page"], [[name, about, f"docs/{page}"] for name, (about, page) in TOPICS.items()]
        )


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
