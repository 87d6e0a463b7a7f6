"""The steps of a pipeline in a terminal: a line for each, never wider than that."""

from __future__ import annotations

from typing import Any

import pytest

from turnout.cli import render
from turnout.cli.board import Board, _rows


def step(name: str, **fields: Any) -> dict[str, Any]:
    counts = {"cancelled": 1, "queued": 2, "running": 1}
    return {"name": name, "runs": 4, "done": 1, "is_late": False, "live": 3, "counts": counts, "needs": [], **fields}


STEPS = [
    step("fetch_reference", done=4, live=0, counts={"completed": 4}),
    step("align_reads"),
    step("quality_control_of_all_reads", counts={"created": 4}, needs=["align_reads", "fetch_reference"]),
    step("品質" * 20),
    step("x" * 79, is_late=True, runs=0, done=0),
]


@pytest.mark.parametrize("columns", [200, 110, 80, 60, 46, 40, 30, 20])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    """What goes back over them counts each as one."""
    rows = _rows(STEPS, 20, columns - 1)
    assert len(rows) == len(STEPS) and max(map(render.width, rows)) < columns, rows
    assert all(row.lstrip().startswith(each["name"][:2]) for row, each in zip(rows, STEPS, strict=True))
    assert [word for row in rows for word in row.split() if "/" in word] == ["4/4", "1/4", "1/4", "1/4", "0/?"]


def test_what_there_is_room_for_is_said() -> None:
    assert _rows(STEPS, 20, 199)[1].endswith("1 cancelled, 2 queued, 1 running")
    assert _rows(STEPS[1:3], 20, 79)[0].endswith("…"), "cut"


def test_the_next_view_is_drawn_over_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    board, view = Board(), {"name": "job1", "done": 1, "runs": 20, "steps": STEPS}
    board.show(view, 1.0)
    board.show(view, 2.0)
    assert f"\x1b[{len(STEPS) + 1}A" in capsys.readouterr().err
