"""Putting files into named shares, and getting them out."""

from __future__ import annotations

from pathlib import Path

import click

from turnout.cli.options import as_json, names_of

share_option = click.option(
    "--share", required=True, metavar="NAME", help="The share.", shell_complete=names_of("shares")
)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@share_option
@click.option("--path", default="", metavar="SUB", help="Where in the share; default its top.")
@click.option("--omit", multiple=True, metavar="PATTERN", help="Leave out what matches, as in a .gitignore.")
@click.option(
    "--allow-secret", "allow_secrets", multiple=True, metavar="PATH", help="Take it although it looks secret."
)
@as_json
def upload(
    paths: tuple[Path, ...], share: str, path: str, omit: tuple[str, ...], allow_secrets: tuple[str, ...], json: bool
) -> None:
    """Put files, and all that directories hold, into a named share. It is made if it is new.

    What is there already under the same path is replaced, all in one step. Runs that were submitted before keep what
    they were bound to.
    """
    from turnout.cli import sharing

    sharing.upload(paths, share, path=path, omit=omit, allow_secrets=allow_secrets, json=json)


@click.command()
@share_option
@click.argument("words", nargs=-1, required=True, metavar="[PATTERN] DIR")
@as_json
def download(share: str, words: tuple[str, ...], json: bool) -> None:
    """Write the files of a share into a new or empty directory: all, those below a path, or those a glob matches."""
    from turnout.cli import sharing

    if len(words) > 2:
        raise click.UsageError("a pattern and a directory, and no more (quote the pattern)")
    sharing.download(share, words[0] if len(words) == 2 else None, Path(words[-1]), json)
