"""Deleting what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from turnout.cli.options import Commands, as_json, meant, names_of

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Commands)
def delete() -> None:
    """Delete what is kept and not needed any more."""


@delete.command("share")
@click.argument("name", metavar="SHARE", shell_complete=names_of("shares"))
@as_json
def delete_share(name: str, json: bool) -> None:
    """Delete a named share. Runs that were submitted with it keep what they were bound to."""
    from turnout.cli import sharing

    sharing.delete(name, json)


def _yes(function: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(function)


@delete.command("run")
@click.argument("names", nargs=-1, required=True, metavar="RUN...", callback=meant, shell_complete=names_of("runs"))
@_yes
@as_json
def delete_run(names: tuple[str, ...], yes: bool, json: bool) -> None:
    """Delete runs that are over, with their children, for good. Their names are not given out again."""
    from turnout.cli import deleting

    deleting.delete({"runs": names}, yes, json)


@delete.command("job")
@click.argument("names", nargs=-1, required=True, metavar="JOB...", callback=meant, shell_complete=names_of("jobs"))
@_yes
@as_json
def delete_job(names: tuple[str, ...], yes: bool, json: bool) -> None:
    """Delete jobs that are over, with all their runs, for good."""
    from turnout.cli import deleting

    deleting.delete({"jobs": names}, yes, json)


@delete.command("experiment")
@click.argument("name", shell_complete=names_of("experiments"))
@click.option(
    "--workspace",
    shell_complete=names_of("workspaces"),
    help="The workspace it is in, where several have one of that name.",
)
@_yes
@as_json
def delete_experiment(name: str, workspace: str | None, yes: bool, json: bool) -> None:
    """Delete all jobs and runs of an experiment for good."""
    from turnout.cli import deleting

    deleting.delete({"experiment": name, "workspace": workspace}, yes, json)


@delete.command("workspace")
@click.argument("name", shell_complete=names_of("workspaces"))
@_yes
@as_json
def delete_workspace(name: str, yes: bool, json: bool) -> None:
    """Delete all jobs and runs of a workspace for good. `turnout export` keeps them in a file."""
    from turnout.cli import deleting

    deleting.delete({"workspace": name}, yes, json)
