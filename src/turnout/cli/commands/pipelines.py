"""Pipelines: submitting one, and looking at it before."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, freezing, meant, names_of, paths


@click.command()
@click.argument("file", type=click.Path(path_type=Path), shell_complete=paths())
@click.option("--target", shell_complete=names_of("targets"), help="Where steps run that do not say it themselves.")
@click.option("--job-type", metavar="CLASS", help="A class of yours that runs them, by its path: package.module.Class.")
@click.option("--queue", metavar="CLASS", help="A class of yours that hears what becomes of its jobs, by its path.")
@click.option(
    "--shared",
    metavar="DIR",
    type=click.Path(path_type=Path),
    shell_complete=paths(),
    help="Do all of it in this directory, which all nodes see; nothing is copied.",
)
@click.option("--experiment", shell_complete=names_of("experiments"), help="The experiment it belongs to.")
@click.option("--name", help="A name of your own for it, to be used like job12.")
@click.option("--tag", "tags", multiple=True, metavar="K=V", help="Tag the runs.")
@click.option(
    "--resume",
    metavar="JOB",
    callback=meant,
    shell_complete=names_of("jobs"),
    help="Take over what completed in that pipeline and is asked for in the same way.",
)
@click.option("--fail-fast", is_flag=True, help="Let the first failure end all, and not only what depends on it.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and in which order; change nothing.")
@click.option(
    "--graph",
    type=click.Choice(["text", "dot", "svg"]),
    help="Write the graph of its steps to standard output, and do nothing else.",
)
@freezing
@as_json
def pipeline(file: Path, **options: object) -> int:
    """Run the steps of a file, each when what it needs is over.

    FILE has a block `pipeline:`, or is one of Metapipe's (.mp). Exits with 1 if a step failed. Ctrl-C detaches, and the
    pipeline goes on.
    """
    from turnout.cli import pipelines

    for one, other in (("target", "job_type"), ("queue", "detach")):
        if options[one] and options[other]:
            raise click.UsageError(f"--{one} and --{other.replace('_', '-')} exclude each other")
    return pipelines.submit(file, options)
