"""Looking at runs and jobs."""

from __future__ import annotations

from typing import Any

import click

from turnout.cli.options import as_json, meant, names_of, run_name


@click.command()
@click.argument("name", metavar="[RUN|JOB]", required=False, callback=meant, shell_complete=names_of("runs", "jobs"))
@click.option("--target", shell_complete=names_of("targets"), help="Of this target only.")
@click.option("--job", callback=meant, shell_complete=names_of("jobs"), help="Of this job only.")
@click.option("--workspace", shell_complete=names_of("workspaces"), help="Of this workspace only.")
@click.option("--monitor", is_flag=True, help="Again and again, until nothing goes on.")
@click.option("--escape-secs", type=click.FloatRange(min=0), help="With --monitor: leave after so many seconds.")
@click.option("--auto-start", is_flag=True, help="Let a service start its controller if it needs one.")
@click.option("--queued", is_flag=True, help="What waits.")
@click.option("--active", is_flag=True, help="What is on a node.")
@click.option("--completed", is_flag=True, help="What is over.")
@click.option("--status", "state", metavar="STATE", help="What is in this state.")
@click.option("--max-finished", type=click.IntRange(min=0), help="Also the last so many that are over.")
@as_json
def status(json: bool, queued: bool, active: bool, completed: bool, **asked: Any) -> None:
    """What is going on: the runs that are not over, or how one run or job stands.

    Where a service has the runs that tells their status itself, what it says follows.
    """
    from turnout.cli import standing

    chosen = {"queued": queued, "active": active, "completed": completed}
    stages = tuple(stage for stage, is_chosen in chosen.items() if is_chosen)
    standing.status(standing.Asked(stages=stages, **asked), json)


@click.command("open")
@click.argument("name", metavar="RUN|JOB", callback=meant, shell_complete=names_of("runs", "jobs"))
@click.option("--print", "only_print", is_flag=True, help="Tell the address and open nothing.")
@as_json
def open_(name: str, only_print: bool, json: bool) -> None:
    """Open the page on which the service that has it shows a run or a job."""
    from turnout.cli import opening

    opening.open_page(name, only_print=only_print, json=json)


@click.command()
@click.argument("name", metavar="RUN|JOB", callback=meant, shell_complete=names_of("runs", "jobs"))
@click.option("--tail", type=click.IntRange(min=1), default=100, show_default=True, help="Begin so many lines back.")
@as_json
def attach(name: str, tail: int, json: bool) -> int:
    """Show the recent output, then what comes, until the run or job is over. Ctrl-C leaves; the run goes on.

    Of several runs, each line stands behind the name of its run. Exits with the run's own code, or that of the first
    that failed; with 1 if a search or a pipeline failed.
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
