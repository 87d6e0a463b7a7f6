"""From the path of a class to a provider: ours as it is, or one of another tool's interfaces with ours around it."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import turnout.errors
from turnout.compat.metapipe.adapter import MetapipeJobProvider
from turnout.compat.nni.adapter import TrainingServiceProvider
from turnout.compat.xt.adapter import XtProvider
from turnout.config import TargetSettings
from turnout.config.kinds import keys_of
from turnout.config.shapes import shapes_of
from turnout.model.likeness import instead_of
from turnout.plugin.foreign import Foreign
from turnout.plugin.provider import Capabilities, Failure, Provider
from turnout.plugin.remote import Description, Plugin
from turnout.plugin.telling import Telling

#: What a class may be instead of a Provider.
_ADAPTERS: tuple[type[XtProvider] | type[TrainingServiceProvider] | type[MetapipeJobProvider], ...] = (
    XtProvider, TrainingServiceProvider, MetapipeJobProvider,
)  # fmt: skip
#: The keys of any target and service.
_COMMON = frozenset({*keys_of(TargetSettings), "type"})
_OURS = str(Path(turnout.errors.__file__).parent) + os.sep
_IMPORTING = str(Path(importlib.__file__).parent) + os.sep


class Broken(Failure):
    """The class of a plugin cannot be used. It never will be, as it is: its code has to be changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="rejected")


def make(plugin: Plugin) -> Provider:
    """An instance of the plugin's class, as a provider. Broken tells why there is none; what was raised by the class
    itself is its cause."""
    found = _load(plugin.path)
    if isinstance(found, type) and issubclass(found, Provider):
        lacking = sorted(getattr(found, "__abstractmethods__", ()))
        lacking += [name for name in ("name", "capabilities") if not hasattr(found, name)]
        if lacking:
            raise Broken(f"{plugin.path} is a Provider without {', '.join(lacking)}")
        if not isinstance(found.capabilities, Capabilities):
            raise Broken(f"capabilities of {plugin.path} is no Capabilities")
        _check_settings(found, plugin)
        return _construct(plugin, lambda: found(plugin.settings))
    adapter = min(_ADAPTERS, key=lambda each: len(each.lacking(found)) / len(each.METHODS))
    lacking = adapter.lacking(found)
    if not lacking:
        return _construct(plugin, lambda: adapter.around(found, plugin))
    if len(lacking) < len(adapter.METHODS):
        raise Broken(f"{plugin.path} has not all methods of {adapter.INTERFACE}: {', '.join(lacking)}")
    known = ", ".join(adapter.INTERFACE for adapter in _ADAPTERS)
    raise Broken(f"{plugin.path} is neither a subclass of turnout.plugin.provider.Provider, nor has it the methods of "
                 f"{known}")  # fmt: skip


def describe(provider: Provider) -> Description:
    return Description(
        name=provider.name, capabilities=provider.capabilities,
        seats={seat: provider.seat_max_runs(seat) for seat in provider.seats()}, foreign=isinstance(provider, Foreign),
        telling=isinstance(provider, Telling),
    )  # fmt: skip


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        loaded = import_module(module)
    except BaseException as error:
        raise Broken(f"{module} cannot be imported: {_said(error)}") from error
    try:
        return getattr(loaded, name)
    except AttributeError as error:
        where = getattr(loaded, "__file__", None) or module
        raise Broken(f"there is no class {name} in {where}") from error


def _check_settings(found: type[Provider], plugin: Plugin) -> None:
    """The keys of the target and its service that are the provider's own, against those it says it takes."""
    if found.Settings is None:
        return
    if not is_dataclass(found.Settings):
        raise Broken(f"Settings of {plugin.path} is no dataclass")
    shapes = shapes_of(found.Settings)
    own = {key: each for key, each in plugin.settings.items() if key in plugin.definition and key not in _COMMON}
    for key, value in own.items():
        if key not in shapes:
            raise Broken(f"unknown key {key!r} of target {plugin.target}; {instead_of(key, shapes)}")
        if not shapes[key].fits(value):
            raise Broken(f"{key} of target {plugin.target}: expected {shapes[key].words}, found {value!r}")
    for each in fields(found.Settings):
        key = each.name.replace("_", "-")
        if each.default is MISSING and each.default_factory is MISSING and key not in own:
            raise Broken(f"target {plugin.target} has no {key!r}, which its provider needs")


def _construct(plugin: Plugin, construct: Callable[[], Provider]) -> Provider:
    try:
        return construct()
    except Broken:
        raise
    except BaseException as error:
        raise Broken(f"{plugin.path} cannot be made: {_said(error)}") from error


def _said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().rpartition("\n")[2]


def trace_of(error: BaseException) -> str:
    """The traceback as far as it is not ours: what the author of a plugin can do something about. Empty if it has
    nothing to do with the plugin's code."""
    told = _own_part(error)
    if not told.stack and not isinstance(error.__cause__, SyntaxError):
        return ""
    return "".join(told.format(chain=False)).rstrip()


def place_of(error: BaseException) -> str:
    """File and line of the plugin's code where it was raised; empty if it was not there."""
    stack = _own_part(error).stack
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def _own_part(error: BaseException) -> traceback.TracebackException:
    told = traceback.TracebackException.from_exception(error.__cause__ or error)
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in told.stack if not frame.filename.startswith((_OURS, _IMPORTING, "<frozen "))]
    )
    return told
