"""Pictures."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, filters, meant, names_of


@click.command()
@click.argument("metrics", nargs=-1, required=True, metavar="METRIC...")
@click.option(
    "--runs",
    multiple=True,
    callback=meant,
    shell_complete=names_of("runs"),
    help="Runs, ranges run3-run9, patterns, jobs; default: all that logged it.",
)
@filters
@click.option(
    "--output",
    "-o",
    default="plot.png",
    show_default=True,
    type=click.Path(path_type=Path),
    help="PNG, SVG or PDF, by its ending.",
)
@as_json
def plot(metrics: tuple[str, ...], runs: tuple[str, ...], filters: tuple[str, ...], output: Path, json: bool) -> None:
    """Draw metrics over steps into a file."""
    from turnout.cli import plots

    plots.plot(list(metrics), list(runs), list(filters), output, json)
