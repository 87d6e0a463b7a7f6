"""Reference pages say what the program says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from turnout.model.event import EventName
from turnout.model.state import Reason, RunState
from turnout.query import COLUMNS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_commands_is_up_to_date() -> None:
    argv = [sys.executable, str(ROOT / "scripts" / "make-reference"), "--check"]
    checked = subprocess.run(argv, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_every_column_is_on_the_page_of_filters() -> None:
    page = (ROOT / "docs" / "reference" / "filters.md").read_text()
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []


def test_every_state_reason_and_event_is_on_the_page_of_states() -> None:
    page = (ROOT / "docs" / "explanation" / "states.md").read_text()
    marked = [f"`{name}`" for name in (*Reason, *EventName)]
    assert [name for name in (*marked, *RunState) if name not in page] == []
