"""Pictures."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, filters, meant, names_of

_KINDS = ["history", "importance", "parallel", "contour", "pareto"]


@click.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="METRIC...|JOB", callback=meant, shell_complete=names_of("jobs")
)
@click.option(
    "--runs",
    multiple=True,
    callback=meant,
    shell_complete=names_of("runs"),
    help="Runs, ranges run3-run9, patterns, jobs; default: all that logged it.",
)
@filters
@click.option("--kind", type=click.Choice(_KINDS), help="What to draw of a search; default: history.")
@click.option("--params", metavar="A,B", help="For parallel and contour: these parameters; default: what matters most.")
@click.option("--metric", metavar="M", help="This objective of the search; default: the first, or all.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="PNG, SVG or PDF, by its ending; of a search also HTML.  [default: plot.png]",
)
@as_json
def plot(
    names: tuple[str, ...],
    runs: tuple[str, ...],
    filters: tuple[str, ...],
    kind: str | None,
    params: str | None,
    metric: str | None,
    output: Path | None,
    json: bool,
) -> None:
    """Draw metrics over steps into a file, or how a search went.

    With the name of a search: its history (each result, and the best so far), what matters (importance), parallel
    coordinates, the contour of two parameters, or the Pareto front of two objectives. With --json and no --output,
    only what would be drawn is printed.
    """
    from turnout.cli import plots

    search = plots.OfSearch(kind=kind, params=params, metric=metric)
    plots.plot(list(names), plots.OfRuns(list(runs), list(filters)), search, output, json)
