"""Cancelling, and taking files out."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import Commands, as_json, meant, names_of


@click.group(cls=Commands)
def cancel() -> None:
    """Cancel runs, a job, or everything. Cancelling twice is no error."""


@cancel.command("run")
@click.argument("names", nargs=-1, required=True, metavar="RUN...", callback=meant, shell_complete=names_of("runs"))
@as_json
def cancel_run(names: tuple[str, ...], json: bool) -> None:
    """Cancel these runs, and the children of parents among them.

    run3-run9 is a range, run1* a pattern, job3 all runs of a job; - takes names from a pipe.
    """
    from turnout.cli import steer

    steer.cancel({"runs": names}, json)


@cancel.command("job")
@click.argument("name", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@as_json
def cancel_job(name: str, json: bool) -> None:
    """Cancel all runs of a job."""
    from turnout.cli import steer

    steer.cancel({"job": name}, json)


@cancel.command("all")
@click.argument("place", metavar="[TARGET|BOX]", required=False, shell_complete=names_of("targets"))
@as_json
def cancel_all(place: str | None, json: bool) -> None:
    """Cancel everything that is not over, or what was sent to a target or is on a box."""
    from turnout.cli import steer

    steer.cancel({"everything": True, "place": place}, json)


@click.command()
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="RUN|JOB|NODE...",
    callback=meant,
    shell_complete=names_of("jobs", "runs", "nodes"),
)
@as_json
def release(names: tuple[str, ...], json: bool) -> None:
    """Let go what was submitted with --held, or a node that was kept with --keep-node. Twice is no error."""
    from turnout.cli import steer

    steer.release(names, json)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...", callback=meant, shell_complete=names_of("runs"))
@click.argument("directory", type=click.Path(path_type=Path))
@as_json
def extract(names: tuple[str, ...], directory: Path, json: bool) -> None:
    """Write the files of runs into a new directory: what they were given, what they left, what they printed.

    run3-run9 is a range, run1* a pattern, job3 all runs of a job; - takes names from a pipe. Of several runs, each gets
    a directory of its name there.
    """
    from turnout.cli import steer

    steer.extract(names, directory, json)
