"""Files of names and values: YAML or JSON, written by people or by their programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from turnout.errors import InvalidInput, NotFound

LARGEST = 1 << 20
_BRACKETS = re.compile(r"[\[{\]}]")
_DEEP = re.compile(r"^[ ?:-]{400}", re.MULTILINE)
_DEEPEST = 1000
_FAST = getattr(yaml, "CSafeLoader", None)


def read_mapping(path: Path, *, largest: int = LARGEST) -> dict[str, Any]:
    """NotFound and InvalidInput say where."""
    try:
        if path.stat().st_size > largest:
            raise InvalidInput(f"{path.name} is over {largest >> 20} MB", hint="write what it holds more shortly")
        content = read_yaml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}", hint="check the path") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path.name} cannot be read: {why}", hint="give a YAML or JSON file") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}:{mark.line + 1}" if mark is not None else path.name
        problem = getattr(error, "problem", None) or "it is no YAML"
        raise InvalidInput(f"{where}: {problem}", hint="write `name: value` on each line") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path.name} has no names and values", hint="write `name: value` on each line")
    return {str(name): value for name, value in content.items()}


def read_yaml(text: str) -> Any:
    """YAMLError also for what PyYAML lets through: a date that is none, an integer of thousands of digits, thousands of
    brackets in each other."""
    try:
        return _read(text)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise yaml.MarkedYAMLError(problem=f"a value is not what it looks like: {error}") from error
    except RecursionError as error:
        raise yaml.MarkedYAMLError(problem="there are too many brackets in each other") from error


def _read(text: str) -> Any:
    """libyaml is several times as fast, but tells less of a mistake, and crashes where something is very deep."""
    if _FAST is not None and not _is_deep(text):
        try:
            return yaml.load(text, _FAST)  # noqa: S506 - it is the safe one
        except yaml.YAMLError:
            pass  # the other says it better
    return yaml.safe_load(text)


def _is_deep(text: str) -> bool:
    """Whether things may be in each other by the hundred."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        if depth > _DEEPEST:
            return True
    return _DEEP.search(text) is not None
