"""The files between NNI's library and a run: what is read from them, whatever is in them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnout.compat.nni.measures import records_of
from turnout.store.metrics import RunMetrics, collect
from turnout.wire import nni

#: As the library, version 3.0, writes them: a number, one of numpy's arrays without dimensions, several, a final one.
WRITTEN = (
    b'ME000095{"parameter_id": 7, "trial_job_id": "T1", "type": "PERIODICAL", "sequence": 0, "value": "0.5"}\n'
    b'ME000153{"parameter_id": 7, "trial_job_id": "T1", "type": "PERIODICAL", "sequence": 4, '
    b'"value": "{\\"__ndarray__\\": 1.5, \\"dtype\\": \\"float64\\", \\"shape\\": []}"}\n'
    b'ME000149{"parameter_id": 7, "trial_job_id": "T1", "type": "PERIODICAL", "sequence": 5, '
    b'"value": "{\\"default\\": 1.0, \\"x\\": [1], \\"y\\": \\"s\\", \\"z\\": true}"}\n'
    b'ME000119{"parameter_id": 7, "trial_job_id": "T1", "type": "FINAL", "sequence": 0, '
    b'"value": "{\\"default\\": 1, \\"\\\\u00fc\\": 2}"}\n'
)
READ = [
    {"t": 9.0, "s": 0, "m": {"default": 0.5}},
    {"t": 9.0, "s": 4, "m": {"default": 1.5}},
    {"t": 9.0, "s": 5, "m": {"default": 1.0, "z": 1.0}},
    {"t": 9.0, "m": {"default": 1.0, "ü": 2.0}},
]


def written(value: object, *, kind: str = "PERIODICAL", sequence: object = 0) -> bytes:
    line = json.dumps({"type": kind, "sequence": sequence, "value": json.dumps(value)}).encode() + b"\n"
    return b"ME%06d%b" % (len(line), line)


def read(content: bytes) -> list[dict[str, Any]]:
    return nni.records(content, 9.0)[0]


def test_what_the_library_writes_is_read() -> None:
    assert nni.records(WRITTEN, 9.0) == (READ, len(WRITTEN))


def test_what_is_read_is_taken_as_metrics() -> None:
    into: RunMetrics = {}
    for record in read(WRITTEN):
        collect(into, 1, record)
    assert list(into[1, "default"].values) == [0.5, 1.5, 1.0, 1.0]
    assert list(into[1, "default"].steps) == [0, 4, 5, -1]


@given(st.lists(st.integers(0, len(WRITTEN)), max_size=6))
def test_however_it_comes_in_pieces(cuts: list[int]) -> None:
    found, start = [], 0
    for end in [*sorted(cuts), len(WRITTEN)]:
        records, taken = nni.records(WRITTEN[start:end], 9.0)
        found += records
        start += taken
    assert found == READ and start == len(WRITTEN)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_kept(value: float) -> None:
    ((record,), _) = nni.records(written({"default": value}), 9.0)
    assert repr(record["m"]["default"]) == repr(value)


@pytest.mark.parametrize(
    "content",
    [
        written(1, kind="REQUEST_PARAMETER"),
        written("text"), written(None), written([1]), written({"default": "x"}), written(10**400),
        written({"__ndarray__": [1, 2], "dtype": "float64", "shape": [2]}),
        b"ME000010[1, 2, 3]\n", b"hello\n", b"\n", b"ME\n", b"ME999999{}\n", b"ME000003{}\n",
        b"ME%06d" % 100_001 + b'{"a":' + b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
def test_what_is_no_metric_is_passed_over(content: bytes) -> None:
    assert nni.records(content + WRITTEN, 9.0) == (READ, len(content + WRITTEN))


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 50, 100])
def test_a_record_that_was_never_ended_hides_no_other(length: int) -> None:
    assert read(WRITTEN[:length] + WRITTEN) == READ


def test_a_name_that_looks_like_a_record_is_a_name() -> None:
    inner = written(2.0).decode()
    assert read(written({inner: 1.0})) == [{"t": 9.0, "s": 0, "m": {inner: 1.0}}]


@pytest.mark.parametrize("sequence", [-1, 2**62, 1.0, None, "0", True])
def test_a_number_that_can_be_no_step_is_none(sequence: object) -> None:
    assert read(written(1.0, sequence=sequence)) == [{"t": 9.0, "m": {"default": 1.0}}]


def test_a_line_without_end_does_not_hold_up_the_rest() -> None:
    endless = b"x" * (nni.LONGEST + 10)
    records, taken = nni.records(endless, 9.0)
    assert records == [] and taken == 10
    assert read(endless[taken:] + b"\n" + WRITTEN) == READ


@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"ME000002", b"{}\n")
def test_nothing_makes_it_fail_or_go_back(before: bytes, behind: bytes) -> None:
    content = before + b"\n" + WRITTEN + behind
    records, taken = nni.records(content, 9.0)
    assert len(before) + 1 + len(WRITTEN) <= taken <= len(content)
    assert all(each in records for each in READ)
    for record in records:
        json.dumps(record)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values, st.sampled_from(["PERIODICAL", "FINAL", "OTHER"]))
def test_any_json_is_a_metric_or_none(value: object, sequence: object, kind: str) -> None:
    for record in read(written(value, kind=kind, sequence=sequence)):
        assert record["m"] and all(type(each) is float for each in record["m"].values())
        assert record.keys() <= {"t", "s", "m"}


@given(json_values, json_values, st.sampled_from(["PERIODICAL", "FINAL", "OTHER"]))
@example({"__ndarray__": 1.5, "dtype": "float64", "shape": []}, 0, "PERIODICAL")
@example({"default": {"__ndarray__": 1.5, "dtype": "float64", "shape": []}}, 0, "FINAL")
@example({"default": 1.0, "z": True}, -1, "PERIODICAL")
@example(10**400, 2**80, "PERIODICAL")
def test_a_listener_hears_what_is_read_from_the_file(value: object, sequence: object, kind: str) -> None:
    """The same record means the same, whichever way it comes."""
    content = written(value, kind=kind, sequence=sequence)
    (line,) = content.split(b"\n")[:1]
    told = {**json.loads(line[8:]), "trial_job_id": "T1"}
    assert repr(records_of(json.dumps(told), 9.0)) == repr(read(content))


def test_what_a_listener_hears_that_is_no_metric_is_passed_over() -> None:
    deep = "[" * 100_000
    record = {"trial_job_id": "t", "type": "FINAL"}
    for told in (deep, deep.encode(), json.dumps({**record, "value": deep}), record, "1" * 5000, b"\xff"):
        assert records_of(told, 9.0) == []


def test_a_run_is_told_its_parameters_and_where_its_files_are() -> None:
    told = json.loads(nni.parameters(3, {"lr": 0.1, "layer": {"_name": "conv", "width": 8}}))
    assert told["parameter_id"] == 2 and told["parameters"] == {"lr": 0.1, "layer": {"_name": "conv", "width": 8}}
    env = nni.environment("/d", experiment="job1", run="run1.3", number=3, code="/code")
    assert env["NNI_SYS_DIR"] == "/d" and env["NNI_TRIAL_SEQ_ID"] == "2" and env["NNI_TRIAL_JOB_ID"] == "run1.3"
    assert not env.keys() & set(nni.UNSET)
