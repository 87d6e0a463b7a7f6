"""Compute providers."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import Commands, as_json, names_of, paths


@click.group(cls=Commands)
def provider() -> None:
    """Compute providers: the code that starts agents somewhere."""


@provider.command("list")
@as_json
def provider_list(json: bool) -> None:
    """The providers that are installed, and those that your settings name by their path."""
    from turnout.cli import providing

    providing.show_all(json)


@provider.command("show")
@click.argument("name", shell_complete=names_of("providers"))
@as_json
def provider_show(name: str, json: bool) -> int:
    """What a provider can do, and which keys its targets take. One that is broken is shown with where it fails."""
    from turnout.cli import providing

    return providing.show(name, json)


@provider.command("test")
@click.argument("target", shell_complete=names_of("targets"))
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Make only this one; may be repeated.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Seconds that the place may take to start a launch, or to end one.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the report, as JSON, there.",
    shell_complete=paths(),
)
@as_json
def provider_test(target: str, checks: tuple[str, ...], patience: float, report: Path | None, json: bool) -> int:
    """Make the checks of the contract at a target of yours, with launches that do no work.

    Exits with 1 when one fails.
    """
    from turnout.cli import providing

    return providing.test(target, checks, patience, report, json)


@provider.command("new")
@click.argument("name")
@click.option("--batch", is_flag=True, help="Of a scheduler that is used by commands, as Slurm is.")
@click.option("--training-service", is_flag=True, help="A class that is NNI's TrainingService.")
@click.option("--job-type", is_flag=True, help="A class that is a Job of Metapipe's.")
@as_json
def provider_new(name: str, batch: bool, training_service: bool, job_type: bool, json: bool) -> None:
    """Write a package with a provider that works, and its tests, for you to change."""
    from turnout.cli import providing

    asked = {"batch": batch, "training-service": training_service, "job-type": job_type}
    chosen = [kind for kind, is_so in asked.items() if is_so]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    providing.new(name, chosen[0] if chosen else "plain", json)
