"""Looking at runs and jobs."""

from __future__ import annotations

import click

from turnout.cli.options import as_json, meant, names_of, run_name


@click.command()
@click.argument("name", metavar="[RUN|JOB]", required=False, callback=meant, shell_complete=names_of("runs", "jobs"))
@as_json
def status(name: str | None, json: bool) -> None:
    """What is going on: the runs that are not over, or how one run or job stands."""
    from turnout.cli import look

    look.status(name, json)


@click.command()
@click.argument("name", metavar="RUN|JOB", callback=meant, shell_complete=names_of("runs", "jobs"))
@click.option("--tail", type=click.IntRange(min=1), default=100, show_default=True, help="Begin so many lines back.")
@as_json
def attach(name: str, tail: int, json: bool) -> int:
    """Show the recent output, then what comes, until the run or job is over. Ctrl-C leaves; the run goes on.

    Of several runs, each line stands behind the name of its run.
    """
    from turnout.cli import look

    return look.attach(name, tail, json)


@click.command()
@run_name
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt; default the newest.")
@click.option("--tail", type=click.IntRange(min=1), help="Only so many lines of its end, and what comes.")
@as_json
def logs(name: str, follow: bool, attempt: int | None, tail: int | None, json: bool) -> None:
    """The exact bytes a run printed."""
    from turnout.cli import look

    look.logs(name, follow, attempt, tail, json)


@click.command()
@click.argument("name", metavar="RUN|JOB", callback=meant, shell_complete=names_of("runs", "jobs"))
@as_json
def events(name: str, json: bool) -> None:
    """The history of a run, or of a job apart from its runs, step by step."""
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
@click.argument("name", metavar="RUN|JOB", callback=meant, shell_complete=names_of("runs", "jobs"))
@as_json
def show(name: str, json: bool) -> None:
    """Everything about one run or job."""
    from turnout.cli import look

    look.show(name, json)


@click.command()
@click.argument("name", metavar="RUN|JOB|NODE", callback=meant, shell_complete=names_of("runs", "jobs", "nodes"))
@as_json
def why(name: str, json: bool) -> None:
    """Why a run or job waits, or ended as it did; what a node does."""
    from turnout.cli import look

    look.why(name, json)
