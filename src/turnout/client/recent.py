"""What this user submitted last, from each directory: ``$lastrun`` and ``$lastjob``.

One small file for each directory, 0600 as all of ``TURNOUT_HOME``, replaced as a whole: two commands at once leave one
of both. It is a convenience: failing to write it fails nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnout.errors import NotFound
from turnout.home import Home, private_dir

_ANYWHERE = "anywhere"
#: A shell takes ``$lastrun`` for a variable of its own unless it is quoted; no name that a person gives begins with @.
_WORDS = {"$lastrun": "run", "@lastrun": "run", "$lastjob": "job", "@lastjob": "job"}


def remember(home: Home, directory: Path, answer: Mapping[str, Any]) -> None:
    """Keeps what the hub answered to a submission from `directory`."""
    text = json.dumps({"job": answer["job"], "run": answer["runs"][-1], "directory": str(directory)})
    with contextlib.suppress(OSError):
        folder = private_dir(home.root / "recent")
        for name in (_key(directory), _ANYWHERE):
            handle, path = tempfile.mkstemp(dir=folder, prefix=".")
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(path, folder / name)


def stands_for(home: Home, directory: Path, name: str) -> str:
    """The name that ``$lastrun`` or ``$lastjob`` stands for in `directory`: the last from there, else the last of all.
    Any other name is given back. NotFound when nothing was submitted yet."""
    kind = _WORDS.get(name)
    if kind is None:
        return name
    for key in (_key(directory), _ANYWHERE):
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads((home.root / "recent" / key).read_text())[kind])
    raise NotFound(f"nothing was submitted yet, so there is no {name}", hint="`turnout run COMMAND` makes a run")


def _key(directory: Path) -> str:
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
