"""Where settings come from, lowest first: built-in defaults, the user's file, the project's, the environment, options.

A file may say ``include: [other.yaml, …]``: those come below its own values, later ones above earlier ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnout.config import by_path, document
from turnout.config.document import Items, Scalar
from turnout.config.kinds import ListOf, Named, Record
from turnout.config.problem import Problem, as_error
from turnout.config.sections import INCLUDE, ROOT, USER_ONLY, Config
from turnout.config.setting import DEFAULT, Origin, Setting, Source, Tree, merge
from turnout.config.values import TEXT
from turnout.home import Home

PROJECT_FILE = "turnout.yaml"


@dataclass(slots=True)
class Gathered:
    """All layers merged, what is wrong with them, and the files they were read from, lowest first."""

    tree: Tree
    problems: list[Problem] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def config(self) -> Config:
        """InvalidInput tells everything that is wrong, with its place."""
        if self.problems:
            raise as_error(self.problems)
        named = {kind: by_path.named(self.tree, kind) for kind in (by_path.COMPUTE, by_path.HP_SEARCH)}
        return replace(ROOT.build(self.tree), classes=named[by_path.COMPUTE], samplers=named[by_path.HP_SEARCH])


#: Values of the command line: ``{"general.target": ("--target", "big")}``. One that is None was not given.
Options = Mapping[str, tuple[str, object]]


def gather(user: Path | None, project: Path | None = None, options: Options | None = None) -> Gathered:
    """Reads every layer; files that are None or not there are left out. Never raises."""
    gathered = Gathered(ROOT.defaults())
    for path in (user, project):
        if path is None or not path.exists():
            continue
        tree = _Files(gathered).read(path)
        if path.name == PROJECT_FILE:
            _refuse_user_only(tree, gathered.problems)
        gathered.tree = merge(gathered.tree, tree)
    gathered.tree = merge(gathered.tree, _environment(gathered.problems))
    gathered.tree = merge(gathered.tree, _given(options or {}))
    _take_default_target(gathered.tree)
    return gathered


def load(user: Path | None, project: Path | None = None, options: Options | None = None) -> Config:
    """The settings that hold. InvalidInput tells everything that is wrong, each with its place."""
    return gather(user, project, options).config()


def settings_at(directory: Path, home: Home | None = None) -> Config:
    """Those that hold there for the user of that home; None = the one that the environment says."""
    return load((home or Home.from_env()).config_file, find_project_file(directory))


def find_project_file(start: Path) -> Path | None:
    """The nearest ``turnout.yaml`` in `start` or above it, but for one that a stranger could have put there."""
    for directory in (start, *start.parents):
        path = directory / PROJECT_FILE
        if path.is_file() and not _is_strangers(path):
            return path
    return None


def _is_strangers(path: Path) -> bool:
    """In a directory that everybody may write to, such as /tmp, a file of somebody else is not for us."""
    anybody = os.stat(path.parent).st_mode & stat.S_IWOTH
    return bool(anybody) and os.stat(path).st_uid not in (os.getuid(), 0)


@dataclass(frozen=True, slots=True)
class _File:
    """Tells of what is read from one file."""

    name: str
    problems: list[Problem]

    def complain(self, line: int, what: str, instead: str) -> None:
        self.problems.append(Problem(f"{self.name}:{line}", what, instead))

    def origin(self, line: int) -> Origin:
        return Origin(Source.FILE, self.name, line)


class _Files:
    """Reads a file with what it includes, each once however often it is included."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._read: dict[Path, Tree] = {}

    def read(self, path: Path, chain: tuple[Path, ...] = ()) -> Tree:
        key = path.resolve()
        if key in self._read:
            return self._read[key]
        found = document.read(path)
        self._gathered.problems += found.problems
        report = _File(str(path), self._gathered.problems)
        included: Tree = {}
        for other, line in self._included(found, report):
            if other.resolve() in (*chain, key):
                names = " → ".join(each.name for each in (*chain, key, other))
                report.complain(line, f"files that include each other: {names}", "take one of the includes out")
            elif not other.is_file():
                report.complain(line, f"no file {other}", "correct the name; it is looked for beside this file")
            else:
                included = merge(included, self.read(other, (*chain, key)))
        own = ROOT.read(found.root, "", report) or {}
        self._gathered.files.append(path)
        self._read[key] = merge(included, own)
        return self._read[key]

    @staticmethod
    def _included(found: document.Document, report: _File) -> Iterator[tuple[Path, int]]:
        node = found.root.entries.pop(INCLUDE, None)
        if node is None:
            return
        for each in node.items if isinstance(node, Items) else (node,):
            if TEXT.read(each, INCLUDE, report) is not None:
                assert isinstance(each, Scalar)
                yield Path(found.file).parent / Path(each.text).expanduser(), each.line


#: Of ``xt-services``, what is not for each project to say.
_OF_THE_HUB = frozenset({"storage", "database", "vault"})


def _refuse_user_only(tree: Tree, problems: list[Problem]) -> None:
    for name in USER_ONLY:
        section = tree.get(name)
        settings = section.values() if isinstance(section, dict) else ()
        for setting in settings:
            if isinstance(setting, Setting):
                what = f"`{name}` is not for a project: there is one hub for all of them"
                problems.append(
                    Problem(str(setting.origin), what, "write it into your own file, see `turnout config path`")
                )
                break
    services = tree.get("xt-services")
    for name, setting in services.items() if isinstance(services, dict) else ():
        if name in _OF_THE_HUB and isinstance(setting, Setting):
            what = f"`xt-services.{name}` is not for a project: there is one hub for all of them"
            problems.append(
                Problem(str(setting.origin), what, "write it into your own file, see `turnout config path`")
            )


@dataclass(frozen=True, slots=True)
class _Variable:
    """Tells of what is read from one variable."""

    name: str
    problems: list[Problem]

    def complain(self, line: int, what: str, instead: str) -> None:
        self.problems.append(Problem(self.name, what, f"unset {self.name}, or set it right"))

    def origin(self, line: int) -> Origin:
        return Origin(Source.VARIABLE, self.name)


def variable_of(*path: str) -> str:
    """The variable of a setting: ``TURNOUT_SECTION_KEY``."""
    return "_".join(("TURNOUT", *path)).replace("-", "_").upper()


def variables() -> Iterator[tuple[str, str, str]]:
    """Every variable that sets something: its name, section and key. Later ones win."""
    for section, each in ROOT.keys.items():
        if not isinstance(each.kind, Record):
            continue
        for name, inner in each.kind.keys.items():
            if isinstance(inner.kind, Named):
                continue
            yield variable_of(section, name), section, name
            if inner.variable is not None:
                yield inner.variable, section, name


def _environment(problems: list[Problem]) -> Tree:
    tree: Tree = {}
    for variable, section, name in variables():
        text = os.environ.get(variable)
        if not text:
            continue
        kind: Any = ROOT.keys[section].kind
        inner = kind.keys[name].kind
        node: document.Node = Scalar(text, True, 0)
        if isinstance(inner, ListOf):
            node = Items(tuple(Scalar(part.strip(), True, 0) for part in text.split(",")), 0)
        found = inner.read(node, f"{section}.{name}", _Variable(variable, problems))
        if found is not None:
            tree = merge(tree, {section: {name: found}})
    return tree


def _given(options: Options) -> Tree:
    tree: Tree = {}
    for path, (option, value) in options.items():
        section, _, name = path.partition(".")
        if value is not None:
            tree = merge(tree, {section: {name: Setting(value, Origin(Source.OPTION, option))}})
    return tree


def _take_default_target(tree: Tree) -> None:
    """``xt-services: target`` says where runs go as long as nobody says it in ``general``."""
    general, services = tree["general"], tree["xt-services"]
    assert isinstance(general, dict) and isinstance(services, dict)
    chosen, default = general["target"], services["target"]
    assert isinstance(chosen, Setting) and isinstance(default, Setting)
    if chosen.origin == DEFAULT and default.value is not None:
        tree["general"] = {**general, "target": default}
