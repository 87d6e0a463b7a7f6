"""Messages between agent and hub as they travel."""

from __future__ import annotations

import json

import pytest

from turnout.wire import messages

POLL = messages.Poll(slots=1.0, memory=1, gpus=0, held=[], jobs=[], wait=0.0)


@pytest.mark.parametrize(
    ("said", "arrives"),
    [
        ("plain", "plain"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
        ("\udce9\udce8", "\ufffd\ufffd"),
        ("train \N{STEAM LOCOMOTIVE}", "train \N{STEAM LOCOMOTIVE}"),
        ("\ud83d alone", "\ufffd alone"),
    ],
)
def test_half_characters_do_not_make_a_report_unreadable(said: str, arrives: str) -> None:
    fact = messages.Fact(1, 1, "ended", 0.0, {"message": said})
    head, _ = messages.split_report(messages.pack_report(messages.Report([fact], [], POLL), []))
    assert json.loads(head)["facts"][0]["body"] == {"message": arrives}


def test_an_argument_that_is_no_text_reaches_the_node_as_it_is() -> None:
    assert json.loads(messages.dump({"argv": ["caf\udce9"]})) == {"argv": ["caf\udce9"]}


def test_a_report_and_its_bytes_come_apart_again() -> None:
    report = messages.Report([], [messages.Chunk(1, 1, "output", 0, 3)], POLL)
    head, payload = messages.split_report(messages.pack_report(report, [b"abc"]))
    assert json.loads(head)["chunks"][0]["size"] == 3
    assert bytes(payload) == b"abc"


@pytest.mark.parametrize("body", [b"", b"\1", b"\xff\0\0\0{}"])
def test_a_report_that_is_cut_short_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        messages.split_report(body)
