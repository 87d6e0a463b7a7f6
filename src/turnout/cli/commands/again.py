"""Running what ran before."""

from __future__ import annotations

from collections.abc import Sequence

import click

from turnout.cli.options import HELP, as_json, meant, names_of, paths, run_name


class Rerun(click.Command):
    """Takes its own options on both sides of the run's name; what follows belongs to the run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, rest = self.split(args)
        return super().parse_args(ctx, [*own, *rest])

    def split(self, args: Sequence[str]) -> tuple[list[str], list[str]]:
        """Options of ours with their values; and the name, with all that is the run's: from ``--`` (which goes), or
        from the first word on that is no option of ours."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        needs_value = {word: not each.is_flag for each in options for word in each.opts} | dict.fromkeys(HELP, False)
        own: list[str] = []
        name: list[str] = []
        rest = list(args)
        while rest:
            option, equals, _ = rest[0].partition("=")
            if option in needs_value:
                count = 2 if needs_value[option] and not equals else 1
                if len(rest) < count:
                    return [*own, option], []  # nothing follows, so that click says what is missing
                own += rest[:count]
                del rest[:count]
            elif name or option.startswith("-"):
                break
            else:
                name.append(rest.pop(0))
        if name and rest[:1] == ["--"]:
            del rest[0]
        return own, name + rest


@click.command(cls=Rerun, context_settings={"allow_interspersed_args": False})
@run_name
@click.argument("arguments", nargs=-1, metavar="[NEW-ARGS]...", type=click.UNPROCESSED, shell_complete=paths())
@click.option("--edit", is_flag=True, help="Open the command in your editor first.")
@click.option("--target", shell_complete=names_of("targets"), help="Run it elsewhere than the first time.")
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

    New arguments replace the old ones. The environment is today's: values are never kept for this. Options stand before
    the new arguments; behind -- everything is an argument.
    """
    from turnout.cli import again, submit

    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    return again.rerun(name, list(arguments), again.Asked(edit=edit, target=target, env=env), how)


@click.command()
@click.argument("name", metavar="NODE|RUN", callback=meant, shell_complete=names_of("runs", "nodes"))
@as_json
def restart(name: str, json: bool) -> None:
    """End what runs there as if the node had been taken away: it is tried again.

    The next attempt finds what this one left in its output directory, and `turnout.is_restart()` is true in it.
    """
    from turnout.cli import again

    again.restart(name, json)
