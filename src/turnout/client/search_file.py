"""A search, or any job, as a file has it: the command, the options of ``turnout run``, and the block ``search:``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from turnout.client import ask, searching
from turnout.client.preparing import Wish
from turnout.client.searching import SearchWish
from turnout.errors import InvalidInput
from turnout.model.spec import Resources
from turnout.plugin.space import Space
from turnout.search.spaces import read_space

_JOB = (
    "command", "target", "experiment", "workspace", "name", "tags", "env", "cpus", "memory", "gpus", "gpu-memory",
    "time", "grace", "retry", "priority", "concurrent", "setup", "docker", "working-dir", "code", "notify", "search",
    "max-runs-per-gpu", "avoid-foreign-gpus", "gpu-indices",
)  # fmt: skip
_SEARCH = (
    "space", "hp-config", "sampler", "stopper", "minimize", "maximize", "of", "runs", "max-time", "seed", "prefix",
    "max-failures", "static",
)  # fmt: skip
_OF = ("last", "min", "max")


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
    _check_names(content, _JOB, "")
    block = content.get("search")
    wish = _options(content, command)
    if block is not None:
        if not isinstance(block, dict):
            raise InvalidInput("search: is no block of names and values", hint="write `space:` and more below it")
        _check_names(block, _SEARCH, "search.")
        wish = replace(wish, search=_search(block, directory))
    return JobFile(wish, (directory / str(content.get("code", "."))).resolve())


def _options(content: Mapping[str, Any], command: tuple[str, ...]) -> Wish:
    targets = [each.strip() for each in _texts(content, "target")]
    targets = [name for each in targets for name in each.split(",") if name]
    return Wish(
        command=command or _command(content.get("command")),
        target=targets[0] if targets else None, also=tuple(targets[1:]),
        experiment=_text(content, "experiment"), workspace=_text(content, "workspace"), name=_text(content, "name"),
        tags=_pairs(content, "tags"), env=_pairs(content, "env"), setup=_text(content, "setup"),
        docker=_text(content, "docker"), working_dir=_text(content, "working-dir"), notify=_text(content, "notify"),
        grace=_number(content, "grace"), priority=int(_number(content, "priority") or 0),
        retry=ask.retry(str(content["retry"])) if content.get("retry") is not None else None,
        concurrent=_whole(content, "concurrent"), terms=_terms(content),
        resources=Resources(
            cpus=_whole(content, "cpus"), gpus=_whole(content, "gpus", least=0),
            memory=ask.size(str(content["memory"])) if content.get("memory") is not None else None,
            gpu_memory=ask.size(str(content["gpu-memory"])) if content.get("gpu-memory") is not None else None,
            seconds=ask.seconds(str(content["time"])) if content.get("time") is not None else None,
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
    of = str(block.get("of", "last"))
    if of not in _OF:
        raise InvalidInput(f"search.of: {of!r} is none of {', '.join(_OF)}", hint="leave it out for the last value")
    space = block.get("space")
    if space is not None and not isinstance(space, dict):
        raise InvalidInput("search.space is no block of names and values", hint="write `lr: [0.1, 0.2]` below it")
    if space is not None:
        space = _read_space(space)
    time, hp_config = block.get("max-time"), _text(block, "hp-config")
    return SearchWish(
        space=space, hp_config=None if hp_config is None else str(directory / hp_config), sampler=sampler,
        sampler_options=sampler_options,
        stopper=stopper, stopper_options=stopper_options, minimize=_texts(block, "minimize"),
        maximize=_texts(block, "maximize"), of=of, runs=_whole(block, "runs"),
        seconds=searching.seconds(str(time), "search.max-time") if time is not None else None,
        seed=_whole(block, "seed", least=None), prefix=_prefix(block),
        failures=_whole(block, "max-failures", least=0), whole=_is_on(block, "static"),
    )  # fmt: skip


def _read_space(space: Mapping[str, Any]) -> Space:
    try:
        return read_space(space)
    except InvalidInput as error:
        raise InvalidInput(f"search.space: {error.message}", hint=error.hint) from error


def _prefix(block: Mapping[str, Any]) -> str:
    value = block.get("prefix", "--")
    return searching.NO_PREFIX if value is None or value is False else str(value)


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
    if isinstance(value, list):
        return tuple(str(each) for each in value)
    try:
        return tuple(shlex.split(str(value))) if value is not None else ()
    except ValueError as error:
        raise InvalidInput(f"command: {str(error).lower()}", hint="quote it as in a shell") from error


def _check_names(content: Mapping[str, Any], known: Iterable[str], above: str) -> None:
    for name in content:
        if name not in known:
            near = get_close_matches(name, list(known), 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
            raise InvalidInput(f"nothing is called {above}{name}", hint=hint)


def _is_on(content: Mapping[str, Any], key: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"{key}: {value!r} is neither true nor false", hint=f"write `{key}: true`")
    return value


def _text(content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    if isinstance(value, (dict, list)):
        raise InvalidInput(f"{key} is no text", hint=f"write `{key}: TEXT`")
    return None if value is None else str(value)


def _texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key)
    if value is None:
        return ()
    return tuple(str(each) for each in value) if isinstance(value, list) else (str(value),)


def _pairs(content: Mapping[str, Any], key: str) -> dict[str, str]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{key} are no names and values", hint="write `NAME: VALUE` below it")
    return {str(name): str(each) for name, each in value.items()}


def _number(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidInput(f"{key}: {value!r} is no number", hint=f"write `{key}: 1`")
    return value


def _whole(content: Mapping[str, Any], key: str, *, least: int | None = 1) -> int | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        what = "a whole number" if least is None else f"a whole number, {least} or more"
        raise InvalidInput(f"{key}: {value!r} is not {what}", hint=f"write `{key}: {least or 1}`")
    return value
