"""Running what ran before."""

from __future__ import annotations

import click

from turnout.cli.options import as_json, meant, names_of, run_name


@click.command(context_settings={"allow_interspersed_args": False})
@run_name
@click.argument("arguments", nargs=-1, metavar="[NEW-ARGS]...", type=click.UNPROCESSED)
@click.option("--edit", is_flag=True, help="Open the command in your editor first.")
@click.option("--target", help="Run it elsewhere than the first time.")
@click.option("--env", multiple=True, metavar="K=V", help="Set an environment variable.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--wait", is_flag=True, help="Exit with the run's own code.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would happen; change nothing.")
@as_json
def rerun(
    name: str,
    arguments: tuple[str, ...],
    edit: bool,
    target: str | None,
    env: tuple[str, ...],
    detach: bool,
    wait: bool,
    dry_run: bool,
    json: bool,
) -> int:
    """Run it again, with the files it was given then, not those of today.

    New arguments replace the old ones. The environment is today's: values are never kept for this. Options come before
    the name of the run.
    """
    from turnout.cli import again, submit

    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    return again.rerun(name, list(arguments), again.Asked(edit=edit, target=target, env=env), how)


@click.command()
@click.argument("name", metavar="NODE|RUN", callback=meant, shell_complete=names_of("runs"))
@as_json
def restart(name: str, json: bool) -> None:
    """End what runs there as if the node had been taken away: it is tried again.

    The next attempt finds what this one left in its output directory, and `turnout.is_restart()` is true in it.
    """
    from turnout.cli import again

    again.restart(name, json)
