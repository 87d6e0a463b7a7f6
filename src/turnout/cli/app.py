"""The command line: finds the command, runs it, and says every error in one shape."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from turnout.cli.commands import WHERE
from turnout.cli.options import Commands
from turnout.errors import InvalidInput, TurnoutError

_INTERRUPTED = 130
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Turnout(Commands):
    """All commands, each loaded when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(WHERE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in WHERE:
            return None
        module = importlib.import_module(f"turnout.cli.commands.{WHERE[cmd_name]}")
        for name in (cmd_name.replace("-", "_"), f"{cmd_name}_"):
            if hasattr(module, name):
                command: click.Command = getattr(module, name)
                return command
        raise LookupError(f"{module.__name__} has no command {cmd_name}")


@click.group(cls=_Turnout, context_settings=_SETTINGS)
@click.version_option(package_name="turnout", message="turnout %(version)s")
def app() -> None:
    """Run experiments on any compute, and keep what ran."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs a command and exits with its code. Every error is said in one shape: what, where, what to type next."""
    args = sys.argv[1:] if argv is None else argv
    try:
        sys.exit(app.main(args, prog_name="turnout", standalone_mode=False))
    except TurnoutError as error:
        _say_error(error, as_json="--json" in _own_options(args))
        sys.exit(error.exit_code)
    except click.UsageError as error:
        sys.exit(_say_usage(error, as_json="--json" in _own_options(args)))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_INTERRUPTED)


def _own_options(args: list[str]) -> list[str]:
    """The arguments that are turnout's, not those of the command to run."""
    if args[:1] not in (["run"], ["rerun"]):
        return args
    own: list[str] = []
    for arg in args[1:]:
        if not arg.startswith("-") and not (own and own[-1].startswith("-")):
            break
        own.append(arg)
    return own


def _say_usage(error: click.UsageError, *, as_json: bool) -> int:
    if (
        type(error).__name__ == "NoArgsIsHelpError"
    ):  # a command without the word it needs: its help says which there are
        error.show()
    else:
        path = error.ctx.command_path if error.ctx is not None else "turnout"
        _say_error(InvalidInput(error.format_message(), hint=f"`{path} --help` shows how"), as_json=as_json)
    return InvalidInput.exit_code


def _say_error(error: TurnoutError, *, as_json: bool) -> None:
    from turnout.cli import render

    if as_json:
        render.print_json(error.as_dict())
    else:
        render.complain(error.message, error.hint)
