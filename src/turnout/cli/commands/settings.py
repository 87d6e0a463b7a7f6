"""Settings and secrets."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import Commands, as_json, names_of


@click.group(cls=Commands)
def config() -> None:
    """Settings: which hold, where they are from, and what is wrong with them."""


@config.command("show")
@click.argument("key", metavar="[SECTION[.KEY]]", required=False, shell_complete=names_of("settings"))
@click.option("--origin", is_flag=True, help="Tell where each value is from.")
@as_json
def config_show(key: str | None, origin: bool, json: bool) -> None:
    """Show the settings that hold here, or one section or key of them."""
    from turnout.cli import settings

    settings.show(key, origin, json)


@config.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json
def config_check(file: Path | None, json: bool) -> int:
    """List all that is wrong, a line each: where, what, and what to write instead.

    Without a FILE: your own file, the project's, and the environment.
    """
    from turnout.cli import settings

    return settings.check(file, json)


@config.command("init")
@click.option("--force", is_flag=True, help="Replace the one that is there; it is kept as turnout.yaml.old.")
@as_json
def config_init(force: bool, json: bool) -> None:
    """Write a turnout.yaml with comments into this directory."""
    from turnout.cli import settings

    settings.init(force, json)


@config.command("schema")
@as_json
def config_schema(json: bool) -> None:
    """Print the JSON schema of settings, for editors."""
    from turnout.cli import settings

    settings.schema()


@config.command("path")
@as_json
def config_path(json: bool) -> None:
    """Tell which files settings are read from."""
    from turnout.cli import settings

    settings.path(json)


@click.group(cls=Commands)
def secret() -> None:
    """Secrets, which settings and variables name as secret:NAME."""


@secret.command("set")
@click.argument("name", shell_complete=names_of("secrets"))
@click.option("--from-stdin", is_flag=True, help="Read the value from standard input instead of asking for it.")
@click.option("--keyring", is_flag=True, help="Keep it in the keyring of your system instead of in a file.")
@as_json
def secret_set(name: str, from_stdin: bool, keyring: bool, json: bool) -> None:
    """Keep a secret. Its value is asked for and not shown; it is never an argument."""
    from turnout.cli import settings

    settings.secret_set(name, from_stdin, keyring, json)


@secret.command("list")
@as_json
def secret_list(json: bool) -> None:
    """List the names of secrets and where each is; never values."""
    from turnout.cli import settings

    settings.secret_list(json)


@secret.command("remove")
@click.argument("name", shell_complete=names_of("secrets"))
@as_json
def secret_remove(name: str, json: bool) -> None:
    """Forget a secret."""
    from turnout.cli import settings

    settings.secret_remove(name, json)
