"""Help, and completion by the shell."""

from __future__ import annotations

import click

from turnout.cli.options import as_json


def _next_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from turnout.cli import helping

    return helping.complete(context, parameter, incomplete)


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]... | TOPIC | topics", shell_complete=_next_words)
@as_json
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...], json: bool) -> None:
    """Tell about a command, show a page of the documentation, or list its topics."""
    from turnout.cli import helping

    helping.show(context, words, json)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@as_json
def completion(shell: str, json: bool) -> None:
    """Print what lets the tab key complete commands, options, names and columns.

    \b
    bash:  eval "$(turnout completion bash)"     in ~/.bashrc
    zsh:   eval "$(turnout completion zsh)"      in ~/.zshrc
    fish:  turnout completion fish > ~/.config/fish/completions/turnout.fish
    """
    from turnout.cli import helping

    helping.completion(shell, json)
