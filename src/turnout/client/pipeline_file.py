"""Files of pipelines: our own (YAML, with ``pipeline:``), and Metapipe's."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from turnout.client import job_keys, search_file
from turnout.client.job_keys import PIPELINE, Places, Where
from turnout.client.mapping_file import read_mapping
from turnout.client.pipelines import by_its_name
from turnout.client.preparing import Wish
from turnout.errors import InvalidInput, NotFound
from turnout.model.acyclic import acyclic
from turnout.model.ids import check_label
from turnout.pipeline import native
from turnout.pipeline.plan import Plan

#: What Metapipe's files are called.
SUFFIXES = (".mp", ".metapipe")
_SHARED = "shared"
_SECTION = re.compile(r"\s*\[(COMMANDS|FILES|PATHS|JOB_OPTIONS|OPTIONS)\]\s*", re.IGNORECASE)
_FIRST_LINES = 1000
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
    where: Callable[[str, str | None], str] = by_its_name
    """how errors call a step, or one of its keys"""


def from_file(path: Path, shared: Path | None = None) -> PipelineFile:
    """InvalidInput says all that is wrong, and where in the file. With `shared`, it is done in that directory, whatever
    the file says."""
    if path.name == "-" and not path.exists():
        raise _no_file(path)
    if path.suffix in SUFFIXES:
        return _from_metapipe(path, shared)
    with acyclic():
        content = _content(path)
        if PIPELINE not in content:
            hint = f"write `pipeline:` there, with `steps:` below it; files of Metapipe's end in {SUFFIXES[0]}"
            raise InvalidInput(f"{path.name} is no pipeline", hint=hint)
        return _from_native(content, path, shared)


def _no_file(path: Path) -> InvalidInput:
    """For a pipe: what lies beside it is no project."""
    hint = "write it into one: what its steps read is looked for beside that, unless `code: DIRECTORY` says where"
    return InvalidInput(f"{path.name} is no file", hint=hint)


def _content(path: Path) -> dict[str, Any]:
    try:
        return read_mapping(path, largest=_LARGEST)
    except InvalidInput as error:
        with suppress(OSError, UnicodeError), path.open(encoding="utf-8-sig") as file:
            if any(map(_SECTION.fullmatch, islice(file, _FIRST_LINES))):
                hint = f"let its name end in {SUFFIXES[0]}"
                raise InvalidInput(f"{path.name} looks like a file of Metapipe's", hint=hint) from error
        raise


def _from_native(content: dict[str, Any], path: Path, shared: Path | None) -> PipelineFile:
    places = Places(path)
    block = content.pop(PIPELINE)
    if not isinstance(block, Mapping):
        raise _wrong(path, PIPELINE, "is no block of names and values", "write `steps:` below it")
    block = dict(block)
    written = block.pop(_SHARED, None)
    if written is not None and not isinstance(written, str):
        raise _wrong(path, f"{PIPELINE}.{_SHARED}", "is no path", f"write `{_SHARED}: DIRECTORY`")
    place = "" if shared is None else shared_directory(shared)
    if shared is None and written is not None:
        try:
            place = shared_directory(path.parent / os.path.expanduser(written))
        except InvalidInput as error:
            raise _wrong(path, f"{PIPELINE}.{_SHARED}", error.message, error.hint) from error
    pipeline = native.read(block, path.name, search_file.JOB_KEYS, places.below)
    if "command" in content:
        raise _wrong(path, "command", f"stands beside {PIPELINE}:", "write it into a step")
    job_keys.check(content, path)
    _check_name(content, path)
    if not place and content.get("code") is None and not path.is_file():
        raise _no_file(path)
    common = search_file.from_mapping({**content, "command": ""}, path.parent)
    code = common.code or path.parent.resolve()
    plan = native.plan(pipeline, files_in(Path(place) if place else code))
    of_all = {key: value for key, value in content.items() if key not in _OF_WHOLE}
    wishes = job_keys.wishes(pipeline.steps, of_all, path)
    said = {step.name: [key for key, value in step.job.items() if value is not None] for step in pipeline.steps}
    whole, where = common.wish, Where(path, said, tuple(content))
    return PipelineFile(
        plan, wishes, code, place, said, name=whole.name, tags=whole.tags, notify=whole.notify, where=where
    )


def _check_name(content: Mapping[str, Any], path: Path) -> None:
    try:
        if content.get("name") is not None:
            check_label(str(content["name"]), "name")
    except InvalidInput as error:
        raise _wrong(path, "name", error.message.removeprefix("name "), error.hint) from error


def _wrong(path: Path, place: str, what: str, instead: str) -> InvalidInput:
    line = Places(path).beside(place)
    return InvalidInput(f"{path.name}:{line}: {place.removeprefix(f'{PIPELINE}.')}: {what}", hint=instead)


def shared_directory(path: Path) -> str:
    """Its path, as nodes are told it. InvalidInput where there is no such directory here."""
    try:
        if path.is_dir():
            return str(path.absolute() if path.is_symlink() else path.resolve())
    except (OSError, ValueError):  # it can be no path
        pass
    hint = "give one that this machine and all nodes see, under the same path"
    raise InvalidInput(f"there is no directory {str(path)!r}", hint=hint)


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
    typed = {key: value for key, value in typed.items() if value is not None}
    steps: dict[str, Wish] = {}
    made: dict[tuple[object, ...], Wish] = {}
    for name, wish in file.steps.items():
        said = file.said.get(name, ())
        over = {key: value for key, value in typed.items() if key not in said}
        key = (id(wish), *over)
        if key not in made:
            made[key] = replace(wish, **over, also=() if "target" in over else wish.also)
        steps[name] = made[key]
    where = replace(file.where, typed=list(typed)) if isinstance(file.where, Where) else file.where
    return replace(file, steps=steps, where=where)
