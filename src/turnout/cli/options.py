"""What commands share: groups that help with a mistyped word, options that mean the same everywhere, names for the tab
key."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from turnout.cli.completing import names_of as names_of
from turnout.cli.completing import paths as paths
from turnout.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])
_NOBODY_READS = 141
HELP = ["-h", "--help"]


class Commands(click.Group):
    """A group that says what a mistyped command may have meant, and takes a reader that went away for no error."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = (
                f"did you mean `{ctx.command_path} {near[0]}`?" if near else f"`{ctx.command_path} --help` lists them"
            )
            raise InvalidInput(f"no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on: nothing more to say, or to flush at the end
            return _NOBODY_READS
        return code


def meant(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """A name, or names, as typed: ``$lastrun`` becomes the run it stands for, ``-`` the names that are piped in."""
    if context.resilient_parsing or value is None or value == ():
        return value
    if value == "":
        raise InvalidInput("an empty name", hint="a shell makes nothing of $lastrun: write '$lastrun', or @lastrun")
    from turnout.cli import names

    return names.one(value) if isinstance(value, str) else tuple(names.several(value))


def as_json(function: F) -> F:
    return click.option("--json", is_flag=True, help="Print JSON, in the documented shape.")(function)


def run_name(function: F) -> F:
    return click.argument("name", metavar="RUN", callback=meant, shell_complete=names_of("runs"))(function)


def freezing(function: F) -> F:
    """Which files of the project are frozen with what is submitted."""
    allowed = click.option(
        "--allow-secret", "allow_secrets", multiple=True, metavar="PATH",
        help="Take this file although it looks like a secret.",
    )  # fmt: skip
    text = "Freeze no files; each run begins in an empty directory."
    return click.option("--no-snapshot", is_flag=True, help=text)(allowed(function))


def filters(function: F) -> F:
    text = "Such as 'state=failed and metrics.loss<0.3'; may be repeated."
    return click.option("--filter", "-f", "filters", multiple=True, help=text)(function)
