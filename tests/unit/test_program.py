"""The agent as one file."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from turnout.engine.program import build


def test_two_may_want_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, write = threading.Barrier(2), Path.write_bytes

    def write_at_the_same_time(path: Path, content: bytes) -> int:
        written = write(path, content)
        gate.wait(20)
        return written

    monkeypatch.setattr(Path, "write_bytes", write_at_the_same_time)
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(build, [tmp_path, tmp_path]))
    assert made[0] == made[1] and list(tmp_path.iterdir()) == [made[0]]
