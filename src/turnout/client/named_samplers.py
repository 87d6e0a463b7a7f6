"""Samplers of the user's own that the settings name: ``providers: hp-search: {NAME: package.module.Class}``.

The hub takes such a class from the frozen files of its job, as one that is named by its path among them. Where its
package is not there, it is frozen as well, in a directory of its own; one that is installed is found as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from turnout import config as configuration
from turnout.client.layout import Layout
from turnout.client.searching import SearchWish
from turnout.config import by_path
from turnout.errors import InvalidInput
from turnout.model.spec import JobSpec
from turnout.snapshot import Joined, Part, Snapshot, join

_APART = ".sampler"


def by_its_path(wish: SearchWish, settings: configuration.Config) -> SearchWish:
    """The same, with the class in the place of the name that the settings give it."""
    found = named(wish, settings)
    return wish if found is None else replace(wish, sampler=_path(found))


def named(wish: SearchWish | None, settings: configuration.Config) -> by_path.Named | None:
    """The class that the settings name so; it stands before what is installed."""
    return None if wish is None or wish.sampler is None else settings.samplers.get(wish.sampler)


def check_frozen(found: by_path.Named) -> None:
    """Where nothing is frozen: InvalidInput for a class that is not installed."""
    if _own_package(found) is not None:
        what = f"{found.place}: {found.path} is among your files, and none is frozen"
        raise InvalidInput(what, hint="leave --no-snapshot out, or install its package")


def bring(
    found: by_path.Named, spec: JobSpec, layout: Layout, frozen: Joined, freeze: Callable[[Path], Snapshot]
) -> tuple[JobSpec, Joined]:
    """The specification and the files, with the class where the hub will look for it. `freeze` takes a directory or a
    file. InvalidInput when the class is nowhere."""
    package = _own_package(found)
    if package is None or spec.search is None:
        return spec, frozen
    directory = _inside(package, layout, frozen)
    if directory is None:
        directory = _APART
        place = f"{_APART}/{found.top}" if package.is_dir() else _APART
        frozen = join([*frozen.parts, Part(freeze(package), place)])
    sampler = f"{directory}/{_path(found)}" if directory else _path(found)
    return replace(spec, search=replace(spec.search, sampler=sampler)), frozen


def _own_package(found: by_path.Named) -> Path | None:
    """Its topmost package, a directory or a file; None where that is installed."""
    package = by_path.find_package(found)
    return package if str(package.parent) in found.python_path else None


def _inside(package: Path, layout: Layout, frozen: Joined) -> str | None:
    """The directory of the tree in which the package is; None = it is not frozen."""
    for each in layout.dirs:
        source = each.source.resolve()
        if package.resolve().is_relative_to(source):
            inside = PurePosixPath(each.place) / package.resolve().relative_to(source).as_posix()
            if any(entry.path == str(inside) or entry.path.startswith(f"{inside}/") for entry in frozen.entries):
                return "" if str(inside.parent) == "." else str(inside.parent)
    return None


def _path(found: by_path.Named) -> str:
    module, _, name = found.path.rpartition(".")
    return f"{module}:{name}"
