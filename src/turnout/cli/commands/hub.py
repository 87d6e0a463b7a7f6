"""The hub, and whether all is well."""

from __future__ import annotations

import click

from turnout.cli.options import Commands, as_json, names_of


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=names_of("targets"))
@click.option("--deep", is_flag=True, help="Read every kept file; without it, some of them, others each time.")
@as_json
def doctor(targets: tuple[str, ...], deep: bool, json: bool) -> int:
    """Look for what could be wrong, and say what to do about it. With a TARGET, only there."""
    from turnout.cli import checkup

    return checkup.doctor(targets, deep, json)


@click.group(cls=Commands)
def hub() -> None:
    """The process in the background that keeps everything."""


@hub.command("start")
@click.option("--listen", metavar="127.0.0.1:PORT", help="Also listen there.")
@as_json
def hub_start(listen: str | None, json: bool) -> None:
    """Start the hub if it does not run."""
    from turnout.cli import steer

    steer.hub_start(listen, json)


@hub.command("status")
@as_json
def hub_status(json: bool) -> None:
    """Whether the hub runs, since when, and what it looks after."""
    from turnout.cli import steer

    steer.hub_status(json)


@hub.command("stop")
@as_json
def hub_stop(json: bool) -> None:
    """Stop the hub. Runs go on, and are taken up again when it starts."""
    from turnout.cli import steer

    steer.hub_stop(json)


@hub.command("logs")
@click.option("--lines", "-n", default=50, show_default=True, type=click.IntRange(min=1), help="The last so many.")
@as_json
def hub_logs(lines: int, json: bool) -> None:
    """What the hub wrote into its log."""
    from turnout.cli import steer

    steer.hub_logs(lines, json)
