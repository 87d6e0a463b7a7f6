"""A submission becomes a job and its runs: once, durably, and all in the queue."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import pytest

from tests.integration.storing import Lab, at_once, job_spec
from tests.integration.storing import lab as lab
from turnout.engine.submit import Submission, submit
from turnout.engine.take import job_orders
from turnout.errors import InvalidInput
from turnout.model.spec import JobSpec, RunSpec
from turnout.store import reads, tallies
from turnout.store.search import find_runs
from turnout.store.store import Store


def send(store: Store, spec: JobSpec, key: str, body: bytes = b"", principal: str = "user") -> dict[str, Any]:
    order = Submission(spec=spec, principal=principal, key=key, body=body)
    return store.write(lambda tx: submit(tx, order))


def test_the_answer_names_the_job_and_its_runs(lab: Lab) -> None:
    assert send(lab.store, job_spec(("a",)), "1") == {"job": "job1", "runs": ["run1"]}
    assert send(lab.store, job_spec(("b",), ("c",)), "2") == {"job": "job2", "runs": ["run2", "run3"]}


def test_what_is_acknowledged_is_in_the_queue(lab: Lab) -> None:
    (name,) = lab.submit(("train", "--lr", "0.1"))
    view = lab.show(name)
    assert (view["state"], view["attempts"], view["node"]) == ("queued", 0, None)
    assert view["command"] == ["train", "--lr", "0.1"]
    assert view["created"] == view["queued"] and view["started"] is None
    assert lab.events(name) == ["created", "capture_before", "queued"]


def test_what_was_asked_for_is_shown(lab: Lab) -> None:
    (name,) = lab.submit(
        target="gpu-box", experiment="vision", workspace="team", label="first", priority=7, tags={"stage": "final"},
        runs=(RunSpec(argv=("x",), params={"lr": 0.1, "net": "résnet", "deep": [1, {"a": None}]}),),
    )  # fmt: skip
    view = lab.show(name)
    assert [view[key] for key in ("target", "experiment", "workspace", "label", "priority")] == [
        "gpu-box", "vision", "team", "first", 7,
    ]  # fmt: skip
    assert view["tags"] == {"stage": "final"}
    assert view["params"] == {"lr": 0.1, "net": "résnet", "deep": [1, {"a": None}]}
    assert lab.show("first")["name"] == name


def test_a_run_may_have_a_label_of_its_own(lab: Lab) -> None:
    lab.submit(label="sweep", runs=(RunSpec(argv=("x",)), RunSpec(argv=("y",), label="best")))
    assert [lab.show(name)["label"] for name in ("run1", "run2")] == ["sweep", "best"]


def test_the_frozen_files_are_an_event_of_every_run_but_stored_once(lab: Lab) -> None:
    names = lab.submit(("a",), ("b",), before="d" * 64, before_files=3, before_bytes=99)
    for name in names:
        assert lab.event(name, "capture_before") == {"snapshot": "d" * 64, "files": 3, "bytes": 99}
    assert len([row for row in lab.everything()["job_events"] if "capture_before" in row]) == 1


def test_ten_thousand_runs_are_one_job(lab: Lab) -> None:
    names = lab.submit(*((f"./run{index}", "--index", str(index)) for index in range(10_000)))
    assert names == [f"run{number}" for number in range(1, 10_001)]
    assert lab.show("run10000")["command"] == ["./run9999", "--index", "9999"]
    assert lab.read(lambda connection: tallies.job_counts(connection, [1])) == {1: {"queued": 10_000}}
    newest = lab.read(lambda connection: find_runs(connection, None, None, limit=3, offset=0))
    assert newest == [lab.id("run10000"), lab.id("run9999"), lab.id("run9998")]


def test_the_same_key_is_the_same_submission(lab: Lab) -> None:
    first = send(lab.store, job_spec(("a",)), "key", b"body")
    before = lab.everything()
    assert send(lab.store, job_spec(("a",)), "key", b"body") == first
    assert lab.everything() == before


def test_a_key_belongs_to_who_used_it(lab: Lab) -> None:
    assert send(lab.store, job_spec(), "key", b"body", "ann")["job"] == "job1"
    assert send(lab.store, job_spec(), "key", b"body", "bob")["job"] == "job2"


def test_a_key_cannot_be_used_for_something_else(lab: Lab) -> None:
    send(lab.store, job_spec(("a",)), "key", b"body")
    before = lab.everything()
    with pytest.raises(InvalidInput, match="idempotency key"):
        send(lab.store, job_spec(("b",)), "key", b"another body")
    assert lab.everything() == before


def test_environments_are_kept_once_and_reach_only_the_node(lab: Lab) -> None:
    secret = {"env": {"API_TOKEN": "hunter2"}, "inherited_env": {"PATH": "/secret/bin"}}
    lab.submit(**secret)
    lab.submit(**secret)
    lab.submit(env={"API_TOKEN": "other"})
    assert len(lab.everything()["environments"]) == 2
    orders = lab.read(lambda connection: job_orders(connection, {1: 1, 3: 3}))
    assert orders[1].env == {"API_TOKEN": "hunter2", "PATH": "/secret/bin"}
    assert orders[3].env == {"API_TOKEN": "other"}


def test_what_is_shown_has_names_of_variables_but_no_values(lab: Lab) -> None:
    (name,) = lab.submit(env={"API_TOKEN": "hunter2"}, inherited_env={"PATH": "/secret/bin"})
    run = lab.id(name)
    shown = lab.read(
        lambda connection: [
            reads.show_runs(connection, [run]), reads.show_jobs(connection, [1]), reads.run_events(connection, run),
        ]
    )  # fmt: skip
    assert "hunter2" not in json.dumps(shown) and "/secret/bin" not in json.dumps(shown)
    assert lab.read(lambda connection: reads.show_jobs(connection, [1]))[0]["env"] == ["API_TOKEN"]


def test_a_run_that_is_to_be_repeated_is_one_parent(lab: Lab) -> None:
    assert lab.submit(repeat=5) == ["run1"]
    assert (lab.show("run1")["remaining"], lab.show("run1")["children"]) == (5, [])
    assert lab.read(lambda connection: tallies.job_counts(connection, [1])) == {1: {"queued": 5}}


def test_long_texts_are_no_problem(lab: Lab) -> None:
    """Indexes hold the beginning of a text alone: a database refuses to index what is long and does not compress."""
    text = "".join(Random(1).choices('abcdefghijklmnopqrstuvwxyzäöü"\\', k=20_000))
    (name,) = lab.submit(tags={"note": text}, runs=(RunSpec(argv=(text,), params={"prompt": text}),))
    view = lab.show(name)
    assert view["tags"] == {"note": text} and view["params"] == {"prompt": text} and view["command"] == [text]


def test_two_hubs_never_give_a_number_twice(lab: Lab) -> None:
    """From the very first number on, and without a gap."""

    def send_many(store: Store, who: int) -> list[dict[str, Any]]:
        spec = job_spec(("a",), ("b",), env={"SAME": "one"})
        return [send(store, spec, f"{who}-{turn}") for turn in range(15)]

    with lab.twin() as other:
        stores = [lab.store, other.store] * 2
        answers = list(chain(*at_once(*(partial(send_many, store, who) for who, store in enumerate(stores)))))
    assert sorted(int(answer["job"][3:]) for answer in answers) == list(range(1, 61))
    assert sorted(int(run[3:]) for answer in answers for run in answer["runs"]) == list(range(1, 121))


def test_the_same_key_at_two_hubs_at_once_is_one_submission(lab: Lab) -> None:
    with lab.twin() as other:
        for turn in range(1, 11):
            sends = (partial(send, store, job_spec(), f"key{turn}", b"body") for store in (lab.store, other.store))
            assert at_once(*sends) == [{"job": f"job{turn}", "runs": [f"run{turn}"]}] * 2
