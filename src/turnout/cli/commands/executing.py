"""Running scripts of other tools."""

from __future__ import annotations

import click

from turnout.cli.options import as_json, paths


@click.command("exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
@click.argument("script", metavar="SCRIPT.py", shell_complete=paths())
@click.argument("arguments", nargs=-1, metavar="[ARGS]...", type=click.UNPROCESSED)
@as_json
def exec_(script: str, arguments: tuple[str, ...], json: bool) -> int:
    """Run a Python script here and now, with the import aliases of other tools.

    A script that was written for XT finds what it imports, where XT itself is not installed.
    """
    from turnout.cli import executing

    return executing.execute(script, arguments, json)
