"""The checkpoint of a run, in its output directory, which a restart finds again.

``checkpoints/checkpoint.json`` holds the dictionary and the name of the file that belongs to it. The file comes first,
under a name of its own; then the other is replaced; then older files go.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import turnout

_FOLDER = "checkpoints"
_RECORD = "checkpoint.json"
_FILE = "file-"


def put(told: Mapping[str, object], path: str | None) -> None:
    """OSError when the file cannot be read, or nothing can be written; TypeError for what JSON cannot hold. Then the
    earlier checkpoint is what it was."""
    folder = _folder()
    written = json.dumps(dict(told))
    folder.mkdir(exist_ok=True)
    file = _read().get("file")
    if path is not None:
        file = f"{_FILE}{os.urandom(8).hex()}"
        shutil.copyfile(path, folder / file)
    new = folder / f"{_RECORD}.new"
    new.write_text(f'{{"file": {json.dumps(file)}, "dict": {written}}}\n')
    os.replace(new, folder / _RECORD)
    for each in folder.glob(f"{_FILE}*"):
        if each.name != file:
            each.unlink(missing_ok=True)


def get(destination: str | None) -> dict[str, Any] | None:
    found = _read()
    if destination is not None and found.get("file"):
        shutil.copyfile(_folder() / found["file"], destination)
    return found.get("dict")


def clear() -> None:
    (_folder() / _RECORD).unlink(missing_ok=True)
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return turnout.output_dir() / _FOLDER


def _read() -> dict[str, Any]:
    try:
        return dict(json.loads((_folder() / _RECORD).read_text()))
    except FileNotFoundError:
        return {}
