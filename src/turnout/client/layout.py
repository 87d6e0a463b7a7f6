"""Where things are: in the user's directories, and in the tree of frozen files that a run begins in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnout.errors import InvalidInput, NotFound


@dataclass(frozen=True, slots=True)
class CodeDir:
    """A directory that is frozen, and its place in the tree: "" for the top."""

    source: Path
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`cwd` is where the user is. `working_dir` is where in the tree a run begins. `activation` are the shell lines
    that come before a Python file. `python` runs it there; None = what is found here. With `has_programs`, a program
    that is not here is not there either."""

    cwd: Path
    dirs: tuple[CodeDir, ...]
    working_dir: str = ""
    activation: tuple[str, ...] = ()
    python: str | None = None
    has_programs: bool = True
    is_windows: bool = False

    def in_tree(self, name: str) -> str:
        """Where in the tree the file is that the user calls `name`. NotFound, InvalidInput when it is not frozen."""
        path = Path(os.path.normpath(self.cwd / name))
        for each in sorted(self.dirs, key=lambda each: len(each.source.parts), reverse=True):
            if path.is_relative_to(each.source):
                if not path.is_file():
                    hint = "check the name; scripts are looked for in the current directory"
                    raise NotFound(f"no script {name!r} in {self.cwd}", hint=hint)
                return (PurePosixPath(each.place) / path.relative_to(each.source).as_posix()).as_posix()
        frozen = ", ".join(str(each.source) for each in self.dirs)
        raise InvalidInput(f"{name} is outside {frozen}, which is what is frozen", hint=f"run this in {path.parent}")

    def from_working_dir(self, path: str) -> str:
        """A path in the tree as a run says it that begins in the working directory."""
        return os.path.relpath(path, self.working_dir) if self.working_dir else path


def code_dirs(given: Sequence[str], cwd: Path) -> tuple[CodeDir, ...]:
    """``src::place`` goes to that place; ``.`` to the top; another directory below here keeps its name, one from
    elsewhere its last part."""
    found = []
    for text in given:
        name, separator, place = text.partition("::")
        source = Path(os.path.normpath(cwd / Path(name).expanduser()))
        if not source.is_dir():
            hint = "check --code-dir, or `code: code-dirs` in turnout.yaml"
            raise InvalidInput(f"code directory {name!r} is no directory", hint=hint)
        if not separator:
            place = source.relative_to(cwd).as_posix() if source.is_relative_to(cwd) else source.name
        found.append(CodeDir(source, tree_path(place, "the place of a code directory")))
    return tuple(found)


def tree_path(text: str, what: str) -> str:
    """A relative path that stays inside, without dots and slashes that mean nothing; "" for the top."""
    path = os.path.normpath(text.strip("/") or ".")
    if text.startswith("/") or path.startswith(".."):
        raise InvalidInput(f"{text!r} leads out of the files of a run: {what}", hint="give a path below them")
    return "" if path == "." else path
