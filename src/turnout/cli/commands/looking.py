"""Looking at runs and jobs."""

from __future__ import annotations

import click

from turnout.cli.options import Commands, as_json, filters, limit, names_of, run_name


@click.command()
@click.argument("name", metavar="[RUN|JOB]", required=False, shell_complete=names_of("runs"))
@as_json
def status(name: str | None, json: bool) -> None:
    """What is going on: the runs that are not over, or how one run or job stands."""
    from turnout.cli import look

    look.status(name, json)


@click.command()
@run_name
@as_json
def attach(name: str, json: bool) -> int:
    """Show a run's output as it comes, from its beginning, until it is over. Ctrl-C leaves; the run goes on."""
    from turnout.cli import look

    return look.attach(name, json)


@click.command()
@run_name
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt; default the newest.")
@as_json
def logs(name: str, follow: bool, attempt: int | None, json: bool) -> None:
    """The exact bytes a run printed."""
    from turnout.cli import look

    look.logs(name, follow, attempt, json)


@click.command()
@run_name
@as_json
def events(name: str, json: bool) -> None:
    """A run's history, step by step."""
    from turnout.cli import look

    look.events(name, json)


@click.command()
@run_name
@click.argument("metrics", nargs=-1, metavar="[METRIC]...")
@as_json
def metrics(name: str, metrics: tuple[str, ...], json: bool) -> None:
    """What a run logged."""
    from turnout.cli import look

    look.metrics(name, list(metrics), json)


@click.command()
@click.argument("name", metavar="RUN|JOB", shell_complete=names_of("runs"))
@as_json
def show(name: str, json: bool) -> None:
    """Everything about one run or job."""
    from turnout.cli import look

    look.show(name, json)


@click.command()
@run_name
@as_json
def why(name: str, json: bool) -> None:
    """Why a run waits, or ended as it did."""
    from turnout.cli import look

    look.why(name, json)


@click.group("list", cls=Commands)
def list_() -> None:
    """List runs or jobs."""


@list_.command("runs")
@filters
@click.option("--sort", default="", help="A column, smallest first; -column for largest first.")
@click.option("--columns", default="", help="Such as name,state,params.lr,metrics.loss:.3f")
@limit
@as_json
def list_runs(filters: tuple[str, ...], sort: str, columns: str, limit: int, json: bool) -> None:
    """Runs, newest first."""
    from turnout.cli import look

    look.list_runs(filters, sort, columns, limit, json)


@list_.command("jobs")
@limit
@as_json
def list_jobs(limit: int, json: bool) -> None:
    """Jobs, newest first."""
    from turnout.cli import look

    look.list_jobs(limit, json)
