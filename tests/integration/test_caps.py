"""A run that records without end: what is too much is left out and told once; what it has stays, and it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.engine.caps import Caps
from turnout.model.event import EventName
from turnout.model.limits import MOST_BYTES, MOST_NAMES
from turnout.store import reads
from turnout.store.amounts import Kind
from turnout.store.ledger import Ledger
from turnout.store.values import set_params, set_tags
from turnout.store.writer import Tx

SET: dict[str, Any] = {"params": set_params, "tags": set_tags}


@pytest.fixture
def run(lab: Lab) -> int:
    return lab.started()[1].run


def record(lab: Lab, run: int, kind: Kind, *given: Mapping[str, object]) -> list[dict[str, object]]:
    """One transaction in which a run records all of these; what was kept of each."""

    def work(tx: Tx) -> list[dict[str, object]]:
        ledger = Ledger(tx)
        ledger.load([run])
        caps = Caps(tx, ledger)
        kept = []
        for each in given:
            kept.append(caps.admit(run, kind, each))
            SET[kind](tx, run, kept[-1])
        ledger.flush()
        return kept

    return lab.store.write(work)


def refusals(lab: Lab, run: int) -> list[dict[str, Any]]:
    events = lab.read(lambda connection: reads.run_events(connection, run))
    return [event["data"] for event in events if event["event"] == "refused"]


@pytest.mark.parametrize("kind", ["params", "tags"])
class TestBoth:
    def test_what_fits_is_kept(self, lab: Lab, run: int, kind: Kind) -> None:
        given = {"a": "1", "b": "2"}
        assert record(lab, run, kind, given) == [given]
        assert refusals(lab, run) == []

    def test_too_many(self, lab: Lab, run: int, kind: Kind) -> None:
        many = {f"n{number}": "v" for number in range(MOST_NAMES - 1)}
        first, second = record(lab, run, kind, many, {"last": "v", "over": "v"})
        assert (len(first), second) == (MOST_NAMES - 1, {"last": "v"})
        assert record(lab, run, kind, {"again": "v", "last": "changed"}) == [{"last": "changed"}]
        (told,) = refusals(lab, run)
        assert (told["what"], told["names"]) == (kind, ["over"]) and "1000" in told["why"]

    def test_too_much(self, lab: Lab, run: int, kind: Kind) -> None:
        half = "x" * (MOST_BYTES // 2)
        (kept,) = record(lab, run, kind, {"a": half, "b": half, "c": "small"})
        assert kept.keys() == {"a", "c"}
        assert record(lab, run, kind, {"a": "less"}, {"b": half}) == [{"a": "less"}, {"b": half}]
        assert record(lab, run, kind, {"b": half * 3}) == [{}], "a value that grows too large leaves the old one"
        assert len(refusals(lab, run)) == 1


def test_each_kind_is_told_of_once_however_often_it_happens(lab: Lab, run: int) -> None:
    large = {"large": "x" * (MOST_BYTES + 1)}
    for _ in range(3):
        record(lab, run, "params", large, large)
        record(lab, run, "tags", large)
    assert [told["what"] for told in refusals(lab, run)] == ["params", "tags"]


def test_a_history_that_is_full_takes_no_more_of_it(lab: Lab, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.engine.caps.MOST_EVENTS", 20)

    def record_step(tx: Tx) -> None:
        ledger = Ledger(tx)
        ledger.load([run])
        caps = Caps(tx, ledger)
        for step in range(10):
            caps.note(run, EventName.HPARAMS, {"step": step})
        ledger.flush()

    for _ in range(4):
        lab.store.write(record_step)
    names = [event["event"] for event in lab.read(lambda connection: reads.run_events(connection, run))]
    assert len(names) == 22 and names[-2:] == ["hparams", "refused"]
    assert refusals(lab, run)[0]["what"] == "events"
