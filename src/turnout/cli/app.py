"""The command line: finds the command, runs it, and says every error in one shape."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import NoReturn

import click

from turnout.cli.commands import WHERE
from turnout.cli.options import HELP, Commands
from turnout.errors import InvalidInput, TurnoutError, Unavailable

_INTERRUPTED = 130
_OF_STREAMS = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
_SETTINGS = {"help_option_names": HELP, "max_content_width": 110}


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
    _make_streams_lenient()
    try:
        sys.exit(app.main(args, prog_name="turnout", standalone_mode=False))
    except TurnoutError as error:
        _say_error(error, as_json="--json" in _own_options(args))
        sys.exit(error.exit_code)
    except click.UsageError as error:
        sys.exit(_say_usage(error, as_json="--json" in _own_options(args)))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_INTERRUPTED)
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_STREAMS:
            raise
        sys.exit(_say_unwritten(error))


def _make_streams_lenient() -> None:
    """One that was closed swallows what is written to it; one that cannot write some letter writes its code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it is used to the end
        elif stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _say_unwritten(error: OSError) -> int:
    """What was to be shown could not be: the disk that it went to is full, or its reader is broken."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor can what is left be written at the end
    said = Unavailable(f"the output could not be written: {error.strerror}", hint="send it to another place")
    _say_error(said, as_json=False)
    return Unavailable.exit_code


def _own_options(args: list[str]) -> list[str]:
    """The arguments that are turnout's, not those of the command to run."""
    if args[:1] == ["rerun"]:
        from turnout.cli.commands.again import Rerun, rerun

        assert isinstance(rerun, Rerun)
        return rerun.split(args[1:])[0]
    if args[:1] not in (["run"], ["exec"]):
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
