"""Code of the user's own that serves a target: where it is named, and its files where runs need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from turnout import config as configuration
from turnout.config.setting import Origin, Setting, Source, Tree, merge
from turnout.errors import InvalidInput, ProviderError
from turnout.snapshot import Joined, Part, Snapshot, join

View = dict[str, Any]


class Definer(Protocol):
    """Who knows targets; a Client is one."""

    def define_target(self, name: str, target: configuration.TargetSettings) -> View: ...


@dataclass(frozen=True, slots=True)
class OwnCode:
    """`place` is where the settings name the class; `part` is its package, where that is not among the frozen files and
    lies right below the project."""

    place: str
    part: Part | None = None

    def joined(self, frozen: Joined) -> Joined:
        """The frozen files with the package among them."""
        return frozen if self.part is None else join([*frozen.parts, self.part])


def with_class(gathered: configuration.Gathered, path: str, option: str) -> configuration.Gathered:
    """The settings in which the class of that path (``package.module.Class``) is a target by that name. It is looked
    for in the current directory first. InvalidInput when that is no path of a class."""
    if "." not in path or not all(part.isidentifier() for part in path.split(".")):
        raise InvalidInput(f"{option}: {path!r} is no path of a class", hint="write package.module.Class")
    said = Setting(path, Origin(Source.OPTION, option))
    added: Tree = {"providers": {"compute": {path: said}}, "compute-targets": {path: {"service": said}}}
    return configuration.Gathered(merge(gathered.tree, added), gathered.problems, gathered.files)


def named(provider: str, settings: configuration.Config) -> OwnCode | None:
    """Where the class that serves this provider is named; None where an installed one does."""
    found = settings.classes.get(provider)
    return None if found is None else OwnCode(found.place)


def find(
    provider: str, settings: configuration.Config, frozen: Joined, freeze: Callable[[Path], Snapshot]
) -> OwnCode | None:
    """The same, with the package of the class if it is not among the `frozen` files. `freeze` takes a directory,
    whatever is left out otherwise."""
    found = settings.classes.get(provider)
    if found is None:
        return None
    package = found.project / found.top
    if not package.is_dir() or any(each.path.startswith(f"{found.top}/") for each in frozen.entries):
        return OwnCode(found.place)
    return OwnCode(found.place, Part(freeze(package), found.top))


def define(hub: Definer, name: str, target: configuration.TargetSettings, own: OwnCode | None) -> View:
    """The place that the target is: ``{"place", "launches"}``. ProviderError, with where its class is named, when that
    cannot be used."""
    try:
        return hub.define_target(name, target)
    except ProviderError as error:
        if own is None:
            raise
        raise ProviderError(f"{own.place}: {error.message}", hint=error.hint) from error
