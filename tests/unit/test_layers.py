"""Imports point down only. The tables below are the architecture; a new part of turnout gets its row here first."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout.errors

ROOT = Path(turnout.errors.__file__).parent

WORDS = {"errors", "model", "wire"}
RULES = WORDS | {"plugin", "spec", "query", "schedule", "search", "pipeline"}
MEANS = RULES | {"config", "home", "snapshot", "blobs", "store", "registry", "_version"}
WORK = MEANS | {"engine", "futures", "compat"}
ALL = WORK | {"terminal", "providers", "agent", "track", "hub", "ui", "client", "cli", "testing", "turnout"}

#: part -> the other parts of turnout it may import. `turnout` is the package's own ``__init__``.
SEES: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "model": {"errors"},
    "wire": set(),
    "track": set(),
    "terminal": set(),
    "agent": {"wire", "_version"},
    "plugin": {"errors", "wire"},
    "providers": {"plugin"},
    "spec": WORDS | {"plugin"},
    "query": WORDS | {"plugin"},
    "schedule": WORDS | {"plugin"},
    "search": WORDS | {"plugin"},
    "pipeline": WORDS | {"plugin", "query"},
    "config": RULES | {"registry", "home"},  # providers say which keys their entries take
    "home": {"errors"},
    "registry": RULES,
    "blobs": RULES | {"config"},
    "snapshot": RULES | {"config", "blobs"},
    "store": RULES | {"config", "blobs", "_version"},
    "engine": MEANS,
    "futures": MEANS
    | {"client", "terminal", "turnout"},  # workers elsewhere, and what came of calls, are runs as users submit them
    "compat": RULES
    | {"config", "futures", "turnout"},  # their interfaces over ours: what any user of turnout may import
    "hub": WORK,
    "ui": WORK | {"hub"},
    "client": WORDS
    | {
        "plugin",
        "spec",
        "query",
        "search",
        "pipeline",
        "snapshot",
        "config",
        "home",
        "_version",
    },  # it checks and freezes itself
    "cli": {"client", "compat", "errors", "model", "pipeline", "query", "config", "home", "terminal", "_version"},
    "turnout": {"client", "track", "futures", "errors", "_version"},
    "testing": ALL,
}

#: These run on nodes, in users' runs or in plugins: Python's own library is all they may count on.
STDLIB_ONLY = {"errors", "model", "wire", "plugin", "agent", "track"}

#: These decide; time, chance and the outside world come in as arguments.
PURE = {"model", "spec", "query", "schedule", "search", "pipeline"}
IMPURE_MODULES = {
    "asyncio", "multiprocessing", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid",
}  # fmt: skip
#: Chance that is made from a seed alone.
SEEDED = "random.Random"

#: Libraries that one part alone may use.
OWNED = {"sqlalchemy": "store", "alembic": "store"}


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything `module` imports, anywhere in it; ``from x import y`` gives ``x.y``."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{name.name}") for name in node.names)


def part_of(dotted: str) -> str:
    """``turnout.store.schema`` belongs to ``store``; a name that is no module of ours comes from ``turnout`` itself."""
    below = dotted.split(".")[1:2]
    return below[0] if below and below[0] in ALL else "turnout"


def objection(part: str, imported: str) -> str | None:
    """Why `part` may not import that, or None."""
    top = imported.split(".")[0]
    if top == "turnout":
        seen = part_of(imported)
        if seen != part and seen not in SEES[part]:
            return f"of turnout, {part} may see {', '.join(sorted(SEES[part])) or 'nothing'}"
    elif part in STDLIB_ONLY and top not in sys.stdlib_module_names:
        return f"{part} is stdlib only"
    elif part in PURE and top in IMPURE_MODULES and imported != SEEDED:
        return f"{part} is pure"
    elif part != "testing" and OWNED.get(top, part) != part:
        return f"{top} belongs to {OWNED[top]} alone"
    return None


def objections(source: str, path: Path) -> list[str]:
    """All that is wrong with the imports of the file `path` (relative to the package), one line each."""
    names = ["turnout", *path.with_suffix("").parts]
    is_package = names[-1] == "__init__"
    module = ".".join(names[:-1] if is_package else names)
    part = part_of(module)
    found = ((line, name, objection(part, name)) for line, name in imports(source, module, is_package))
    return [f"src/turnout/{path}:{line}: imports {name}, but {why}" for line, name, why in found if why]


def test_every_part_has_a_row() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert parts - {"__init__"} <= SEES.keys(), "a new part of turnout: give it a row in SEES"


def test_imports_point_down() -> None:
    files = sorted(ROOT.rglob("*.py"))
    wrong = [line for path in files for line in objections(path.read_text(), path.relative_to(ROOT))]
    assert not wrong, "imports against the direction of the layers:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "source", "why"),
    [
        ("agent/main.py", "from turnout.errors import Denied", "of turnout, agent may see _version, wire"),
        ("agent/main.py", "from ..hub import app", "of turnout, agent may see _version, wire"),
        ("track/api.py", "from turnout import wire", "of turnout, track may see nothing"),
        ("providers/local.py", "import turnout.store.schema", "of turnout, providers may see plugin"),
        ("cli/list.py", "def f():\n    import turnout.hub", "of turnout, cli may see"),
        ("wire/http.py", "import requests", "wire is stdlib only"),
        ("schedule/place.py", "from time import monotonic", "schedule is pure"),
        ("engine/tick.py", "import sqlalchemy as sa", "sqlalchemy belongs to store alone"),
    ],
)
def test_a_wrong_import_is_named_with_its_line(path: str, source: str, why: str) -> None:
    (line,) = objections(source, Path(path))
    assert line.startswith(f"src/turnout/{path}:{source.count(chr(10)) + 1}: ") and why in line


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("agent/main.py", "from turnout.wire import frames\nimport os"),
        ("store/schema.py", "from . import database\nfrom turnout.model.state import RunState"),
        ("store/__init__.py", "from .schema import runs"),
        ("client/submit.py", "from turnout.snapshot import capture"),
    ],
)
def test_a_right_import_passes(path: str, source: str) -> None:
    assert objections(source, Path(path)) == []
