"""Submitting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from turnout.cli.commands.searched import search_options
from turnout.cli.commands.surroundings import surroundings
from turnout.cli.options import as_json, freezing, names_of, paths


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument(
    "command", nargs=-1, metavar="SCRIPT-or-COMMAND [ARGS]...", type=click.UNPROCESSED, shell_complete=paths()
)
@click.option("--target", shell_complete=names_of("targets"), help="Where to run.")
@click.option("--experiment", shell_complete=names_of("experiments"), help="The experiment it belongs to.")
@click.option("--workspace", shell_complete=names_of("workspaces"), help="The workspace of the experiment.")
@click.option("--name", help="A name of your own for it, to be used like run12.")
@click.option("--tag", "tags", multiple=True, metavar="K=V", help="Tag the runs.")
@click.option("--env", multiple=True, metavar="K=V", help="Set an environment variable.")
@click.option("--cpus", type=click.IntRange(min=1), help="Processors one run needs.")
@click.option("--memory", metavar="SIZE", help="Memory one run may use: 500M, 4G.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs one run needs.")
@click.option("--gpu-memory", metavar="SIZE", help="Memory it needs on each GPU: 20G.")
@click.option("--time", metavar="TIME", help="Time limit: 90s, 15m, 2h, 1:30:00.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    help="Seconds between SIGTERM and SIGKILL when it is ended; 10 where the settings do not say.",
)
@click.option("--retry", metavar="N|never", help="Further attempts after a failure of its own; never = at most once.")
@click.option("--priority", type=int, default=0, help="Higher goes first.")
@click.option(
    "--runs", type=click.IntRange(min=1), help="Run the same command so many times in all, as children run5.1 …"
)
@click.option(
    "--repeat", type=click.IntRange(min=1), help="The same for each node: so many children of each outer run."
)
@click.option("--nodes", type=click.IntRange(min=1), help="On so many nodes of its own, with an outer run for each.")
@click.option(
    "--schedule",
    type=click.Choice(["dynamic", "static"]),
    show_default="dynamic",
    help="With --nodes and --runs: the first free node takes the next child, or each has its share beforehand.",
)
@click.option(
    "--parent-script",
    metavar="SCRIPT",
    shell_complete=paths(),
    help="Run this once on each node, before the children there.",
)
@click.option("--keep-node", is_flag=True, help="Let the node stay, with the run's directory, until it is released.")
@click.option("--direct-run", is_flag=True, help="Start each run by itself, with a node to itself.")
@click.option("--held", is_flag=True, help="Submit, but wait for `turnout release`.")
@click.option(
    "--notify", metavar="bell|COMMAND", help="When it is over: ring, or run this with the job as JSON on its input."
)
@click.option("--multi", type=click.Path(path_type=Path), metavar="FILE", help="One run per line of FILE.")
@click.option("--concurrent", type=click.IntRange(min=1), help="At most so many at once per node; of a search, in all.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--wait", is_flag=True, help="Exit with the run's own code.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would happen; change nothing.")
@freezing
@search_options
@surroundings
@as_json
def run(detach: bool, wait: bool, dry_run: bool, json: bool, **options: Any) -> int:
    """Run a script (.sh), a Python file (.py) or any command.

    The files of the current directory are frozen first, so that what is queued is what you see now. In the foreground,
    output is shown until the run is over; Ctrl-C detaches, and the run goes on.
    """
    from turnout.cli import submit

    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    return submit.run(submit.Asked(**options), how)
