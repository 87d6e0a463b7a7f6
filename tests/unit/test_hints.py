"""Whatever a person can do wrong is answered with what to do next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "turnout"
PEOPLES = {"InvalidInput", "NotFound", "Conflict", "SnapshotRefused"}
#: Said to agents, or to programs that do not speak as ours do.
NOT_TO_PEOPLE = (
    "agent/",
    "testing/",
    "hub/wire.py",
    "hub/security.py",
    "hub/app.py",
    "hub/shares.py",
    "hub/snapshots.py",
)
#: The person at the terminal just answered no; what to do is in the message, which is logged without its hint.
NEED_NONE = {"nothing was deleted", "the blobs were used with several databases ({hint})"}


def errors_without_a_hint() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NOT_TO_PEOPLE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PEOPLES:
                told = {keyword.arg for keyword in node.keywords}
                text = ast.unparse(node.args[0]) if node.args else ""
                if not told & {"hint", None} and text.removeprefix("f").strip("'\"") not in NEED_NONE:
                    yield f"{name}:{node.lineno}: {text}"


def test_every_error_says_what_to_type_next() -> None:
    assert list(errors_without_a_hint()) == []
