"""The parts of the TrainingService: spellings, statuses, events, machines, metrics, and how one is asked."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnout.compat.nni import (
    EventEmitter,
    HyperParameters,
    NNIError,
    NotFound,
    RemoteMachineMeta,
    TrainingService,
    TrialJobApplicationForm,
    TrialJobDetail,
    TrialJobMetric,
    TrialJobStatus,
    spooling,
)
from turnout.compat.nni.errors import is_not_found
from turnout.compat.nni.machines import read_machines
from turnout.compat.nni.measures import records_of
from turnout.compat.nni.service import MEMBERS, ask, lacking
from turnout.compat.nni.spelling import camel, snake
from turnout.compat.nni.spooling import Spools
from turnout.compat.nni.trials import detail_of
from turnout.compat.nni.views import Measured, status_of_run
from turnout.errors import InvalidInput
from turnout.wire import frames

#: As NNI's document has them, with what they take.
DOCUMENT = {
    "listTrialJobs": [],
    "getTrialJob": ["trial_job_id"],
    "addTrialJobMetricListener": ["listener"],
    "removeTrialJobMetricListener": ["listener"],
    "submitTrialJob": ["form"],
    "updateTrialJob": ["trial_job_id", "form"],
    "isMultiPhaseJobSupported": None,
    "cancelTrialJob": ["trial_job_id", "is_early_stopped"],
    "setClusterMetadata": ["key", "value"],
    "getClusterMetadata": ["key"],
    "cleanUp": [],
    "run": [],
}
#: Those that return a Promise there.
LATER = set(DOCUMENT) - {"addTrialJobMetricListener", "removeTrialJobMetricListener", "isMultiPhaseJobSupported"}


def test_the_class_has_the_members_of_the_document() -> None:
    assert [camel(name) for name in MEMBERS] == list(DOCUMENT) and [snake(name) for name in DOCUMENT] == list(MEMBERS)
    assert TrainingService.__abstractmethods__ == set(MEMBERS)
    for name, arguments in DOCUMENT.items():
        member = inspect.getattr_static(TrainingService, snake(name))
        if arguments is None:
            assert isinstance(member, property)
            continue
        assert list(inspect.signature(member).parameters)[1:] == arguments
        assert inspect.iscoroutinefunction(member) == (name in LATER)


def made_of(**members: Any) -> Any:
    """A service with these members, and the others as they must not be missing."""
    others = {name: lambda self, *given: None for name in MEMBERS if not {name, camel(name)} & members.keys()}
    return type("Made", (TrainingService,), {**others, **members})()


async def later(self: object, *given: object) -> tuple[object, ...]:
    return given


def at_once(self: object, *given: object) -> tuple[object, ...]:
    return given


@pytest.mark.parametrize("name", ["submit_trial_job", "submitTrialJob"])
@pytest.mark.parametrize("method", [later, at_once])
def test_either_spelling_and_either_kind_can_be_written_and_asked(name: str, method: Any) -> None:
    service = made_of(**{name: method})
    assert asyncio.run(ask(service, "submit_trial_job", "form")) == ("form",)
    assert service.submit_trial_job.__func__ is service.submitTrialJob.__func__ is method


def test_what_is_inherited_may_be_written_again_in_the_other_spelling() -> None:
    first = type(made_of(cleanUp=at_once))
    second: Any = type("Second", (first,), {"clean_up": later})
    assert second.cleanUp is second.clean_up is later


@pytest.mark.parametrize("value", [True, property(lambda self: True), lambda self: True])
@pytest.mark.parametrize("name", ["is_multi_phase_job_supported", "isMultiPhaseJobSupported"])
def test_the_property_may_be_a_value_or_a_method(name: str, value: object) -> None:
    assert asyncio.run(ask(made_of(**{name: value}), "is_multi_phase_job_supported")) is True


def test_a_method_gets_as_many_arguments_as_it_takes() -> None:
    service = made_of(cancelTrialJob=lambda self, identity: identity)
    assert asyncio.run(ask(service, "cancel_trial_job", "t1", True)) == "t1"


@pytest.mark.parametrize(
    "cancel",
    [
        lambda self, identity, early=None: (identity, early),
        lambda self, identity, *, is_early_stopped: (identity, is_early_stopped),
        lambda self, identity, *, force=0, isEarlyStopped=False: (identity, isEarlyStopped),
        lambda self, *given: given,
    ],
)
def test_an_early_stop_arrives_however_it_is_taken(cancel: Any) -> None:
    assert asyncio.run(ask(made_of(cancel_trial_job=cancel), "cancel_trial_job", "t1", True)) == ("t1", True)


@pytest.mark.parametrize("is_first", [True, False])
def test_members_may_come_from_another_class(is_first: bool) -> None:
    """Whichever stands first, and however they are spelled there; the nearest counts, as ever."""
    mixin = type("Mixin", (), {camel(name): at_once for name in MEMBERS})
    made: Any = type("Made", (mixin, TrainingService) if is_first else (TrainingService, mixin), {})
    assert lacking(made) == []
    service = made()
    assert service.submit_trial_job("form") == service.submitTrialJob("form") == ("form",) and service.run() == ()
    own: Any = type("Own", (made,), {"clean_up": later})
    beside: Any = type("Beside", (made,), {})
    both: Any = type("Both", (beside, own), {})
    assert both.clean_up is both.cleanUp is later and both.run is at_once


def test_a_class_without_a_base_lacks_what_it_has_in_no_spelling() -> None:
    """Nobody needs to be asked for metadata, or for phases."""
    needless = ("get_cluster_metadata", "is_multi_phase_job_supported")
    bare = type("Bare", (), {camel(name): at_once for name in MEMBERS if name not in ("clean_up", *needless)})
    assert lacking(bare) == ["clean_up"]
    assert asyncio.run(ask(bare(), "get_trial_job", "t1")) == ("t1",)
    assert lacking(type("Half", (TrainingService,), {"cleanUp": at_once})) == [
        name for name in MEMBERS if name != "clean_up"
    ]
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (TrainingService,), {"cleanUp": at_once})()


def test_the_statuses() -> None:
    assert [each.value for each in TrialJobStatus] == [
        "UNKNOWN", "WAITING", "RUNNING", "SUCCEEDED", "FAILED", "USER_CANCELED", "SYS_CANCELED", "EARLY_STOPPED",
    ]  # fmt: skip
    assert (
        TrialJobStatus("SUCCEED") is TrialJobStatus.SUCCEEDED and TrialJobStatus["SUCCEED"] is TrialJobStatus.SUCCEEDED
    )
    assert TrialJobStatus("running") is TrialJobStatus.RUNNING and str(TrialJobStatus.FAILED) == "FAILED"
    assert [each for each in TrialJobStatus if not each.is_final] == ["UNKNOWN", "WAITING", "RUNNING"]
    with pytest.raises(ValueError):
        TrialJobStatus("done")


def test_fields_have_two_spellings() -> None:
    trial = TrialJobDetail(id="t1", submitTime=5, workingDirectory="/w")  # type: ignore[call-arg]
    assert (trial.submit_time, trial.submitTime, trial.workingDirectory) == (5, 5, "/w")  # type: ignore[attr-defined]
    trial.isEarlyStopped = True  # type: ignore[attr-defined]
    trial.start_time = 6
    assert (trial.is_early_stopped, trial.startTime) == (True, 6)  # type: ignore[attr-defined]
    assert copy.deepcopy(trial) == trial and TrialJobMetric("t1", "0.5").data == "0.5"
    with pytest.raises(AttributeError, match="nothing"):
        _ = trial.nothing  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        TrialJobDetail(nothing=1)  # type: ignore[call-arg]


def test_who_inherits_fields_inherits_their_spellings() -> None:
    @dataclass
    class PaiDetail(TrialJobDetail):
        pai_job_name: str = ""

    class OwnWords(TrialJobDetail):
        def __init__(self, id: str, submitTime: float) -> None:
            super().__init__(id=id, submitTime=submitTime)  # type: ignore[call-arg]

    pai: Any = PaiDetail
    own: Any = OwnWords
    for trial in (pai(id="t1", submitTime=5, paiJobName="job"), own(id="t1", submitTime=5)):
        assert (trial.submit_time, trial.submitTime, trial.id) == (5, 5, "t1")
    assert pai("t1", paiJobName="job").pai_job_name == "job"


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "t1", "status": "SUCCEED", "submitTime": 5, "sequenceId": 3},
        {"id": "t1", "status": "SUCCEEDED", "submit_time": 5, "sequence_id": 3},
        TrialJobDetail(id="t1", status=TrialJobStatus.SUCCEED, submit_time=5, sequence_id=3),
        type("Own", (), {"id": "t1", "status": "SUCCEED", "submitTime": 5, "sequenceId": 3})(),
    ],
)
def test_what_a_service_answers_may_be_of_any_kind(answer: object) -> None:
    found = detail_of(answer)
    assert (found.id, found.status, found.submit_time, found.sequence_id) == ("t1", "SUCCEEDED", 5, 3)


@pytest.mark.parametrize("answer", [None, {}, 7, {"id": "t1", "status": "OVER"}])
def test_what_is_no_detail_is_refused(answer: object) -> None:
    with pytest.raises(ValueError):
        detail_of(answer)


def test_parameters_are_read_from_both_forms() -> None:
    form = TrialJobApplicationForm.of({"lr": 0.1}, number=7)
    assert form.hyper_parameters.parameters == {"lr": 0.1} and form.sequence_id == 7
    assert json.loads(form.hyperParameters.value)["parameter_id"] == 7  # type: ignore[attr-defined]
    assert HyperParameters('{"lr": 0.1, "parameters": 3}').parameters == {"lr": 0.1, "parameters": 3}
    for text in ("", "[1]", "nonsense"):
        with pytest.raises(ValueError):
            _ = HyperParameters(text).parameters


def test_what_is_not_found_is_known_in_any_class() -> None:
    known = [NotFound("x"), NNIError("NOT_FOUND", "x"), KeyError("x"), type("NotFoundError", (Exception,), {})()]
    assert all(map(is_not_found, known))
    assert not any(map(is_not_found, [NNIError("OTHER", "x"), OSError("x"), ValueError("not found")]))
    assert NotFound("x").name == "NOT_FOUND"


class TestEvents:
    def test_listeners_are_told_in_their_order_and_can_leave(self) -> None:
        emitter, heard = EventEmitter(), []
        for name in ("one", "two"):
            emitter.on("metric", lambda value, name=name: heard.append((name, value)))
        assert emitter.emit("metric", 1) and not emitter.emit("other", 1)
        assert heard == [("one", 1), ("two", 1)] and emitter.listener_count("metric") == 2
        emitter.off("metric", print)  # one that does not listen is no error
        emitter.removeAllListeners("metric")
        assert not emitter.emit("metric", 2)

    def test_one_that_is_given_twice_hears_twice_and_leaves_once(self) -> None:
        emitter, heard = EventEmitter(), list[int]()
        emitter.addListener("metric", heard.append).add_listener("metric", heard.append)
        emitter.emit("metric", 1)
        emitter.removeListener("metric", heard.append)
        emitter.emit("metric", 2)
        assert heard == [1, 1, 2] and emitter.listenerCount("metric") == 1

    def test_once(self) -> None:
        emitter, heard = EventEmitter(), list[int]()
        emitter.once("metric", heard.append)
        emitter.emit("metric", 1)
        emitter.emit("metric", 2)
        emitter.once("metric", heard.append).off("metric", heard.append)
        emitter.emit("metric", 3)
        assert heard == [1]

    def test_a_listener_may_leave_while_it_hears(self) -> None:
        emitter, heard = EventEmitter(), list[int]()

        def leaving(value: int) -> None:
            emitter.off("metric", leaving)
            heard.append(value)

        emitter.on("metric", leaving).on("metric", heard.append)
        emitter.emit("metric", 1)
        assert heard == [1, 1] and emitter.listener_count("metric") == 1


class TestMachines:
    def test_they_are_read_as_nni_writes_them(self) -> None:
        first, second = read_machines(
            '[{"ip": "10.1.1.1", "port": 2222, "username": "me", "passwd": "hunter2"},'
            ' {"host": "far", "user": "me", "sshKeyFile": "~/key", "sshPassphrase": "hunter3", "useActiveGpu": true}]'
        )
        assert (first.address, first.port, first.passwd) == ("me@10.1.1.1", 2222, "hunter2")
        assert (second.address, second.port, second.ssh_key_path) == ("me@far", 22, "~/key")
        assert first.gpuReservation == {} and second.passphrase == "hunter3"  # type: ignore[attr-defined]
        assert "hunter" not in repr([first, second])

    def test_the_constructor_is_that_of_the_document(self) -> None:
        machine = RemoteMachineMeta("10.1.1.1", 22, "me", "secret", "/key", "phrase")
        assert (machine.passwd, machine.sshKeyPath, machine.passphrase) == ("secret", "/key", "phrase")  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("nonsense", "no JSON"),
            ('{"a": 1}', "a list of machines"),
            ('[{"port": 22, "passwd": "hunter2"}]', "machine 1 of machine_list has no ip"),
            ('[{"ip": "a", "port": "x", "passwd": "hunter2"}]', "the port is no number"),
            ('[{"ip": "a", "pasword": "hunter2"}]', "unknown key 'pasword'"),
        ],
    )
    def test_what_is_wrong_is_said_without_the_password(self, text: str, said: str) -> None:
        with pytest.raises(InvalidInput, match=said) as caught:
            read_machines(text)
        assert "hunter2" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"parameter_id": 7, "trial_job_id": "t", "type": "PERIODICAL", "sequence": 3, "value": "1.5"}',
         [{"t": 9.0, "m": {"default": 1.5}, "s": 3}]),
        ('{"trial_job_id": "t", "type": "FINAL", "sequence": 0, "value": "{\\"default\\": 1, \\"f\\": 2}"}',
         [{"t": 9.0, "m": {"default": 1, "f": 2}}]),
        ('{"trial_job_id": "t", "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": 1}', []),
        ("0.5", [{"t": 9.0, "m": {"default": 0.5}}]),
        (b'{"loss": 0.5, "name": "x", "good": true}', [{"t": 9.0, "m": {"loss": 0.5, "good": 1.0}}]),
        (0.5, [{"t": 9.0, "m": {"default": 0.5}}]),
        ("nonsense", []),
        (None, []),
        ("[1, 2]", []),
    ],
)  # fmt: skip
def test_what_listeners_hear_becomes_records(data: object, expected: list[object]) -> None:
    assert records_of(data, 9.0) == expected


def test_values_that_are_not_finite_are_kept() -> None:
    (record,) = records_of('{"trial_job_id": "t", "type": "FINAL", "value": "NaN"}', 9.0)
    assert math.isnan(record["m"]["default"])


def test_what_was_told_is_kept_and_read_on(tmp_path: Path) -> None:
    """Also what was told before its trial was known, and after half a record that a process left."""
    spools = Spools(tmp_path / "told")
    spools.append("t1", {"n": 0})
    spools.know("t1", "token")
    spools.append("t1", {"n": 1})
    first = spools.read("token", 0)
    (path,) = (tmp_path / "told").iterdir()
    path.write_bytes(first + b"half a record")
    again = Spools(tmp_path / "told")
    again.know("t1", "token")
    again.append("t1", {"n": 2})
    whole = again.read("token", 0)
    assert whole.startswith(first) and again.read("token", len(first)) == whole[len(first) :]
    assert [json.loads(frame.payload)["n"] for frame in frames.scan(whole)] == [0, 1, 2]
    again.forget()
    assert again.read("token", 0) == b"" and not (tmp_path / "told").exists()


def test_what_is_told_of_trials_that_nobody_submits_is_forgotten_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "_MOST_EARLY", 3)
    spools = Spools(tmp_path / "told")
    for number in range(5):
        spools.append("t1" if number % 2 else "stranger", {"n": number})
    spools.know("t1", "token")
    assert [json.loads(frame.payload)["n"] for frame in frames.scan(spools.read("token", 0))] == [3]
    spools.know("stranger", "other")
    assert [json.loads(frame.payload)["n"] for frame in frames.scan(spools.read("other", 0))] == [2, 4]


def test_that_a_trial_began_is_kept(tmp_path: Path) -> None:
    spools = Spools(tmp_path / "told")
    assert not spools.has_begun("token")
    spools.begin("token")
    again = Spools(tmp_path / "told")
    assert again.has_begun("token") and again.read("token", 0) == b""
    again.forget()
    assert not again.has_begun("token")


class TestRunsAsTrials:
    @pytest.mark.parametrize(
        ("state", "reason", "tags", "status"),
        [
            ("created", None, {}, "WAITING"), ("queued", None, {}, "WAITING"), ("starting", None, {}, "WAITING"),
            ("running", None, {}, "RUNNING"), ("finishing", None, {}, "RUNNING"), ("completed", None, {}, "SUCCEEDED"),
            ("failed", "exit_code", {}, "FAILED"), ("failed", "preempted", {}, "SYS_CANCELED"),
            ("cancelled", "user", {}, "USER_CANCELED"), ("stopped", "pruned", {}, "EARLY_STOPPED"),
        ],
    )  # fmt: skip
    def test_states_are_statuses(self, state: str, reason: str | None, tags: dict[str, str], status: str) -> None:
        assert status_of_run({"state": state, "reason": reason, "tags": tags}) == status

    def test_points_are_told_once_and_the_last_as_final(self) -> None:
        measured = Measured("run1", 4, "loss")
        points = [{"step": step, "value": value} for step, value in enumerate([0.5, "NaN", 0.25])]

        def told(count: int, status: TrialJobStatus) -> list[tuple[str, int, Any]]:
            texts = map(json.loads, measured.news({"loss": points[:count]}, status))
            return [(each["type"], each["sequence"], json.loads(each["value"])["default"]) for each in texts]

        assert told(1, TrialJobStatus.RUNNING) == [("PERIODICAL", 0, 0.5)]
        kind, step, value = told(2, TrialJobStatus.RUNNING)[0]
        assert (kind, step) == ("PERIODICAL", 1) and math.isnan(value)
        assert told(1, TrialJobStatus.RUNNING) == [], "an older answer that comes later tells nothing"
        assert told(3, TrialJobStatus.SUCCEEDED) == [("PERIODICAL", 2, 0.25), ("FINAL", 0, 0.25)]
        assert measured.is_over
        assert told(3, TrialJobStatus.SUCCEEDED) == [], "as is one that was asked for at the same time"

    def test_a_trial_that_did_not_succeed_has_no_final_metric(self) -> None:
        texts = list(Measured("run1", 4, "default").news({"default": [{"step": 0, "value": 1}]}, TrialJobStatus.FAILED))
        assert [json.loads(text)["type"] for text in texts] == ["PERIODICAL"]
