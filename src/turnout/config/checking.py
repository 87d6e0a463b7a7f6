"""What single values cannot tell: names that lead nowhere, and entries that their provider would not understand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache, partial
from typing import Any

from turnout import registry
from turnout.config import by_path
from turnout.config.kinds import keys_of
from turnout.config.layers import Gathered
from turnout.config.problem import Problem, as_error
from turnout.config.reports import report_problems
from turnout.config.sections import ROOT, BoxSettings, Config, TargetSettings
from turnout.config.setting import Setting, Tree, walk
from turnout.config.shapes import shapes_of
from turnout.config.strays import strays
from turnout.errors import InvalidInput, NotFound, ProviderError
from turnout.model.likeness import instead_of

_SEE = "write what its provider takes, see `turnout config schema`"
#: The dataclass of a provider's own keys; None where it does not say, or is not known here.
SchemaOf = Callable[[str], type[Any] | None]


@cache
def published(name: str) -> type[Any] | None:
    """What the installed provider of that name says of its entries."""
    try:
        return registry.provider_class(name).Settings
    except (NotFound, ProviderError):
        return None


def check(gathered: Gathered, schema_of: SchemaOf = published) -> list[Problem]:
    """Everything that is wrong, in the order of files and lines."""
    config = ROOT.build(gathered.tree)
    tree = gathered.tree
    found = [*gathered.problems, *_references(tree, config), *_entries(tree, config, schema_of)]
    found += [*_code(tree), *report_problems(tree), *strays()]
    order = {str(path): number for number, path in enumerate(gathered.files)}
    return sorted(dict.fromkeys(found), key=lambda problem: _place(problem, order))


def checked(gathered: Gathered) -> Config:
    """The settings that hold, where entries that their provider would not understand are refused too. Where something
    is wrong in the files, everything is told, as `check` does."""
    if gathered.problems:
        raise as_error(check(gathered))
    config = gathered.config()
    if wrong := list(_entries(gathered.tree, config, published)):
        raise as_error(wrong)
    return config


def check_provider(name: str, config: Config) -> None:
    """NotFound when no compute provider of that name is installed here, and none is named by its path."""
    if name in config.providers.compute:
        return
    try:
        registry.provider_class(name)
    except NotFound as error:
        raise NotFound(error.message, hint=f"{error.hint}; give another --target, or install its package") from error


def _place(problem: Problem, order: Mapping[str, int]) -> tuple[int, int]:
    file, _, line = problem.where.rpartition(":")
    return order.get(file, len(order)), int(line) if line.isdigit() else 0


def _references(tree: Tree, config: Config) -> Iterator[Problem]:
    services = {*config.external_services, *config.providers.compute, *registry.provider_names()}
    for path, setting in walk(tree):
        known: Any = None
        match path:
            case ("general", "target"):
                known, kind = config.targets, "target or box"
            case ("compute-targets", _, "service"):
                known, kind = services, "service or provider"
            case ("compute-targets" | "boxes", _, "setup"):
                known, kind = config.setups, "setup"
            case ("xt-services", "storage" | "database" | "vault"):
                known, kind = config.external_services, "external service"
            case ("xt-services", "target"):
                known, kind = config.targets, "target or box"
        if known is not None and setting.value is not None and setting.value not in known:
            what = f"{'.'.join(path)}: no {kind} {setting.value!r}"
            yield Problem(str(setting.origin), what, instead_of(str(setting.value), known))
    yield from _needed(tree, "external-services", "type", "write the name of its provider, `type: NAME`")
    yield from _needed(tree, "boxes", "address", "write `address: HOST`")
    for name in config.boxes.keys() & config.compute_targets.keys():
        where = _where(_entry(tree, "boxes", name))
        yield Problem(where, f"boxes.{name}: there is a target of that name", "give one of them another name")


def _needed(tree: Tree, section: str, key: str, instead: str) -> Iterator[Problem]:
    entries = tree[section]
    assert isinstance(entries, dict)
    for name in entries:
        entry = _entry(tree, section, name)
        if key not in entry:
            yield Problem(_where(entry), f"{section}.{name}: no {key!r}", instead)


def _entry(tree: Tree, section: str, name: str) -> Tree:
    entries = tree[section]
    assert isinstance(entries, dict)
    entry = entries[name]
    assert isinstance(entry, dict)
    return entry


def _where(entry: Tree) -> str:
    """The place of an entry: that of the first value in it."""
    return next((str(setting.origin) for _, setting in walk(entry)), "settings")


def _entries(tree: Tree, config: Config, schema_of: SchemaOf) -> Iterator[Problem]:
    """The keys of services, targets and boxes that belong to a provider which says what it takes. What a class that is
    named by its path takes, it says when it is loaded."""
    schema_of = partial(_unless_by_path, config, schema_of)
    for name, service in config.external_services.items():
        path = f"external-services.{name}"
        yield from _own_keys(_entry(tree, "external-services", name), {"type"}, schema_of(service.type), path)
    for section, named, cls in (
        ("compute-targets", config.compute_targets, TargetSettings),
        ("boxes", {name: box.as_target() for name, box in config.boxes.items()}, BoxSettings),
    ):
        known = set(keys_of(cls))
        for name, target in named.items():
            entry, path = _entry(tree, section, name), f"{section}.{name}"
            schema = schema_of(config.provider_of(target))
            yield from _own_keys(entry, known, schema, path)
            yield from _missing(config.settings_of(target), schema, entry, path)
            for box in config.boxes_of(target):
                if box not in config.boxes:
                    yield Problem(_where(entry), f"{path}: no box {box!r}", instead_of(box, config.boxes))


def _unless_by_path(config: Config, schema_of: SchemaOf, name: str) -> type[Any] | None:
    return None if name in config.providers.compute else schema_of(name)


def _code(tree: Tree) -> Iterator[Problem]:
    """Classes that are named by a path where nothing is."""
    for found in (*by_path.named(tree, by_path.COMPUTE).values(), *by_path.named(tree, by_path.HP_SEARCH).values()):
        try:
            by_path.find_package(found)
        except InvalidInput as error:
            yield Problem(found.place, error.message.removeprefix(f"{found.place}: "), error.hint)


def _own_keys(entry: Tree, common: set[str], schema: type[Any] | None, path: str) -> Iterator[Problem]:
    if schema is None:
        return
    shapes = shapes_of(schema)
    for key, found in entry.items():
        if key in common:
            continue
        if key not in shapes:
            where = str(found.origin) if isinstance(found, Setting) else _where(found)
            yield Problem(where, f"unknown key {key!r} in {path}", instead_of(key, {*shapes, *common}))
        elif isinstance(found, Setting) and not shapes[key].fits(found.value):
            what = f"{path}.{key}: expected {shapes[key].words}, found {found.value!r}"
            is_number = str in shapes[key].types and isinstance(found.value, (int, float))
            instead = f'write it in quotes, "{found.value}"' if is_number else _SEE
            yield Problem(str(found.origin), what, instead)


def _missing(given: Mapping[str, object], schema: type[Any] | None, entry: Tree, path: str) -> Iterator[Problem]:
    for each in fields(schema) if schema is not None else ():
        key = each.name.replace("_", "-")
        if each.default is MISSING and each.default_factory is MISSING and key not in given:
            yield Problem(_where(entry), f"{path}: no {key!r}, which its provider needs", f"write `{key}: …`")
