"""Options of ``run`` and ``search`` about what is searched, and how."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from turnout.cli.completing import names_of, paths

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option(
        "--hp-config", metavar="FILE", shell_complete=paths(),
        help="Search the parameters of this file: XT's, NNI's or our own form.",
    ),
    click.option("--search-type", metavar="NAME", shell_complete=names_of("samplers"),
                 help="Who proposes them: grid, random, dgd, bayesian (tpe), …"),
    click.option("--sampler-option", "sampler_options", multiple=True, metavar="K=V", help="An option of that one."),
    click.option("--minimize", multiple=True, metavar="METRIC", help="The metric to make small; may be repeated."),
    click.option("--maximize", multiple=True, metavar="METRIC", help="The metric to make large; may be repeated."),
    click.option("--stopper", metavar="NAME", shell_complete=names_of("stoppers"),
                 help="Who ends runs early: median, percentile, halving, patience, …"),
    click.option("--stopper-option", "stopper_options", multiple=True, metavar="K=V", help="An option of that one."),
    click.option("--max-time", metavar="TIME", help="How long the whole search may take, from when "
                 "it is submitted or released, also while it is paused: 90s, 15m, 2h."),
    click.option("--seed", type=int, help="The same seed proposes the same grid and random sequences."),
    click.option("--option-prefix", metavar="TEXT", help="What comes before a parameter's name behind the command, "
                 "-- where nothing is said; none = they are not appended."),
]  # fmt: skip


def search_options(function: F) -> F:
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), function)
