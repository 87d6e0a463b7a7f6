"""The page of coverage has no gap: a proof in every row, every proof exists, and no name of the documents was dropped.

Tests are found by reading the files they are in; they are run by whoever runs them all.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.docs.named import NAMED

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "coverage.md"
LATER = frozenset({"part 6"})  # of the parts of turnout, what is not here yet

_PROOF = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
_CELL = re.compile(r"(?<!\\)\|")  # a | that is not escaped


@dataclass(frozen=True)
class Row:
    line: int
    document: str
    named: str
    here: str
    proof: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return _PROOF.findall(self.proof)


def rows(page: str) -> list[Row]:
    """Every row below a heading of the second level, which is a document. A row of another shape is an error."""
    found: list[Row] = []
    document = ""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            document = line[3:]
        if not line.startswith("| ") or line.startswith("| what the document names "):
            continue
        cells = [cell.strip() for cell in _CELL.split(line)[1:-1]]
        assert len(cells) == 3, f"coverage.md:{number}: {len(cells)} cells instead of 3"
        found.append(Row(number, document, *cells))
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    """``test_name`` and ``TestClass::test_name`` of a file; empty when there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    return frozenset(_tests(ast.parse(file.read_text()).body))


def _tests(body: list[ast.stmt], prefix: str = "") -> list[str]:
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.append(prefix + node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found += _tests(node.body, f"{prefix}{node.name}::")
    return found


def gaps(row: Row) -> list[str]:
    """What is wrong with the row; nothing when nothing is."""
    if not row.named or not row.here:
        return ["an empty cell"]
    if row.proof in LATER:
        is_done = row.document == "XT's life cycle"
        return [f"{row.proof}: of XT's life cycle nothing waits"] if is_done else []
    if _PROOF.sub("", row.proof).strip(", ") or not row.tests:
        return [f"no proof: {row.proof!r}"]
    return [f"no test {name} in {path}" for path, name in row.tests if name not in names_in(path)]


@pytest.fixture(scope="module")
def table() -> list[Row]:
    return rows(PAGE.read_text())


def test_every_row_is_proven(table: list[Row]) -> None:
    wrong = [f"coverage.md:{row.line}: {row.named}: {gap}" for row in table for gap in gaps(row)]
    assert not wrong, "\n".join(wrong)


def test_every_document_has_its_rows(table: list[Row]) -> None:
    assert {row.document for row in table} == set(NAMED)


@pytest.mark.parametrize("document", NAMED)
def test_no_name_was_dropped(table: list[Row], document: str) -> None:
    text = "\n".join(row.named for row in table if row.document == document)
    assert [name for name in NAMED[document] if name not in text] == []


def test_nothing_is_told_twice(table: list[Row]) -> None:
    told = [(row.document, row.named) for row in table]
    assert [each for each in set(told) if told.count(each) > 1] == []


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ("", "no proof"),
        ("part 7", "no proof"),
        ("see above", "no proof"),
        ("`tests/docs/test_coverage.py::test_every_row_is_proven`, later", "no proof"),
        ("`tests/docs/test_coverage.py::test_nowhere`", "no test test_nowhere"),
        ("`tests/docs/test_nowhere.py::test_a`", "no test test_a in tests/docs/test_nowhere.py"),
        ("part 6", "nothing waits"),
    ],
)
def test_a_gap_is_found(proof: str, said: str) -> None:
    (gap,) = gaps(Row(1, "XT's life cycle", "a step", "a command", proof))
    assert said in gap


def test_a_proof_may_be_several_tests() -> None:
    proof = (
        "`tests/docs/test_coverage.py::test_every_row_is_proven`, `tests/docs/test_coverage.py::test_a_gap_is_found`"
    )
    assert gaps(Row(1, "XT's life cycle", "a step", "a command", proof)) == []
