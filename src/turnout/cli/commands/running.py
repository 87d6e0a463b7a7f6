"""Submitting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from turnout.cli.options import as_json


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="SCRIPT-or-COMMAND [ARGS]...", type=click.UNPROCESSED)
@click.option("--target", help="Where to run.")
@click.option("--experiment", help="The experiment it belongs to.")
@click.option("--workspace", help="The workspace of the experiment.")
@click.option("--name", help="A name of your own for it, to be used like run12.")
@click.option("--tag", "tags", multiple=True, metavar="K=V", help="Tag the runs.")
@click.option("--env", multiple=True, metavar="K=V", help="Set an environment variable.")
@click.option("--cpus", type=click.IntRange(min=1), help="Processors one run needs.")
@click.option("--memory", metavar="SIZE", help="Memory one run may use: 500M, 4G.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs one run needs.")
@click.option("--time", metavar="TIME", help="Time limit: 90s, 15m, 2h, 1:30:00.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds between SIGTERM and SIGKILL when it is ended.",
)
@click.option(
    "--retry", default="0", metavar="N|never", help="Further attempts after a failure of its own; never = at most once."
)
@click.option("--priority", type=int, default=0, help="Higher goes first.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=1, help="Run the same command so many times, as children run5.1 …"
)
@click.option("--multi", type=click.Path(path_type=Path), metavar="FILE", help="One run per line of FILE.")
@click.option("--concurrent", type=click.IntRange(min=1), help="At most so many at once per node.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--wait", is_flag=True, help="Exit with the run's own code.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would happen; change nothing.")
@click.option("--no-snapshot", is_flag=True, help="Freeze no files; the run begins in an empty directory.")
@click.option(
    "--allow-secret",
    "allow_secrets",
    multiple=True,
    metavar="PATH",
    help="Take this file although it looks like a secret.",
)
@as_json
def run(detach: bool, wait: bool, dry_run: bool, json: bool, **options: Any) -> int:
    """Run a script (.sh), a Python file (.py) or any command.

    The files of the current directory are frozen first, so that what is queued is what you see now. In the foreground,
    output is shown until the run is over; Ctrl-C detaches, and the run goes on.
    """
    from turnout.cli import submit

    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    return submit.run(submit.Asked(**options), how)
