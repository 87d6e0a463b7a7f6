"""What is kept: out of turnout in one file, and back in; room given back; all of it gone."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, names_of


@click.command()
@click.argument("workspace", shell_complete=names_of("workspaces"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--experiment", shell_complete=names_of("experiments"), help="Only this experiment.")
@click.option("--jobs", metavar="JOB,…", help="Only these jobs.")
@click.option("--finished", is_flag=True, help="Leave out jobs that are not over, instead of refusing.")
@click.option("--no-files", is_flag=True, help="Leave out the files that runs were given and left.")
@as_json
def export(
    workspace: str, file: Path, experiment: str | None, jobs: str | None, finished: bool, no_files: bool, json: bool
) -> None:
    """Write all of a workspace into one file, and check it.

    Jobs, runs, attempts, events, parameters, tags, metrics, output and files; no secrets and no values of the
    environment.
    """
    from turnout.cli import keeping

    keeping.export(workspace, file, experiment, jobs, finished, not no_files, json)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "workspace", metavar="WORKSPACE", help="The workspace it goes to; default: as it was.")
@click.option("--prefix", default="", help="Put this before the names of its experiments.")
@click.option("--again", is_flag=True, help="If it is here already, that is no error, and nothing changes.")
@as_json
def import_(file: Path, workspace: str | None, prefix: str, again: bool, json: bool) -> None:
    """Take in what `turnout export` wrote: all of it, or nothing.

    Jobs and runs get new names; `turnout show` tells the old ones.
    """
    from turnout.cli import keeping

    keeping.import_archive(file, workspace, prefix, again, json)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@as_json
def gc(dry_run: bool, json: bool) -> None:
    """Remove files that nothing refers to any more, and give room back to the disk.

    The hub does most of this by itself once a day. What was sent within the last hour stays.
    """
    from turnout.cli import deleting

    deleting.gc(dry_run, json)


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds that a prolog or epilog has to end; then it is broken off.",
)
@as_json
def uninstall(yes: bool, grace: float, json: bool) -> None:
    """End all runs, the hub and its agents, and remove everything turnout keeps.

    Refuses, and removes nothing, when something cannot be ended: it says what. The package itself stays.
    """
    from turnout.cli import uninstalling

    uninstalling.uninstall(yes, grace, json)
