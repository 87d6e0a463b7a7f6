"""Files of names and values: YAML or JSON, written by people or by their programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from turnout.client.yaml_text import WrittenTwice, read_yaml
from turnout.errors import InvalidInput, NotFound

LARGEST = 1 << 20
_LONGEST = 80  # of what is shown of a name


def read_mapping(path: Path, *, largest: int = LARGEST) -> dict[str, Any]:
    """NotFound and InvalidInput say where."""
    try:
        if path.stat().st_size > largest:
            raise InvalidInput(f"{path.name} is over {largest >> 20} MB", hint="write what it holds more shortly")
        text = path.read_text(encoding="utf-8-sig")
        content = read_yaml(text)
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}", hint="check the path") from error
    except (OSError, ValueError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or error
        raise InvalidInput(f"{path.name[:_LONGEST]} cannot be read: {why}", hint="give a YAML or JSON file") from error
    except ReaderError as error:
        where, character = f"{path.name}:{text.count(chr(10), 0, error.position) + 1}", chr(error.character)
        raise InvalidInput(f"{where}: {character!r} is no character of a text", hint="take it out") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}:{mark.line + 1}" if mark is not None else path.name
        problem = getattr(error, "problem", None) or "it is no YAML"
        hint = "keep one of them" if isinstance(error, WrittenTwice) else "write `name: value` on each line"
        raise InvalidInput(f"{where}: {problem}", hint=hint) from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path.name} has no names and values", hint="write `name: value` on each line")
    return {str(name): value for name, value in content.items()}
