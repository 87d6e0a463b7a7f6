"""From what was typed, or written in a file, to the specification of a search."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from turnout.client.mapping_file import read_mapping as read_mapping
from turnout.client.yaml_text import read_yaml
from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.model.measures import parse_seconds
from turnout.model.search import FAILURES, Aim, Search
from turnout.model.spec import RunSpec
from turnout.plugin.space import Choice, Parameter, Space
from turnout.search.arguments import flat as flat
from turnout.search.spaces import from_plain, read_space, to_plain
from turnout.search.spaces.command_line import find_spaces
from turnout.search.spaces.grids import POINTS, Grid

#: Ours, and what people of other tools call them; capitals do not count.
_SAMPLERS = {
    **{name: name for name in ("random", "grid", "dgd", "tpe", "cmaes", "gp", "nsga2", "qmc", "batch")},
    "bayesian": "tpe", "gridsearch": "grid",
}  # fmt: skip
#: Samplers whose proposals come to an end.
_FINITE = ("grid", "batch")
#: What is written as a prefix where parameters are not to be appended to the command.
NO_PREFIX = "none"
_PREFIX = "--"
_OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w.@/-]*=(?P<values>.+)", re.DOTALL)
_FUNCTION = re.compile(r"(choice|range|interval|tag|int|float)\(.*\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWish:
    """What to vary and how. `space` as any of the readers of `turnout.search.spaces` takes it; what stands in the
    command itself, ``--lr=[.01, .03]``, is added to it. `hp_config` is a file, found from where the command would run.
    `prefix` of `NO_PREFIX` = parameters are not appended. None = nothing was said."""

    space: Mapping[str, Any] | Space | None = None
    hp_config: str | None = None
    sampler: str | None = None
    sampler_options: Mapping[str, Any] = field(default_factory=dict)
    stopper: str | None = None
    stopper_options: Mapping[str, Any] = field(default_factory=dict)
    minimize: Sequence[str] = ()
    maximize: Sequence[str] = ()
    of: str = "last"
    runs: int | None = None
    seconds: float | None = None
    seed: int | None = None
    prefix: str | None = None
    failures: int | None = None
    whole: bool | None = None


def specify(wish: SearchWish, run: RunSpec, cwd: Path) -> Search:
    """InvalidInput or NotFound, with what to write instead."""
    space, slots = _space(wish, run, cwd)
    aims = _aims(wish)
    sampler = sampler_named(wish.sampler or ("tpe" if aims else "random"))
    if wish.stopper is None and wish.stopper_options:
        name = next(iter(wish.stopper_options))
        raise InvalidInput(f"the option {name!r} is of a stopper, and there is none", hint="give --stopper NAME, too")
    if wish.runs is None and sampler not in _FINITE and (wish.seconds is None or wish.whole):
        what = "cannot be made at once: it has no end" if wish.whole else "goes on for ever"
        near = nearest(sampler, _FINITE)
        hint = "say --runs N" if wish.whole else "say --runs N or --max-time TIME; only a grid ends by itself"
        hint = hint if near is None else f"did you mean {near!r}? Else {hint}"
        raise InvalidInput(f"a search with {sampler!r} {what}", hint=hint)
    return Search(
        space=to_plain(space), sampler=sampler, sampler_options=_checked(wish.sampler_options, "sampler"),
        stopper=wish.stopper, stopper_options=_checked(wish.stopper_options, "stopper"), aims=aims, runs=wish.runs,
        seconds=wish.seconds,
        seed=0 if wish.seed is None else wish.seed, prefix=_prefix(wish), slots=slots,
        failures=FAILURES if wish.failures is None else wish.failures, whole=bool(wish.whole),
    )  # fmt: skip


def _checked(options: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """What JSON can hold: YAML makes dates of some texts."""
    for name, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"the option {name!r} of the {whose} is no text, number or list"
            raise InvalidInput(what, hint="put dates and the like in quotes") from error
    return dict(options)


def sampler_named(name: str) -> str:
    """What ours is called that was meant; others are called as they are."""
    return _SAMPLERS.get(name.lower(), name)


def _prefix(wish: SearchWish) -> str | None:
    prefix = _PREFIX if wish.prefix is None else wish.prefix
    return None if prefix == NO_PREFIX else prefix


def size(search: Search) -> int | None:
    """How many runs it will have; None = nobody knows yet."""
    if search.sampler != "grid":
        return search.runs
    points = search.sampler_options.get("points", POINTS)
    whole = Grid(from_plain(search.space), points if isinstance(points, int) and points > 0 else POINTS).size
    return min(search.runs or whole, whole)


def _space(wish: SearchWish, run: RunSpec, cwd: Path) -> tuple[dict[str, Parameter], dict[str, int]]:
    """All that varies, and where in the command it stands."""
    named: dict[str, Parameter] = {**_of_file(wish, cwd), **(read_space(wish.space) if wish.space else {})}
    in_command, slots = find_spaces(run.argv)
    if not named:  # else a comma in an argument is just that
        overrides, places = _overrides(run.argv)
        slots = {**places, **slots}
        in_command = {name: {**overrides, **in_command}[name] for name in sorted(slots, key=slots.__getitem__)}
    if not named and not in_command:
        hint = "give --hp-config FILE, or write values into the command: --lr=[.01,.03], or lr=.01,.03"
        raise InvalidInput("nothing to search: no parameter has several values", hint=hint)
    return {**named, **in_command}, slots


def _overrides(argv: Sequence[str]) -> tuple[dict[str, Parameter], dict[str, int]]:
    """Words of a command as Hydra has them, ``lr=0.1,0.2 width=range(1,5)``; those that do not vary are none."""
    space: dict[str, Parameter] = {}
    slots: dict[str, int] = {}
    for index, word in enumerate(argv):
        form = _OVERRIDE.fullmatch(word)
        if form is None:
            continue
        try:
            ((name, parameter),) = read_space([word]).items()
        except InvalidInput:
            if _FUNCTION.fullmatch(form["values"].strip()):
                raise
            continue
        if isinstance(parameter, Choice) and len(parameter.values) == 1:
            continue
        if name in space:
            raise InvalidInput(f"parameter {name!r}: it stands in the command twice", hint="write its values once")
        space[name], slots[name] = parameter, index
    return space, slots


def _aims(wish: SearchWish) -> tuple[Aim, ...]:
    metrics = [*wish.minimize, *wish.maximize]
    for metric in metrics:
        if not metric.strip():
            raise InvalidInput("an objective has no name", hint="write --minimize METRIC, as the runs log it")
        if metrics.count(metric) > 1:
            raise InvalidInput(f"{metric!r} is an objective twice", hint="minimize it, or maximize it, once")
    return (
        *(Aim(metric=metric, goal="minimize", of=wish.of) for metric in wish.minimize),
        *(Aim(metric=metric, goal="maximize", of=wish.of) for metric in wish.maximize),
    )


def _of_file(wish: SearchWish, cwd: Path) -> Space:
    if wish.hp_config is None:
        return {}
    path = cwd / wish.hp_config
    content = read_mapping(path)
    try:
        return read_space(content)
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error.message}", hint=error.hint) from error


def seconds(text: str, option: str) -> float:
    try:
        found = parse_seconds(text)
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InvalidInput(f"{option} {text[:40]!r} is not a time", hint="write 90s, 15m, 2h or 1:30:00")
    if found <= 0:
        raise InvalidInput(f"{option} {text!r} is nothing", hint=f"give more, or leave {option} out")
    return found


def options(texts: Sequence[str], option: str) -> dict[str, Any]:
    """``["start=5", "eta=3"]``, with values as YAML has them; `option` is what they were given to."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidInput(f"{option} {text!r} is no NAME=VALUE", hint=f"write {option} start=5")
        if name in found:
            raise InvalidInput(f"{option} has {name!r} twice", hint="leave one of them out")
        try:
            found[name] = read_yaml(value)
        except yaml.YAMLError:
            found[name] = value
    return found
