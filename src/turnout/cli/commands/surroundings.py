"""Options of ``run`` about what a run finds around it: code, data, model, what is installed, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from turnout.cli.completing import names_of, paths

F = TypeVar("F", bound=Callable[..., Any])
_ACTIONS = click.Choice(["none", "download", "mount"])


def _inputs(kind: str) -> list[Callable[[Any], Any]]:
    found = f"the run finds it in TURNOUT_{kind.upper()}_DIR"
    return [
        click.option(
            f"--{kind}", metavar="SHARE[/PATH]", help=f"The {kind}; {found}.", shell_complete=names_of("shares")
        ),
        click.option(
            f"--{kind}-action", type=_ACTIONS, help="A read-only view (mount, the default), a copy per run, or none."
        ),
        click.option(f"--{kind}-writable", is_flag=True, default=None, help="Let the run change its downloaded copy."),
        click.option(
            f"--{kind}-local",
            metavar="DIR",
            shell_complete=paths("dir"),
            help="With the action none: a directory that is there already.",
        ),
    ]


_OPTIONS = [
    click.option(
        "--setup", metavar="NAME", shell_complete=names_of("setups"),
        help="Install what this setup of turnout.yaml names, once per node.",
    ),
    click.option("--docker", metavar="IMAGE", help="Execute it in a container of this image; none = in no container."),
    *_inputs("data"),
    *_inputs("model"),
    click.option(
        "--code-dir", "code_dirs", multiple=True, metavar="DIR[::PLACE]",
        help="Freeze this directory instead of the current one; may be repeated.",
    ),
    click.option("--code-omit", multiple=True, metavar="PATTERN", help="Leave these files out, as in a .gitignore."),
    click.option("--working-dir", metavar="DIR", help="Where in the frozen files the run begins."),
    click.option("--after", multiple=True, metavar="PATTERN", help="Keep these files of the run; default output/**."),
    click.option("--after-omit", multiple=True, metavar="PATTERN", help="But not these."),
]  # fmt: skip


def surroundings(function: F) -> F:
    """Adds them, in this order."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), function)
