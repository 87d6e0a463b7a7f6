"""Files of pipelines: our own (YAML, with ``pipeline:``), and Metapipe's."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from turnout.client import search_file
from turnout.client.mapping_file import read_mapping
from turnout.client.preparing import Wish
from turnout.client.yaml_text import Lines
from turnout.errors import InvalidInput, NotFound
from turnout.model.acyclic import acyclic
from turnout.pipeline import native
from turnout.pipeline.native.model import Step
from turnout.pipeline.native.problems import Locate
from turnout.pipeline.plan import Plan

#: What Metapipe's files are called.
SUFFIXES = (".mp", ".metapipe")
_PIPELINE, _SHARED = "pipeline", "shared"
_LARGEST = 64 << 20
#: What stands beside ``pipeline:`` and is not for each step.
_OF_WHOLE = ("name", "tags", "notify")


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """`steps` are the wishes for the job of each step, without what is executed; `said` are the keys that a step has
    itself. `code` is what is frozen, unless all is done in a `shared` directory. `name`, `tags` and `notify` are the
    pipeline's own."""

    plan: Plan
    steps: Mapping[str, Wish]
    code: Path
    shared: str = ""
    said: Mapping[str, Collection[str]] = field(default_factory=dict)
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    notify: str | None = None


def from_file(path: Path, shared: Path | None = None) -> PipelineFile:
    """InvalidInput says all that is wrong, and where in the file. With `shared`, it is done in that directory, whatever
    the file says."""
    if path.suffix in SUFFIXES:
        return _from_metapipe(path, shared)
    with acyclic():
        content = read_mapping(path, largest=_LARGEST)
        if _PIPELINE not in content:
            hint = f"write `pipeline:` there, with `steps:` below it; files of Metapipe's end in {SUFFIXES[0]}"
            raise InvalidInput(f"{path.name} is no pipeline", hint=hint)
        return _from_native(content, path, shared)


def _from_native(content: dict[str, Any], path: Path, shared: Path | None) -> PipelineFile:
    block = content.pop(_PIPELINE)
    if not isinstance(block, Mapping):
        raise InvalidInput(f"{path.name}: pipeline: is no block of names and values", hint="write `steps:` below it")
    block = dict(block)
    written = block.pop(_SHARED, None)
    if written is not None and not isinstance(written, str):
        raise InvalidInput(f"{path.name}: {_SHARED}: is no path", hint=f"write `{_SHARED}: DIRECTORY`")
    if shared is None and written is not None:
        shared = path.parent / Path(written).expanduser()
    place = "" if shared is None else shared_directory(shared)
    locate = _locate(path)
    pipeline = native.read(block, path.name, search_file.JOB_KEYS, locate)
    if "command" in content:
        raise InvalidInput(f"{path.name}: command: stands beside pipeline:", hint="write it into a step")
    common = _wish(content, path)
    code = common.code or path.parent.resolve()
    plan = native.plan(pipeline, files_in(Path(place) if place else code))
    of_all = {key: value for key, value in content.items() if key not in _OF_WHOLE}
    wishes = alike(pipeline.steps, lambda step: _wish({**of_all, **step.job}, path, f"steps.{step.name}", locate).wish)
    said = {step.name: [key for key, value in step.job.items() if value is not None] for step in pipeline.steps}
    whole = common.wish
    return PipelineFile(plan, wishes, code, place, said, name=whole.name, tags=whole.tags, notify=whole.notify)


def shared_directory(path: Path) -> str:
    """Its path, as nodes are told it. InvalidInput where there is no such directory here."""
    if not path.is_dir():
        hint = "give one that this machine and all nodes see, under the same path"
        raise InvalidInput(f"there is no directory {str(path)!r}", hint=hint)
    return str(path.absolute() if path.is_symlink() else path.resolve())


def _wish(content: Mapping[str, Any], path: Path, place: str = "", locate: Locate | None = None) -> search_file.JobFile:
    """What a job is to have besides its command."""
    try:
        return search_file.from_mapping({**content, "command": ""}, path.parent)
    except InvalidInput as error:
        line = locate(place) if locate is not None else None
        where = path.name if line is None else f"{path.name}:{line}"
        raise InvalidInput(": ".join(filter(None, [where, place, error.message])), hint=error.hint) from error


def _locate(path: Path) -> Locate:
    """The file is read again, for only mistakes are asked about."""
    lines = cache(lambda: Lines(path.read_text(encoding="utf-8-sig")))
    return lambda place: lines().of([_PIPELINE, *filter(None, place.split("."))])


def _from_metapipe(path: Path, shared: Path | None) -> PipelineFile:
    from turnout.pipeline import metapipe  # whose grammar takes a while to load

    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}", hint="check the path") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path.name} cannot be read: {why}", hint="give a file of Metapipe's") from error
    code = path.parent.resolve()
    place = "" if shared is None else shared_directory(shared)
    plan = metapipe.plan(metapipe.parse(text, path.name), files_in(Path(place) if place else code, elsewhere=True))
    return PipelineFile(plan, dict.fromkeys((step.name for step in plan.steps), Wish(command=())), code, place)


def files_in(folder: Path, *, elsewhere: bool = False) -> Callable[[str], Sequence[str]]:
    """Finds the files below it that match a pattern, as paths relative to it; with `elsewhere`, also those that match
    an absolute one."""

    def find(pattern: str) -> Sequence[str]:
        if elsewhere and pattern.startswith("/"):
            return sorted(filter(os.path.isfile, glob.iglob(pattern, recursive=True)))
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            return []
        try:
            return sorted(found.relative_to(folder).as_posix() for found in folder.glob(pattern) if found.is_file())
        except (ValueError, OSError):
            return []

    return find


def overridden(file: PipelineFile, **typed: Any) -> PipelineFile:
    """What was typed is for all steps that do not say otherwise themselves: it wins over what the file says for all."""
    steps: dict[str, Wish] = {}
    made: dict[tuple[object, ...], Wish] = {}
    for name, wish in file.steps.items():
        said = file.said.get(name, ())
        over = {key: value for key, value in typed.items() if value is not None and key not in said}
        key = (id(wish), *over)
        if key not in made:
            made[key] = replace(wish, **over, also=() if "target" in over else wish.also)
        steps[name] = made[key]
    return replace(file, steps=steps)


def alike(steps: Iterable[Step], wish_of: Callable[[Step], Wish]) -> dict[str, Wish]:
    """The wishes for the jobs of these steps, by their names. Those of which the same is said have the same one."""
    made: dict[str, Wish] = {}
    found: dict[str, Wish] = {}
    for step in steps:
        said = _as_text(step.job)
        if said is None:
            found[step.name] = wish_of(step)
        elif said not in made:
            found[step.name] = made[said] = wish_of(step)
        else:
            found[step.name] = made[said]
    return found


def _as_text(job: Mapping[str, object]) -> str | None:
    """The same for what is the same; None for what only Python has."""
    if not job:
        return ""
    try:
        return json.dumps(job)
    except (TypeError, ValueError):
        return None
