"""What searches found, out of turnout and into it."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, meant, names_of


@click.command()
@click.argument("job", metavar="JOB", callback=meant, shell_complete=names_of("jobs"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "tsv", "json"]),
    help="Default: by the ending of --output; else a table on a terminal, CSV elsewhere.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write this file, instead of showing it.")
@click.option(
    "--import", "import_", metavar="FILE", type=click.Path(path_type=Path), help="Bring in results of elsewhere."
)
@click.option(
    "--optuna", metavar="URL", help="Write them into a storage of Optuna: sqlite:///study.db, journal:///study.log."
)
@click.option("--study", metavar="NAME", help="With --optuna: the name of the study; default: the job.")
@as_json
def results(
    job: str,
    form: str | None,
    output: Path | None,
    import_: Path | None,
    optuna: str | None,
    study: str | None,
    json: bool,
) -> None:
    """Show what a search has tried: for each run its parameters, its results, when and where it ran.

    With --import, results from a CSV or JSON file, as this command or NNI writes them, become known to the search: its
    sampler learns from them, at once or when the search is extended. If one of them does not fit, none is taken. What
    was there before is not doubled, and neither is it with --optuna.
    """
    from turnout.cli import results as doing

    doing.results(job, doing.Asked(form=form, output=output, file=import_, optuna=optuna, study=study), json)
