"""Cancelling, and taking files out."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import Commands, as_json, names_of, run_name


@click.group(cls=Commands)
def cancel() -> None:
    """Cancel runs, a job, or everything. Cancelling twice is no error."""


@cancel.command("run")
@click.argument("names", nargs=-1, required=True, metavar="RUN...", shell_complete=names_of("runs"))
@as_json
def cancel_run(names: tuple[str, ...], json: bool) -> None:
    """Cancel these runs, and the children of parents among them."""
    from turnout.cli import steer

    steer.cancel({"runs": names}, json)


@cancel.command("job")
@click.argument("name", metavar="JOB", shell_complete=names_of("jobs"))
@as_json
def cancel_job(name: str, json: bool) -> None:
    """Cancel all runs of a job."""
    from turnout.cli import steer

    steer.cancel({"job": name}, json)


@cancel.command("all")
@as_json
def cancel_all(json: bool) -> None:
    """Cancel everything that is not over."""
    from turnout.cli import steer

    steer.cancel({"everything": True}, json)


@click.command()
@run_name
@click.argument("directory", type=click.Path(path_type=Path))
@as_json
def extract(name: str, directory: Path, json: bool) -> None:
    """Write a run's files into a new directory: what it was given, what it left, what it printed."""
    from turnout.cli import steer

    steer.extract(name, directory, json)
