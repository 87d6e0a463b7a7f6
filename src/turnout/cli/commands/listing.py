"""Listing what there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from turnout.cli.completing import columns_of, names_of
from turnout.cli.options import Commands, F, as_json

_COUNT = click.IntRange(min=1)


def _options(kind: str, *, several: bool = False) -> Callable[[F], F]:
    """What every list takes. `several`: it may be long, so that it is shown in part."""
    shown = [
        click.option("--filter", "-f", "filters", multiple=True, shell_complete=columns_of(kind, "filter"),
                     help="Such as 'state = failed and created < 2h'; all that are given must be true."),
        click.option("--sort", default="", metavar="COLUMN", shell_complete=columns_of(kind, "sort"),
                     help="Smallest first; -COLUMN for largest first. What lacks it comes last."),
        click.option("--reverse", is_flag=True, help="Turn the order round."),
        click.option("--columns", default="", metavar="SPEC", shell_complete=columns_of(kind, "columns"),
                     help="name[=Header][:format], comma-separated: name,params.*,metrics.loss=Loss:.3f,created:$do"),
        click.option("--group", default="", metavar="COLUMN", shell_complete=columns_of(kind, "sort"),
                     help="A table for each of its values."),
        click.option("--first", type=_COUNT, metavar="N", help="The first N: the oldest, or of the sorted."),
        click.option("--last", type=_COUNT, metavar="N", help="The last N: the newest, or of the sorted."),
    ]  # fmt: skip
    if several:
        shown += [
            click.option("--limit", "-n", type=_COUNT, metavar="N", help="At most N; 50 unless the settings say."),
            click.option("--all", "everything", is_flag=True, help="All of them."),
        ]
    shown += [
        click.option("--csv", is_flag=True, help="Comma-separated, with nothing cut or rounded."),
        click.option("--table", is_flag=True, help="As on a terminal, also where it goes elsewhere: `… | less`."),
        click.option("--names", "only_names", is_flag=True, help="Only names, for `… | turnout set tags -`."),
        click.option("--available", is_flag=True, help="Which columns there are."),
        as_json,
    ]

    def add(function: F) -> F:
        for option in reversed(shown):
            function = option(function)
        return function

    return add


def _names(kind: str, metavar: str) -> Callable[[F], F]:
    return click.argument("names", nargs=-1, metavar=metavar, shell_complete=names_of(kind))


def _show(kind: str, **options: Any) -> None:
    from turnout.cli import listing

    listing.show(getattr(listing, kind.upper()), listing.Asked(**options))


_tags = click.option("--tag", "tags", multiple=True, metavar="K[=V]", help="Those with this tag.")


@click.group("list", cls=Commands)
def list_() -> None:
    """List runs, jobs, and what else there is."""


@list_.command("runs")
@_names("runs", "[RUN|RANGE|JOB|LABEL|EXPERIMENT]...")
@click.option("--job", "jobs", multiple=True, metavar="JOB", shell_complete=names_of("jobs"), help="Those of this job.")
@_tags
@_options("runs", several=True)
def list_runs(jobs: tuple[str, ...], **options: Any) -> None:
    """Runs, newest first: all, or those named.

    run3-run9 is a range, run5.* the children of run5, run1* a pattern; a label stands for the runs of the newest job
    that has it.
    """
    _show("runs", **{**options, "names": (*options["names"], *jobs)})


@list_.command("jobs")
@_names("jobs", "[JOB|RANGE|LABEL]...")
@_tags
@_options("jobs", several=True)
def list_jobs(**options: Any) -> None:
    """Jobs, newest first."""
    _show("jobs", **options)


@list_.command("experiments")
@_names("experiments", "[EXPERIMENT]...")
@_options("experiments")
def list_experiments(**options: Any) -> None:
    """Experiments, the one with the newest job first."""
    _show("experiments", **options)


@list_.command("workspaces")
@_names("workspaces", "[WORKSPACE]...")
@_options("workspaces")
def list_workspaces(**options: Any) -> None:
    """Workspaces, with what is in them."""
    _show("workspaces", **options)


@list_.command("targets")
@_names("targets", "[TARGET]...")
@_options("targets")
def list_targets(**options: Any) -> None:
    """Compute targets, with what waits and runs there."""
    _show("targets", **options)


@list_.command("boxes")
@_names("boxes", "[BOX]...")
@_options("boxes")
def list_boxes(**options: Any) -> None:
    """The machines that your settings name."""
    _show("boxes", **options)


@list_.command("nodes")
@_names("nodes", "[NODE]...")
@_options("nodes")
def list_nodes(**options: Any) -> None:
    """The nodes that work now."""
    _show("nodes", **options)


@list_.command("shares")
@_names("shares", "[SHARE]...")
@_options("shares")
def list_shares(**options: Any) -> None:
    """Named shares; of one that is named, the files in it."""
    from turnout.cli import listing

    listing.show_shares(listing.Asked(**options))
