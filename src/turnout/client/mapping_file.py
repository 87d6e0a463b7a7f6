"""Files of names and values: YAML or JSON, written by people or by their programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from turnout.client.yaml_text import WrittenTwice, read_yaml
from turnout.errors import InvalidInput, NotFound

LARGEST = 1 << 20


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
        hint = "keep one of them" if isinstance(error, WrittenTwice) else "write `name: value` on each line"
        raise InvalidInput(f"{where}: {problem}", hint=hint) from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path.name} has no names and values", hint="write `name: value` on each line")
    return {str(name): value for name, value in content.items()}
