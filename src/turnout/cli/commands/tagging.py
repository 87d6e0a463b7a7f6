"""Tags."""

from __future__ import annotations

import click

from turnout.cli.completing import names_of
from turnout.cli.options import Commands, as_json


@click.group("set", cls=Commands)
def set_() -> None:
    """Set tags of runs and jobs."""


@set_.command("tags")
@click.argument("words", nargs=-1, required=True, metavar="NAME... KEY[=VALUE]...", shell_complete=names_of("runs"))
@as_json
def set_tags(words: tuple[str, ...], json: bool) -> None:
    """Tag runs (run3, run3-run9, run1*, a label), or a job with all its runs; - takes names from a pipe."""
    from turnout.cli import tagging

    tagging.set_tags(words, json)


@click.group(cls=Commands)
def clear() -> None:
    """Clear tags of runs and jobs."""


@clear.command("tags")
@click.argument("words", nargs=-1, required=True, metavar="NAME... KEY...", shell_complete=names_of("runs"))
@as_json
def clear_tags(words: tuple[str, ...], json: bool) -> None:
    """Remove tags by name. Clearing what is not there is no error."""
    from turnout.cli import tagging

    tagging.clear_tags(words, json)
