"""Bytes from nodes: output and spools arrive torn, late, twice or not at all, and are stored once, without a gap."""

from __future__ import annotations

import json
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.storing import (
    Lab,
    captured,
    ended,
    framed,
    logged,
    output,
    running,
    spool,
)
from tests.integration.storing import lab as lab
from turnout.store import reads
from turnout.wire import frames

#: One store serves all examples of a test; each begins with a run of its own.
several_examples = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip


# Output


def test_output_is_kept_byte_for_byte(lab: Lab) -> None:
    agent, grant = lab.started()
    content = bytes(range(256)) * 40
    receipt = agent.tell(output(grant, content[:1000]))
    assert receipt.acks == {f"{grant.run}.1/output": 1000}
    receipt = agent.tell(output(grant, content[1000:], 1000))
    assert receipt.acks == {f"{grant.run}.1/output": len(content)}
    assert lab.output("run1") == content


def test_the_part_that_is_known_already_is_passed_over(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(output(grant, b"abcdef"))
    receipt = agent.tell(output(grant, b"defghi", 3))
    assert receipt.acks == {f"{grant.run}.1/output": 9}
    agent.tell(output(grant, b"cd", 2))
    assert lab.output("run1") == b"abcdefghi"


def test_what_lies_beyond_a_gap_is_not_taken(lab: Lab) -> None:
    """The answer says how much is here; the agent sends again from there."""
    agent, grant = lab.started()
    agent.tell(output(grant, b"abc"))
    receipt = agent.tell(output(grant, b"ghi", 6))
    assert receipt.acks == {f"{grant.run}.1/output": 3}
    assert lab.output("run1") == b"abc"


def test_several_pieces_in_one_report(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(output(grant, b"ab"), output(grant, b"cd", 2), output(grant, b"cdef", 2), output(grant, b"x", 9))
    assert lab.output("run1") == b"abcdef"


def test_each_attempt_has_its_own_output(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(output(grant, b"first"))
    lab.lose(agent)
    (again,) = agent.take()
    agent.tell(output(again, b"second"))
    assert (lab.output("run1", 1), lab.output("run1", 2)) == (b"first", b"second")


@several_examples
@given(content=st.binary(min_size=1, max_size=60), cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30))))
def test_whatever_arrives_what_is_stored_is_a_beginning(lab: Lab, content: bytes, cuts: list[tuple[int, int]]) -> None:
    """Pieces in any order, lost, repeated, overlapping: the stored bytes are always a prefix, and only ever grow."""
    lab.clear()
    agent, grant = lab.started()
    for start, size in cuts:
        before = lab.output("run1")
        piece = content[start : start + size]
        have = agent.tell(output(grant, piece, start)).acks[f"{grant.run}.1/output"]
        stored = lab.output("run1")
        assert content.startswith(stored) and stored.startswith(before)
        assert have == len(stored) == max(len(before), start + len(piece) if start <= len(before) else 0)


def test_any_part_of_output_can_be_read(lab: Lab) -> None:
    agent, grant = lab.started()
    for start, piece in ((0, b"abc"), (3, b"def"), (6, b"ghij")):
        agent.tell(output(grant, piece, start))
    for offset, most in ((0, 5), (3, 4), (2, 6), (9, 100), (10, 100), (11, 5), (0, 0)):
        with lab.store.read() as connection:
            found = reads.read_output(connection, grant.run, 1, offset, most)
        assert found == b"abcdefghij"[offset : offset + most]


def test_a_run_ends_only_when_all_of_its_output_is_here(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant), output(grant, b"hello "), ended(grant))
    receipt = agent.tell(captured(grant, b"hello world"))
    assert receipt.refused == [f"{grant.run}.1/captured"] and receipt.closed == set()
    assert lab.states("run1") == ["finishing"]
    receipt = agent.tell(output(grant, b"world", 6), captured(grant, b"hello world"))
    assert receipt.refused == [] and lab.states("run1") == ["completed"]
    assert lab.output("run1") == b"hello world"


def test_a_run_ends_only_when_its_output_is_what_the_node_has(lab: Lab) -> None:
    agent, grant = lab.started()
    receipt = agent.tell(running(grant), output(grant, b"hello worms"), ended(grant), captured(grant, b"hello world"))
    assert receipt.refused == [f"{grant.run}.1/captured"]
    assert lab.states("run1") == ["finishing"]


def test_a_run_without_output_ends(lab: Lab) -> None:
    agent, grant = lab.started()
    assert agent.run(grant).refused == []
    assert lab.states("run1") == ["completed"] and lab.output("run1") == b""


# Spools


def test_a_torn_frame_is_taken_once_it_is_whole(lab: Lab) -> None:
    agent, grant = lab.started()
    content = framed(logged(0, loss=0.5), logged(1, loss=0.25))
    first = len(framed(logged(0, loss=0.5)))
    receipt = agent.tell(spool(grant, content[:-3]))
    assert receipt.acks == {f"{grant.run}.1/track/1-a.0000": first}
    assert list(lab.series("run1", "loss").values) == [0.5]
    agent.tell(spool(grant, content[first:], first))
    assert list(lab.series("run1", "loss").values) == [0.5, 0.25]


def test_reading_stops_at_a_damaged_frame(lab: Lab) -> None:
    agent, grant = lab.started()
    good, bad = framed(logged(0, loss=0.5)), bytearray(framed(logged(1, loss=9.0), first=1))
    bad[-1] ^= 1
    receipt = agent.tell(spool(grant, good + bytes(bad) + framed(logged(2, loss=9.0), first=2)), output(grant, b"fine"))
    assert receipt.acks == {f"{grant.run}.1/track/1-a.0000": len(good), f"{grant.run}.1/output": 4}
    assert list(lab.series("run1", "loss").values) == [0.5]


def test_a_frame_out_of_turn_is_not_taken(lab: Lab) -> None:
    agent, grant = lab.started()
    receipt = agent.tell(spool(grant, framed(logged(0, loss=0.5), first=1)))
    assert receipt.acks == {f"{grant.run}.1/track/1-a.0000": 0}
    assert lab.show("run1")["metrics"] == {}


def test_each_writer_of_a_run_counts_for_itself(lab: Lab) -> None:
    agent, grant = lab.started()
    for writer in ("1-a.0000", "1-a.0001", "2-b.0000"):
        agent.tell(spool(grant, framed(logged(None, loss=1.0)), writer=writer))
    assert len(lab.series("run1", "loss")) == 3


@several_examples
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    order=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 200)), max_size=25),
)
def test_every_point_is_stored_exactly_once(lab: Lab, sizes: list[int], order: list[tuple[int, int]]) -> None:
    """However the bytes of a spool are cut, repeated and lost, at the end each record was taken once."""
    lab.clear()
    agent, grant = lab.started()
    count = sum(sizes)
    content = framed(*(logged(step, loss=float(step)) for step in range(count)))
    for start, size in order:
        agent.tell(spool(grant, content[start : start + size], min(start, len(content))))
    have = agent.tell(spool(grant, b"")).acks[f"{grant.run}.1/track/1-a.0000"]
    agent.tell(spool(grant, content[have:], have))
    assert list(lab.series("run1", "loss").steps) == list(range(count))


#: What a program may write into its spool by itself, and each database must survive: nothing of it is stored, or
#: something harmless is, and what others say in the same report stands.
ODD: dict[str, bytes] = {
    "no JSON": b"nonsense",
    "no object": b"[1, 2]",
    "nothing of ours": b'{"x": 1}',
    "metrics that are none": b'{"t": 1, "m": 5}',
    "no time": b'{"m": {"a": 1}}',
    "a time out of range": b'{"t": %s, "m": {"a": 1}}' % (b"9" * 400),
    "an endless time": b'{"t": Infinity, "m": {"a": 1}}',
    "a step out of range": b'{"t": 1, "s": %d, "m": {"a": 1}}' % 2**70,
    "a step that is none": b'{"t": 1, "s": "x", "m": {"a": 1}}',
    "values that are none": b'{"t": 1, "m": {"a": "x", "b": null, "c": [1], "d": {}}}',
    "an integer out of range": b'{"t": 1, "m": {"a": %s}}' % (b"9" * 400),
    "an integer of too many digits": b'{"t": 1, "m": {"a": %s}}' % (b"9" * 9000),
    "NUL in a metric's name": b'{"t": 1, "m": {"a\\u0000b": 1}}',
    "half a pair in a metric's name": b'{"t": 1, "m": {"a\\ud800": 1}}',
    "two names that become one": b'{"t": 1, "m": {"a\\u0000": 1, "a\\ufffd": 2}}',
    "a long metric's name": b'{"t": 1, "m": {"%s": 1}}' % bytes(Random(1).choices(range(97, 123), k=9000)),
    "NUL in parameters": b'{"p": {"a\\u0000": "b\\u0000", "a\\ufffd": 1}}',
    "half a pair in parameters": b'{"p": {"a\\ud800": "b\\ud800"}}',
    "NUL in tags": b'{"g": {"a\\u0000": "b\\u0000", "a\\ufffd": "c"}}',
    "half a pair in tags": b'{"g": {"a\\ud800": "b\\ud800"}}',
    "parameters that are none": b'{"p": 5}',
    "tags that are none": b'{"g": [1]}',
    "a tag that is none": b'{"g": {"a": {"b": 1}}}',
    "thousands of parameters": b'{"p": {%s}}' % b",".join(b'"k%d":1' % index for index in range(33_000)),
    "nested parameters": b'{"p": {"a": %s}}' % (b"[" * 900 + b"]" * 900),
    "a number that is none": b'{"p": {"a": NaN, "b": Infinity, "c": %s}}' % (b"9" * 400),
}  # fmt: skip


def test_nothing_a_program_writes_stops_the_reports_of_its_node(lab: Lab) -> None:
    names = lab.submit(*[("x",)] * len(ODD))
    agent = lab.agent()
    for name, grant, (what, odd) in zip(names, agent.take(), ODD.items(), strict=True):
        content = frames.encode(0, odd) + framed(logged(0, good=1.0), first=1)
        receipt = agent.tell(spool(grant, content), output(grant, b"fine"))
        assert receipt.acks[f"{grant.run}.1/track/1-a.0000"] == len(content), what
        view = lab.show(name)
        assert view["metrics"]["good"] == 1.0 and lab.output(name) == b"fine", what
        json.dumps(view).encode()


def test_depth_that_can_just_be_read_can_be_written(lab: Lab) -> None:
    """Near the end of the stack reading a value and writing it down need not both succeed; here both never fail."""
    agent, grant = lab.started()
    depths = [*range(30, 36), *range(900, 1000, 3)]
    content = b"".join(
        frames.encode(seq, b'{"p": {"d%d": %s}}' % (depth, b"[" * depth + b"]" * depth))
        for seq, depth in enumerate(depths)
    )
    assert agent.tell(spool(grant, content)).acks == {f"{grant.run}.1/track/1-a.0000": len(content)}
    assert set(lab.show("run1")["params"]) == {"d30", "d31", "d32"}


# Metrics, parameters, tags


def points(*values: float, first: int = 0) -> bytes:
    return framed(*(logged(step, loss=value) for step, value in enumerate(values, first)), first=first)


def test_a_long_series_is_kept_in_chunks(lab: Lab) -> None:
    """Chunks are 1,024 points; the numbers below lie on, before and behind that boundary."""
    agent, grant = lab.started()
    values = [float(index % 97) for index in range(3100)]
    have = 0
    for count in (1, 1022, 1, 1, 1023, 1024, 28):
        part = points(*values[have : have + count], first=have)
        offset = len(points(*values[:have]))
        agent.tell(spool(grant, part, offset))
        have += count
        assert list(lab.series("run1", "loss").values) == values[:have]
    assert list(lab.series("run1", "loss").steps) == list(range(3100))
    assert sorted(row[3] for row in lab.everything()["metric_chunks"]) == [28, 1024, 1024, 1024]
    assert lab.show("run1")["metrics"] == {"loss": values[-1]}


def test_several_metrics_and_runs_in_one_report(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    agent = lab.agent()
    one, two = agent.take()
    agent.tell(spool(one, framed(logged(0, loss=1.0, acc=0.5))), spool(two, framed(logged(0, loss=2.0))))
    agent.tell(spool(one, framed(logged(1, loss=3.0), first=1), len(framed(logged(0, loss=1.0, acc=0.5)))))
    assert lab.show("run1")["metrics"] == {"loss": 3.0, "acc": 0.5}
    assert lab.show("run2")["metrics"] == {"loss": 2.0}


def test_the_event_names_what_is_new(lab: Lab) -> None:
    agent, grant = lab.started()
    first = framed(logged(0, loss=1.0))
    agent.tell(spool(grant, first))
    agent.tell(spool(grant, framed(logged(1, loss=1.0), logged(1, acc=2.0), first=1), len(first)))
    events = lab.read(lambda connection: reads.run_events(connection, grant.run))
    assert [event["data"] for event in events if event["event"] == "metrics"] == [
        {"names": ["loss"]},
        {"names": ["acc"]},
    ]


def test_points_without_a_step_are_counted(lab: Lab) -> None:
    agent, grant = lab.started()
    first = framed(logged(None, loss=1.0), logged(None, loss=1.0), logged(10, loss=1.0))
    agent.tell(spool(grant, first))
    agent.tell(spool(grant, framed(logged(None, loss=1.0), logged(None, other=1.0), first=3), len(first)))
    assert list(lab.series("run1", "loss").steps) == [0, 1, 10, 11]
    assert list(lab.series("run1", "other").steps) == [0]


def test_what_is_not_finite_is_kept_but_no_summary(lab: Lab) -> None:
    agent, grant = lab.started()
    nan, inf = float("nan"), float("inf")
    content = points(nan, 3.0, 1.0, inf, -inf)
    agent.tell(spool(grant, content))
    assert [repr(value) for value in lab.series("run1", "loss").values] == ["nan", "3.0", "1.0", "inf", "-inf"]
    assert lab.show("run1")["metrics"] == {"loss": None}
    (row,) = lab.everything()["metrics"]
    assert row[2:5] == (None, 1.0, 3.0)
    agent.tell(spool(grant, points(2.0, first=5), len(content)))
    assert lab.show("run1")["metrics"] == {"loss": 2.0}


def test_a_metric_that_never_was_a_number_has_no_value(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(spool(grant, points(float("nan"))))
    assert lab.show("run1")["metrics"] == {"loss": None}


def test_a_program_that_invents_names_does_not_fill_the_store(lab: Lab) -> None:
    """10,000 metrics a run are kept; what comes under further names is dropped, and leaves nothing behind."""
    agent, grant = lab.started()
    first = framed({"t": 1, "m": {f"m{index}": index for index in range(9_999)}})
    agent.tell(spool(grant, first))
    second = framed({"t": 1, "m": {"last": 1, **{f"n{index}": 1 for index in range(500)}, "m5": -5}}, first=1)
    agent.tell(spool(grant, second, len(first)))
    found = lab.show("run1")["metrics"]
    assert len(found) == 10_000 and found["last"] == 1 and found["m5"] == -5
    assert len(lab.everything()["metric_names"]) == 10_000


def test_the_newest_parameters_count(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(spool(grant, framed({"p": {"lr": 0.1, "net": "a"}}, {"p": {"lr": 0.2}})))
    assert lab.show("run1")["params"] == {"lr": 0.2, "net": "a"}
    events = lab.read(lambda connection: reads.run_events(connection, grant.run))
    assert [event["data"] for event in events if event["event"] == "hparams"] == [{"lr": 0.1, "net": "a"}, {"lr": 0.2}]


def test_what_a_program_records_replaces_what_was_submitted(lab: Lab) -> None:
    lab.submit(tags={"stage": "new", "owner": "me"})
    agent = lab.agent()
    (grant,) = agent.take()
    agent.tell(spool(grant, framed({"g": {"stage": "old", "n": 5}})))
    assert lab.show("run1")["tags"] == {"stage": "old", "owner": "me", "n": "5"}
    assert lab.event("run1", "tags") == {"stage": "old", "n": "5"}


def test_a_parameter_comes_back_as_it_was(lab: Lab) -> None:
    values = [1, "1", 1.5, True, None, "", [1, 2], {"a": {"b": []}}, 2**80, 1e308, 'ünïcödé ☃ "quoted" \\ \n']
    agent, grant = lab.started()
    agent.tell(spool(grant, framed({"p": {f"x{index}": value for index, value in enumerate(values)}})))
    found = lab.show("run1")["params"]
    assert [repr(found[f"x{index}"]) for index in range(len(values))] == [repr(value) for value in values]


def test_a_run_that_records_too_much_goes_on_and_is_told_once(lab: Lab) -> None:
    agent, grant = lab.started()
    many = [{"p": {f"p{part}.{number}": number for number in range(400)}} for part in range(5)]
    receipt = agent.tell(spool(grant, framed(*many, {"g": {"note": "x" * 200_000}}, {"g": {"stage": "final"}})))
    assert list(receipt.acks.values()) != [0] and not receipt.fenced and not receipt.refused
    (run,) = lab.read(lambda connection: reads.show_runs(connection, [grant.run]))
    assert len(run["params"]) == 1000 and run["tags"] == {"stage": "final"}
    assert lab.events(grant.name).count("refused") == 2
