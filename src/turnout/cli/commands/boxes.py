"""Machines that ssh reaches."""

from __future__ import annotations

import click

from turnout.cli.options import Commands, as_json, names_of


@click.group(cls=Commands)
def box() -> None:
    """Machines that ssh reaches, each a target by its name."""


@box.command("list")
@as_json
def box_list(json: bool) -> None:
    """The boxes that your settings name, with what goes on there."""
    from turnout.cli import boxes

    boxes.show(json)


@box.command("add")
@click.argument("name")
@click.argument("address", metavar="[USER@]HOST")
@click.option("--port", type=click.IntRange(1, 65535), help="The port of its ssh server.")
@click.option("--max-runs", type=click.IntRange(min=1), help="Runs at once; without it, as many as it has processors.")
@click.option("--python", metavar="PATH", help="The Python that agents start with there.")
@click.option(
    "--ssh-option",
    "ssh_options",
    multiple=True,
    metavar="WORD",
    help="A further argument of ssh, as in --ssh-option=-i --ssh-option=KEY.",
)
@click.option("--password-secret", metavar="NAME", help="The secret that is the password there.")
@click.option("--passphrase-secret", metavar="NAME", help="The secret that opens the key with which you log in there.")
@click.option("--yes", "-y", is_flag=True, help="Believe the key that it shows.")
@click.option("--fingerprint", metavar="SHA256:…", help="Believe its key if it is this one, and no other.")
@as_json
def box_add(
    name: str, address: str, port: int | None, max_runs: int | None, python: str | None, ssh_options: tuple[str, ...],
    password_secret: str | None, passphrase_secret: str | None, yes: bool, fingerprint: str | None, json: bool,
) -> None:  # fmt: skip
    """Take a machine into your settings, once it is seen to work.

    Shows the key of a machine that is not known yet, and asks whether it is the right one. Keep what opens it by
    `turnout secret set NAME` before.
    """
    from turnout.cli import boxes

    wanted = {
        "port": port, "max_runs": max_runs, "python": python, "ssh_options": ssh_options,
        "password": boxes.reference(password_secret), "passphrase": boxes.reference(passphrase_secret),
    }  # fmt: skip
    boxes.add(name, address, wanted, boxes.Trust(yes=yes, fingerprint=fingerprint), json)


@box.command("remove")
@click.argument("name", metavar="BOX", shell_complete=names_of("boxes"))
@click.option("--force", is_flag=True, help="Cancel what runs there, and remove it also when it cannot be reached.")
@as_json
def box_remove(name: str, force: bool, json: bool) -> None:
    """Take a machine out of your settings, and what is turnout's off the machine."""
    from turnout.cli import boxes

    boxes.remove(name, force, json)


@box.command("doctor")
@click.argument("names", nargs=-1, metavar="[BOX]...", shell_complete=names_of("boxes"))
@as_json
def box_doctor(names: tuple[str, ...], json: bool) -> int:
    """Look whether boxes can be used, and say what to do where one cannot."""
    from turnout.cli import boxes

    return boxes.doctor(names, json)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", metavar="BOX", shell_complete=names_of("boxes", "nodes"))
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
@as_json
def ssh(name: str, command: tuple[str, ...], json: bool) -> int:
    """Log in to a box or a node of a pool, or run a command there.

    One word is a line for the shell over there; several are a program and its arguments, just as they are.
    """
    from turnout.cli import boxes

    return boxes.log_in(name, command, json)
