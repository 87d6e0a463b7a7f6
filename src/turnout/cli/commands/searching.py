"""Searches: submitting one, looking at it, and changing what it may use while it goes on."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.commands.searched import search_options
from turnout.cli.options import as_json, freezing, meant, names_of, paths


@click.command()
@click.argument("file", type=click.Path(path_type=Path), shell_complete=paths())
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARGS]...]", type=click.UNPROCESSED)
@click.option("--target", shell_complete=names_of("targets"), help="Where to run; several with commas between.")
@click.option("--experiment", shell_complete=names_of("experiments"), help="The experiment it belongs to.")
@click.option("--name", help="A name of your own for it, to be used like job12.")
@click.option("--tag", "tags", multiple=True, metavar="K=V", help="Tag the runs.")
@click.option("--runs", type=click.IntRange(min=1), help="Runs in all.")
@click.option("--concurrent", type=click.IntRange(min=1), help="Runs at once.")
@click.option(
    "--schedule",
    type=click.Choice(["dynamic", "static"]),
    show_default="dynamic",
    help="Runs are made as there is room, or all of them when it is submitted.",
)
@search_options
@click.option("--held", is_flag=True, help="Submit, but wait for `turnout release`.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--wait", is_flag=True, help="Exit with 1 if it fails.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would happen; change nothing.")
@freezing
@as_json
def search(file: Path, command: tuple[str, ...], **options: object) -> int:
    """Run the search of a file: its command, and the parameters to try.

    FILE is a job file with a block `search:`, an experiment file of NNI, or parameters alone with a command behind
    them. What is typed wins over what it says. Ctrl-C detaches, and the search goes on.
    """
    from turnout.cli import searches

    return searches.submit(file, command, options)


@click.command()
@click.argument("job", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@as_json
def pause(job: str, json: bool) -> None:
    """Let a search make no more runs for now. Those that run go on."""
    from turnout.cli import searches

    searches.change(job, {"action": "pause"}, json)


@click.command()
@click.argument("job", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@click.option("--detach", "-d", is_flag=True, help="Of a pipeline: return at once.")
@as_json
def resume(job: str, detach: bool, json: bool) -> int:
    """Let a paused search go on, or do what is missing in a pipeline.

    What completed in a pipeline is not done again. What failed, was cancelled or was given up for that is, with the
    same files and commands, under the same job.
    """
    from turnout.cli import pipelines, searches

    if pipelines.is_one(job):
        return pipelines.resume(job, detach=detach, json=json)
    searches.change(job, {"action": "resume"}, json)
    return 0


@click.command()
@click.argument("job", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@click.option("--runs", metavar="[+]N", help="Runs in all; +N = so many more.")
@click.option("--max-time", metavar="[+]TIME", help="Time from now on; +TIME = so much more than it had.")
@click.option("--concurrent", type=click.IntRange(min=0), help="Runs at once; 0 = as many as find room.")
@as_json
def extend(job: str, runs: str | None, max_time: str | None, concurrent: int | None, json: bool) -> None:
    """Change what a search may use, also of one that is over."""
    from turnout.cli import searches

    searches.change(job, searches.extension(runs, max_time, concurrent), json)


@click.command()
@click.argument("job", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@click.option("--last", type=click.IntRange(min=1), default=5, show_default=True, help="So many of them.")
@as_json
def best(job: str, last: int, json: bool) -> None:
    """Show the best runs of a search, the best first; with several objectives, those that none beats."""
    from turnout.cli import searches

    searches.best(job, last, json)
