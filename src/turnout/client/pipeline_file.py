"""Files of pipelines: our own (YAML, with ``pipeline:``), and Metapipe's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnout.client import search_file, searching
from turnout.client.preparing import Wish
from turnout.errors import InvalidInput, NotFound
from turnout.pipeline import metapipe, native
from turnout.pipeline.plan import Plan

#: What Metapipe's files are called.
SUFFIXES = (".mp", ".metapipe")
_PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """`steps` are the wishes for the job of each step, without what is executed; `code` is what is frozen."""

    plan: Plan
    steps: Mapping[str, Wish]
    code: Path


def from_file(path: Path) -> PipelineFile:
    """InvalidInput says all that is wrong, and where in the file."""
    if path.suffix in SUFFIXES:
        return _from_metapipe(path)
    content = searching.read_mapping(path)
    if _PIPELINE not in content:
        hint = f"write `pipeline:` there, with `steps:` below it; files of Metapipe's end in {SUFFIXES[0]}"
        raise InvalidInput(f"{path.name} is no pipeline", hint=hint)
    return _from_native(content, path)


def _from_native(content: dict[str, Any], path: Path) -> PipelineFile:
    block = content.pop(_PIPELINE)
    if not isinstance(block, Mapping):
        raise InvalidInput(f"{path.name}: pipeline: is no block of names and values", hint="write `steps:` below it")
    pipeline = native.read(block, path.name, search_file.JOB_KEYS)
    common = _wish(content, path)
    code = common.code or path.parent.resolve()
    plan = native.plan(pipeline, files_in(code))
    wishes = {step.name: _wish({**content, **step.job}, path, f"steps.{step.name}").wish for step in pipeline.steps}
    return PipelineFile(plan, wishes, code)


def _wish(content: Mapping[str, Any], path: Path, where: str = "") -> search_file.JobFile:
    """What a job is to have besides its command."""
    try:
        return search_file.from_mapping({**content, "command": ""}, path.parent)
    except InvalidInput as error:
        raise InvalidInput(": ".join(filter(None, [path.name, where, error.message])), hint=error.hint) from error


def _from_metapipe(path: Path) -> PipelineFile:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}", hint="check the path") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path.name} cannot be read: {why}", hint="give a file of Metapipe's") from error
    code = path.parent.resolve()
    plan = metapipe.plan(metapipe.parse(text, path.name), files_in(code))
    return PipelineFile(plan, {step.name: Wish(command=()) for step in plan.steps}, code)


def files_in(folder: Path) -> Callable[[str], Sequence[str]]:
    """Finds the files below it that match a pattern, as paths relative to it."""

    def find(pattern: str) -> Sequence[str]:
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            return []
        try:
            return sorted(found.relative_to(folder).as_posix() for found in folder.glob(pattern) if found.is_file())
        except (ValueError, OSError):
            return []

    return find


def overridden(file: PipelineFile, **typed: Any) -> PipelineFile:
    """What was typed is for all steps that do not say otherwise."""
    given = {name: value for name, value in typed.items() if value is not None}
    steps = {
        name: replace(wish, **{key: value for key, value in given.items() if getattr(wish, key) is None})
        for name, wish in file.steps.items()
    }
    return replace(file, steps=steps)
