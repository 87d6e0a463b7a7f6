"""Code of the user's own: a class that the settings name by its path, and where it is.

It is looked for in the directory of the file that names it, then in the directories of PYTHONPATH, then among what is
installed. Nothing is imported here.
"""

from __future__ import annotations

import getpass
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from turnout.config.setting import Setting, Tree
from turnout.errors import InvalidInput

_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPath:
    """A class by its `path` (``package.module.Class``). `python_path` are the directories where modules are looked for
    first; `project` is that of the file that names the class. `package` is the directory or file of its topmost package
    there, "" where that is installed; `digest` is of its Python files: other code is another place. `definition` is the
    target's entry as it is written, and its service's below it."""

    path: str
    project: str
    python_path: tuple[str, ...]
    digest: str
    package: str = ""
    definition: Mapping[str, object] = field(default_factory=dict)
    username: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """Where the settings name a class: `place` is file and line."""

    path: str
    place: str
    project: Path

    @property
    def python_path(self) -> tuple[str, ...]:
        """Where its modules are looked for first."""
        given = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        return tuple(dict.fromkeys([str(self.project), *given]))

    @property
    def top(self) -> str:
        """Its topmost package."""
        return self.path.partition(".")[0]


#: The kinds of classes that the settings can name.
COMPUTE, HP_SEARCH = "compute", "hp-search"


def named(tree: Tree, kind: str) -> dict[str, Named]:
    """The classes of a kind that are named by their path, by the name that they are given."""
    entries = tree["providers"]
    classes = entries[kind] if isinstance(entries, dict) else {}
    return {
        name: Named(str(each.value), str(each.origin), Path(each.origin.name).parent.absolute())
        for name, each in (classes.items() if isinstance(classes, dict) else ())
        if isinstance(each, Setting)
    }


def code_of(found: Named, definition: Mapping[str, object], username: str | None) -> ByPath:
    """What has to be known to load it somewhere else. InvalidInput when it is nowhere."""
    package = find_package(found)
    is_own = str(package.parent) in found.python_path
    return ByPath(
        path=found.path, project=str(found.project), python_path=found.python_path, digest=digest_of(package),
        package=str(package) if is_own else "", definition=definition, username=username or login_name(),
    )  # fmt: skip


def login_name() -> str:
    """Who this is, here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return str(os.getuid())


def find_package(found: Named) -> Path:
    """The directory or file of its topmost package. InvalidInput when there is none."""
    top = found.top
    for directory in found.python_path:
        for place in (Path(directory, top), Path(directory, f"{top}.py")):
            if place.is_file() or any(_python_files(place)):
                return place
    spec = find_spec(top)
    if spec is not None and spec.origin not in (None, "built-in", "frozen"):
        file = Path(str(spec.origin))
        return file.parent if file.name == "__init__.py" else file
    hint = f"put the package {top!r} into {found.project}, beside the file that names it, or on PYTHONPATH"
    raise InvalidInput(f"{found.place}: no package {top!r} for {found.path}", hint=hint)


def digest_of(place: Path) -> str:
    """Of the Python files of a package, or of the one file that it is."""
    found = hashlib.sha256()
    for number, path in enumerate(sorted(_python_files(place)) if place.is_dir() else [place]):
        if number >= _MOST_FILES:
            break
        found.update(f"{path.relative_to(place.parent)}\0".encode(errors="surrogateescape"))
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _python_files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*.py") if path.is_file())
