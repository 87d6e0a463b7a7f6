"""Settings: built-in defaults < the user's file < the environment. Each file is a YAML mapping of sections.

The hub reads ``TURNOUT_HOME/config.yaml``; the client reads ``turnout.yaml``, found from the working directory upwards.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnout.errors import InvalidInput

PROJECT_FILE = "turnout.yaml"
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class General:
    workspace: str = "default"
    experiment: str = "default"
    target: str = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Limits of a snapshot, in bytes and files."""

    max_file_size: int = 256 << 20
    max_size: int = 4 << 30
    max_files: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """`lease`: seconds of silence after which an agent's runs may go elsewhere.

    `idle`: seconds without anything to do after which the hub stops itself; `agent_idle` likewise for an agent.
    """

    lease: float = 30.0
    idle: float = 900.0
    agent_idle: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSettings:
    """`max_size`: bytes that all kept files together may take; None = as the disk has room."""

    max_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """One compute target. `max_runs` at once per node; None = as many as it has processors."""

    service: str = "local"
    max_runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    general: General = field(default_factory=General)
    code: Code = field(default_factory=Code)
    hub: HubSettings = field(default_factory=HubSettings)
    blobs: BlobSettings = field(default_factory=BlobSettings)
    targets: Mapping[str, TargetSettings] = field(default_factory=lambda: {"local": TargetSettings()})


_SECTIONS: dict[str, type[Any]] = {"general": General, "code": Code, "hub": HubSettings, "blobs": BlobSettings}
_WORDS = {int: "a whole number", float: "a number", str: "text"}
_ENVIRONMENT: dict[str, tuple[str, str, type[Any]]] = {
    "TURNOUT_LEASE": ("hub", "lease", float),
    "TURNOUT_IDLE": ("hub", "idle", float),
    "TURNOUT_WORKSPACE": ("general", "workspace", str),
    "TURNOUT_EXPERIMENT": ("general", "experiment", str),
    "TURNOUT_TARGET": ("general", "target", str),
}


def load(path: Path | None) -> Config:
    """Defaults, that file if there is one, the environment. InvalidInput names file and key of what is wrong."""
    raw = read_yaml(path) if path is not None and path.exists() else {}
    where = str(path)
    for name in raw:
        _known(name, [*_SECTIONS, "compute-targets"], where)
    values = {name: _section(kind, raw.get(name) or {}, f"{where}: {name}") for name, kind in _SECTIONS.items()}
    targets = {"local": TargetSettings()}
    for name, entry in _mapping(raw.get("compute-targets") or {}, where).items():
        targets[str(name)] = _section(TargetSettings, entry or {}, f"{where}: compute-targets: {name}")
    return _with_environment(Config(targets=targets, **values))


def find_project_file(start: Path) -> Path | None:
    """The nearest ``turnout.yaml`` in `start` or above it."""
    for directory in (start, *start.parents):
        if (directory / PROJECT_FILE).is_file():
            return directory / PROJECT_FILE
    return None


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping, from plain YAML: no tags that make objects, no aliases (they can blow up), at most a megabyte."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
            return super().compose_node(parent, index)

    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InvalidInput(f"{path} is over 1 MB", hint="this does not look like a configuration")
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise InvalidInput(
            f"{path}{line}: {problem}", hint="it holds plain names and values: no tags, no aliases"
        ) from error
    return _mapping(content or {}, str(path))


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected names and values, found {type(value).__name__}")
    return value


def _section(kind: type[Any], entry: Any, where: str) -> Any:
    types = {name.replace("_", "-"): name for name in kind.__dataclass_fields__}
    default = kind()
    values: dict[str, Any] = {}
    for key, value in _mapping(entry, where).items():
        _known(key, types, where)
        name = types[key]
        values[name] = _typed(value, kind.__dataclass_fields__[name].type, getattr(default, name), f"{where}: {key}")
    return kind(**values)


def _typed(value: Any, annotation: Any, default: Any, where: str) -> Any:
    wanted = int if "int" in str(annotation) else type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise InvalidInput(f"{where}: expected {_WORDS[wanted]}, found {value!r}", hint=f"the default is {default}")
    return _above_zero(value, where)


def _above_zero(value: Any, where: str) -> Any:
    """Every number here is a limit or a span of time; one that is not above zero (or not a number) means nothing."""
    if not isinstance(value, str) and not 0 < value < math.inf:
        raise InvalidInput(f"{where}: {value} is not above zero", hint="leave it out for the default")
    return value


def _known(name: Any, names: Any, where: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(str(name), list(names), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(names))}"
        raise InvalidInput(f"{where}: unknown key {name!r}", hint=hint)


def _with_environment(config: Config) -> Config:
    values: dict[str, Any] = {name: getattr(config, name) for name in _SECTIONS}
    for variable, (section, name, kind) in _ENVIRONMENT.items():
        text = os.environ.get(variable)
        if not text:
            continue
        try:
            fields = {key: getattr(values[section], key) for key in values[section].__dataclass_fields__}
            values[section] = type(values[section])(**{**fields, name: _above_zero(kind(text), variable)})
        except ValueError as error:
            raise InvalidInput(
                f"{variable}={text!r} is not {_WORDS[kind]}", hint=f"unset {variable}, or set it right"
            ) from error
    return Config(targets=config.targets, **values)
