"""A search, or any job, as a file has it: the command, the options of ``turnout run``, and the block ``search:``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from turnout.client import ask, searching
from turnout.client.preparing import Wish
from turnout.client.searching import SearchWish
from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.model.spec import UNMANAGED, Resources
from turnout.plugin.space import Space
from turnout.search.spaces import read_space
from turnout.search.spaces.checking import is_number

JOB_KEYS = (
    "command", "target", "experiment", "workspace", "name", "tags", "env", "cpus", "memory", "gpus", "gpu-memory",
    "time", "grace", "retry", "priority", "concurrent", "setup", "docker", "working-dir", "code", "notify", "search",
    "max-runs-per-gpu", "avoid-foreign-gpus", "gpu-indices",
)  # fmt: skip
_SEARCH = (
    "space", "hp-config", "sampler", "stopper", "minimize", "maximize", "of", "runs", "max-time", "seed", "prefix",
    "max-failures", "static",
)  # fmt: skip
T = TypeVar("T")
_OF = ("last", "min", "max")
_LONGEST = 60  # of what is shown of a value that is none
_LONGEST_PATH = 200


@dataclass(frozen=True, slots=True)
class JobFile:
    """What a file asks for; `code` is the directory to freeze, None = where the user is."""

    wish: Wish
    code: Path | None


def from_file(content: Mapping[str, Any], path: Path, command: tuple[str, ...] = ()) -> JobFile:
    """What the file `path` has; `command` takes the place of its own. InvalidInput names file and key."""
    try:
        return from_mapping(content, path.parent, command)
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error.message}", hint=error.hint) from error


def from_mapping(content: Mapping[str, Any], directory: Path, command: tuple[str, ...] = ()) -> JobFile:
    if not set(content) & {"search", "command"}:  # nothing but a space
        return JobFile(Wish(command=command, search=SearchWish(space=read_space(content))), None)
    _check_names(content, JOB_KEYS, "")
    block = content.get("search")
    wish = _options(content, command)
    if block is not None:
        if not isinstance(block, dict):
            raise InvalidInput("search: is no block of names and values", hint="write `space:` and more below it")
        _check_names(block, _SEARCH, "search.")
        wish = replace(wish, search=_search(block, directory))
    return JobFile(wish, _code(content, directory))


def _code(content: Mapping[str, Any], directory: Path) -> Path:
    text = _text(content, "code") or "."
    try:
        found = (directory / text).resolve()
        if found.is_dir():
            return found
    except (OSError, ValueError):  # it can be no path
        pass
    what = f"code: there is no directory {str(directory / text)[:_LONGEST_PATH]!r}"
    raise InvalidInput(what, hint="it is looked for from where the file is")


def _options(content: Mapping[str, Any], command: tuple[str, ...]) -> Wish:
    targets = [each.strip() for each in _texts(content, "target")]
    targets = [name for each in targets for name in each.split(",") if name]
    sees_gpus = content.get("gpus") == UNMANAGED
    return Wish(
        command=command or _command(content.get("command")),
        target=targets[0] if targets else None, also=tuple(targets[1:]),
        experiment=_text(content, "experiment"), workspace=_text(content, "workspace"), name=_text(content, "name"),
        tags=_pairs(content, "tags"), env=_pairs(content, "env"), setup=_text(content, "setup"),
        docker=_text(content, "docker"), working_dir=_text(content, "working-dir"), notify=_text(content, "notify"),
        grace=_number(content, "grace"), priority=_whole(content, "priority", least=None) or 0,
        retry=_as(ask.retry, content, "retry"),
        concurrent=_whole(content, "concurrent"), terms=_terms(content),
        resources=Resources(
            cpus=_whole(content, "cpus"), gpus=None if sees_gpus else _whole(content, "gpus", least=0),
            sees_gpus=sees_gpus or None,
            memory=_as(ask.size, content, "memory"), gpu_memory=_as(ask.size, content, "gpu-memory"),
            seconds=_as(ask.seconds, content, "time"),
        ),
    )  # fmt: skip


def _terms(content: Mapping[str, Any]) -> dict[str, Any]:
    """What of the settings of its targets is different for this job."""
    found: dict[str, Any] = {}
    if content.get("max-runs-per-gpu") is not None:
        found["max_runs_per_gpu"] = _whole(content, "max-runs-per-gpu")
    if content.get("avoid-foreign-gpus") is not None:
        found["avoid_foreign_gpus"] = _is_on(content, "avoid-foreign-gpus")
    indices = content.get("gpu-indices")
    if indices is not None:
        if not isinstance(indices, list) or not all(type(each) is int and each >= 0 for each in indices):
            raise InvalidInput("gpu-indices are no numbers of GPUs", hint="write `gpu-indices: [0, 1]`")
        found["gpu_indices"] = tuple(indices)
    return found


def _search(block: Mapping[str, Any], directory: Path) -> SearchWish:
    sampler, sampler_options = _named(block, "sampler")
    stopper, stopper_options = _named(block, "stopper")
    of = _text(block, "of") or "last"
    if of not in _OF:
        raise InvalidInput(f"search.of: {of!r} is none of {', '.join(_OF)}", hint="leave it out for the last value")
    space = block.get("space")
    if space is not None and not isinstance(space, dict):
        raise InvalidInput("search.space is no block of names and values", hint="write `lr: [0.1, 0.2]` below it")
    if space is not None:
        space = _read_space(space)
    time, hp_config = _text(block, "max-time"), _text(block, "hp-config")
    return SearchWish(
        space=space, hp_config=None if hp_config is None else str(directory / hp_config), sampler=sampler,
        sampler_options=sampler_options,
        stopper=stopper, stopper_options=stopper_options, minimize=_texts(block, "minimize"),
        maximize=_texts(block, "maximize"), of=of, runs=_whole(block, "runs"),
        seconds=searching.seconds(time, "search.max-time") if time is not None else None,
        seed=_whole(block, "seed", least=None), prefix=_prefix(block),
        failures=_whole(block, "max-failures", least=0), whole=_is_on(block, "static"),
    )  # fmt: skip


def _read_space(space: Mapping[str, Any]) -> Space:
    try:
        return read_space(space)
    except InvalidInput as error:
        raise InvalidInput(f"search.space: {error.message}", hint=error.hint) from error


def _prefix(block: Mapping[str, Any]) -> str | None:
    if "prefix" in block and block["prefix"] in (None, False):
        return searching.NO_PREFIX
    return _text(block, "prefix")


def _named(block: Mapping[str, Any], key: str) -> tuple[str | None, dict[str, Any]]:
    """``median``, or ``{name: median, start: 5}``."""
    value = block.get(key)
    if value is None or isinstance(value, str):
        return value, {}
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InvalidInput(
            f"search.{key} is no name", hint=f"write `{key}: NAME`, or `name: NAME` and options below it"
        )
    return value["name"], {str(name): each for name, each in value.items() if name != "name"}


def _command(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(_as_text("command", each) for each in value)
    try:
        return tuple(shlex.split(_as_text("command", value)))
    except ValueError as error:
        raise InvalidInput(f"command: {str(error).lower()}", hint="quote it as in a shell") from error


def _check_names(content: Mapping[Any, Any], known: Sequence[str], above: str) -> None:
    for name in content:
        if name not in known:
            near = nearest(str(name), known)
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(known)}"
            raise InvalidInput(f"nothing is called {above}{name}", hint=hint)


def _is_on(content: Mapping[str, Any], key: str) -> bool | None:
    value = content.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{key}: {value!r} is neither true nor false", hint=f"write `{key}: true`")
    return value


def _as(read: Callable[[str], T], content: Mapping[str, Any], key: str) -> T | None:
    text = _text(content, key)
    return None if text is None else read(text)


def _text(content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    return None if value is None else _as_text(key, value)


def _texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key)
    if value is None:
        return ()
    return tuple(_as_text(key, each) for each in (value if isinstance(value, list) else [value]))


def _pairs(content: Mapping[str, Any], key: str) -> dict[str, str]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{key} are no names and values", hint="write `NAME: VALUE` below it")
    return {_as_text(key, name): _as_text(f"{key}.{name}", each) for name, each in value.items()}


def _as_text(key: str, value: Any) -> str:
    """Numbers and dates as they are written; what YAML makes of ``yes`` or of nothing is no text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        is_word = isinstance(value, bool) or value is None
        shown = json.dumps(value) if is_word else repr(value)[:_LONGEST]
        raise InvalidInput(f"{key}: {shown} is no text", hint="put it in quotes" if is_word else f"write `{key}: TEXT`")
    return str(value)


def _number(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is not None and not is_number(value):
        raise InvalidInput(f"{key}: {str(value)[:_LONGEST]} is no number", hint=f"write `{key}: 1`")
    return value


def _whole(content: Mapping[str, Any], key: str, *, least: int | None = 1) -> int | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        what = "a whole number" if least is None else f"a whole number, {least} or more"
        raise InvalidInput(f"{key}: {value!r} is not {what}", hint=f"write `{key}: {least or 1}`")
    return value
