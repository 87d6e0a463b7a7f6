"""XT's BackendInterface: any class with its methods is a provider, and any target can be driven through it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from turnout.compat.xt import BackendInterface
from turnout.compat.xt.adapter import XtProvider
from turnout.compat.xt.interface import implements
from turnout.plugin.foreign import Draft, DraftRun, Ended, StatusQuery
from turnout.plugin.provider import Failure, Launch, Phase, Work
from turnout.plugin.remote import Plugin

METHODS = {
    "adjust_run_commands": "job_id job_runs using_hp experiment service_type snapshot_dir args",
    "submit_job": "job_id job_runs workspace compute_def resume_name repeat_count using_hp runs_by_box experiment "
    "snapshot_dir args",
    "view_status": "run_name workspace job monitor escape_secs auto_start stage_flags status max_finished",
    "provides_container_support": "",
    "cancel_runs_by_names": "workspace run_names box_name",
    "cancel_runs_by_job": "job_id runs_by_box",
    "cancel_runs_by_user": "box_name",
}
Calls = list[tuple[str, dict[str, Any]]]


def backend_class(base: type = object, answers: dict[str, Any] | None = None) -> tuple[type, Calls]:
    """A backend that notes how it is called."""
    calls: Calls = []
    answers = {"submit_job": ("svc1", "https://cloud/1"), "provides_container_support": True, **(answers or {})}
    body: dict[str, Any] = {}
    for name, arguments in METHODS.items():
        names = arguments.split()
        scope: dict[str, Any] = {"note": calls.append, "answers": answers}
        given = ", ".join(f"{each!r}: {each}" for each in names)
        act = f"    note(({name!r}, {{{given}}}))\n    answer = answers.get({name!r})\n"
        act += f"    return answer({{{given}}}) if callable(answer) else answer\n"
        exec(f"def {name}({', '.join(['self', *names])}):\n{act}", scope)
        body[name] = scope[name]
    return type("Cloud", (base,), body), calls


def plugin(tmp_path: Path) -> Plugin:
    definition = {"service": "acct", "type": "myCloud", "account": "https://me@cloud", "sku": "G4", "nodes": 1}
    return Plugin(
        path="ext.cloud.Cloud", target="cloud4x", service="myCloud", settings={"sku": "G4"}, definition=definition,
        username="me", records=str(tmp_path / "records"),
    )  # fmt: skip


def launch(run: str, job: str = "job1", node: str = "n0") -> Launch:
    work = Work(
        job=job, run=run, attempt=1, workspace="w", experiment="e", argv=["exec", run], command=[run],
        files=f"/files/{job}", repeat=3, env={"A": "b"}, options={"target": "cloud4x"},
    )  # fmt: skip
    return Launch(token=f"token-{run}", node=node, directory="", argv=(), stdin=b"", work=work)


def test_the_interface_has_the_methods_and_arguments_of_the_document() -> None:
    for name, arguments in METHODS.items():
        assert list(inspect.signature(getattr(BackendInterface, name)).parameters)[1:] == arguments.split()


@pytest.mark.parametrize(
    "base", [object, BackendInterface, implements(BackendInterface)], ids=["bare", "ours", "implements"]
)
def test_a_class_may_inherit_implement_or_be_bare(base: type, tmp_path: Path) -> None:
    made, _ = backend_class(base)
    assert XtProvider.lacking(made) == []
    provider = XtProvider.around(made, plugin(tmp_path))
    assert (provider.name, provider.capabilities.launches, provider.capabilities.containers) == (
        "myCloud",
        "runs",
        True,
    )


def test_a_method_that_only_the_interface_has_is_lacking() -> None:
    assert XtProvider.lacking(type("A", (BackendInterface,), {"submit_job": lambda self: None})) == [
        name for name in METHODS if name != "submit_job"
    ]
    assert XtProvider.lacking(object) == list(METHODS)


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("", {}),
        ("compute, username", {"compute": "cloud4x", "username": "me"}),
        ("core, config, arg_dict=None, other=7", {"other": 7}),
        ("compute, compute_def, core, config, username, arg_dict", {"compute": "cloud4x"}),
        ("**given", {"username": "me"}),
    ],
)
def test_it_is_constructed_with_what_it_takes(tmp_path: Path, signature: str, given: dict[str, Any]) -> None:
    made, _ = backend_class()
    seen: dict[str, Any] = {}
    scope: dict[str, Any] = {"seen": seen}
    exec(f"def init(self, {signature}):\n    seen.update(locals())\n    seen.update(seen.pop('given', {{}}))", scope)
    made.__init__ = scope["init"]  # type: ignore[misc]
    XtProvider.around(made, plugin(tmp_path))
    assert given.items() <= seen.items()
    if "config" in seen:
        assert seen["config"].get("compute-targets", "cloud4x")["sku"] == "G4"
        assert seen["config"].get("external-services", "acct")["account"] == "https://me@cloud"
        assert (seen["config"].get("nothing"), seen["config"].get("general", "x", default_value=1)) == (None, 1)
        assert seen["core"].config is seen["config"] and seen["core"].username == "me"


def test_the_launches_of_a_job_are_one_job_there(tmp_path: Path) -> None:
    made, calls = backend_class()
    provider = XtProvider.around(made, plugin(tmp_path))
    answers = provider.submit([launch("run1"), launch("run9", "job2"), launch("run2", node="n1")])
    (_, first), (_, second) = [call for call in calls if call[0] == "submit_job"]
    assert (first["job_id"], second["job_id"]) == ("job1", "job2")
    assert [record["run_name"] for record in first["job_runs"]] == ["run1", "run2"]
    assert first["job_runs"][0] == {
        "run_name": "run1", "workspace": "w", "exper_name": "e", "box_name": "n0", "cmd_parts": ["exec", "run1"],
        "pre_cmds": [], "env_vars": {"A": "b"}, "repeat": 3,
    }  # fmt: skip
    assert {box: [each["run_name"] for each in runs] for box, runs in first["runs_by_box"].items()} == {
        "n0": ["run1"], "n1": ["run2"],
    }  # fmt: skip
    rest = {key: value for key, value in first.items() if key not in ("job_runs", "runs_by_box")}
    assert rest == {
        "job_id": "job1", "workspace": "w", "resume_name": None, "repeat_count": 3, "using_hp": False,
        "experiment": "e", "snapshot_dir": "/files/job1", "args": {"target": "cloud4x"},
        "compute_def": {"service": "acct", "type": "myCloud", "account": "https://me@cloud", "sku": "G4", "nodes": 1},
    }  # fmt: skip
    handles = [answer for answer in answers if isinstance(answer, str)]
    seen = provider.observe(handles)
    assert [seen[each].phase for each in handles] == [Phase.UNKNOWN] * 3 and len(set(handles)) == 3
    assert (seen[handles[0]].id, seen[handles[0]].url) == ("svc1", "https://cloud/1")


def test_a_job_that_cannot_be_submitted_harms_no_other(tmp_path: Path) -> None:
    def submit(given: dict[str, Any]) -> tuple[str, None]:
        if given["job_id"] == "job1":
            raise PermissionError("no credit left")
        return "svc", None

    made, _ = backend_class(answers={"submit_job": submit})
    provider = XtProvider.around(made, plugin(tmp_path))
    first, other, second = provider.submit([launch("run1"), launch("run9", "job2"), launch("run2")])
    assert isinstance(other, str) and provider.find("token-run9") == other
    assert isinstance(first, Failure) and isinstance(second, Failure)
    assert first.message == "submit_job raised PermissionError: no credit left"


def test_handles_that_are_none_of_its_own_harm_nobody(tmp_path: Path) -> None:
    made, calls = backend_class(answers={"cancel_runs_by_names": []})
    provider = XtProvider.around(made, plugin(tmp_path))
    (handle,) = provider.submit([launch("run1")])
    assert isinstance(handle, str) and provider.find("") is None
    assert list(provider.observe(["nonsense", handle, "{}"])) == [handle]
    provider.cancel(["nonsense", handle])
    assert [given["run_names"] for name, given in calls if name == "cancel_runs_by_names"] == [["run1"]]


def test_what_was_submitted_is_found_again_after_a_lost_answer(tmp_path: Path) -> None:
    made, _ = backend_class()
    (handle,) = XtProvider.around(made, plugin(tmp_path)).submit([launch("run1")])
    again = XtProvider.around(made, plugin(tmp_path))
    assert (again.find("token-run1"), again.find("token-run")) == (handle, None)
    with open(tmp_path / "records", "a") as file:
        file.write('["token-run2", "torn')
    assert again.find("token-run2") is None
    (third,) = again.submit([launch("run3")])
    assert again.find("token-run3") == third, "what comes behind half a line is whole"
    again.rest()
    assert again.find("token-run1") is None


@pytest.mark.parametrize(
    ("answer", "seen"),
    [(("id", None), ("id", "")), ("id", ("id", "")), (None, ("", "")), ((7, "u"), ("7", "u"))],
)
def test_what_submit_job_may_answer(tmp_path: Path, answer: object, seen: tuple[str, str]) -> None:
    made, _ = backend_class(answers={"submit_job": answer})
    provider = XtProvider.around(made, plugin(tmp_path))
    (handle,) = provider.submit([launch("run1")])
    assert isinstance(handle, str)
    found = provider.observe([handle])[handle]
    assert (found.id, found.url) == seen


DRAFT = Draft("job1", "w", "e", "/files", [DraftRun("run1", "w", "e", "n0", ["python", "a.py"])], {"target": "cloud4x"})


def test_records_may_be_edited_in_place(tmp_path: Path) -> None:
    def edit(given: dict[str, Any]) -> None:
        (record,) = given["job_runs"]
        record["cmd_parts"][1:1] = ["-u"]
        record["pre_cmds"] = ["module load cuda"]
        record["env_vars"]["N"] = 3

    made, calls = backend_class(answers={"adjust_run_commands": edit})
    adjusted = XtProvider.around(made, plugin(tmp_path)).adjust(DRAFT)
    assert adjusted.runs == [
        DraftRun("run1", "w", "e", "n0", ["python", "-u", "a.py"], ["module load cuda"], {"N": "3"})
    ]
    (_, given) = calls[-1]
    names = ("job_id", "using_hp", "experiment", "service_type", "snapshot_dir", "args")
    assert {name: given[name] for name in names} == {
        "job_id": "job1", "using_hp": False, "experiment": "e", "service_type": "myCloud", "snapshot_dir": "/files",
        "args": {"target": "cloud4x"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda given: given["job_runs"].clear(), "may edit the records of runs, not add or remove some"),
        (lambda given: given["job_runs"][0].update(cmd_parts=[]), "left no command in the record of run1"),
    ],
)
def test_a_job_that_is_edited_away_is_refused(tmp_path: Path, edit: Any, said: str) -> None:
    made, _ = backend_class(answers={"adjust_run_commands": edit})
    with pytest.raises(Failure, match=said) as caught:
        XtProvider.around(made, plugin(tmp_path)).adjust(DRAFT)
    assert caught.value.kind == "rejected"


def test_a_status_is_asked_for_under_the_names_of_the_document(tmp_path: Path) -> None:
    made, calls = backend_class()
    provider = XtProvider.around(made, plugin(tmp_path))
    provider.status(StatusQuery("run1", "w", "job1", True, 5.0, True, ["active"], "running", 3))
    flags = calls[-1][1].pop("stage_flags")
    assert calls[-1][1] == {
        "run_name": "run1", "workspace": "w", "job": "job1", "monitor": True, "escape_secs": 5.0, "auto_start": True,
        "status": "running", "max_finished": 3,
    }  # fmt: skip
    assert "active" in flags and flags["active"] and "queued" not in flags and not flags["queued"]
    provider.status(StatusQuery())
    assert list(calls[-1][1]["stage_flags"]) == ["queued", "active", "completed"], "all of them, if none is chosen"


def test_the_three_cancels(tmp_path: Path) -> None:
    def record(run: str) -> dict[str, Any]:
        return {"workspace": "w", "run_name": run, "exper_name": "e", "killed": True, "status": "cancelled",
                "before_status": "running"}  # fmt: skip

    made, calls = backend_class(answers={
        "cancel_runs_by_names": lambda given: [record(name) for name in given["run_names"]],
        "cancel_runs_by_job": lambda given: {box: [record(each["run_name"]) for each in runs]
                                             for box, runs in given["runs_by_box"].items()},
        "cancel_runs_by_user": lambda given: None,
    })  # fmt: skip
    provider = XtProvider.around(made, plugin(tmp_path))
    ended = Ended("run1", "w", "e", killed=True, state="cancelled", before="running", node="n0")
    assert provider.cancel_runs("w", ["run1"], "n0") == [ended]
    assert provider.cancel_job("job1", DRAFT.runs) == [ended]
    assert calls[-1][1]["job_id"] == "job1" and list(calls[-1][1]["runs_by_box"]) == ["n0"]
    assert provider.cancel_user("cloud4x") == []
    assert calls[-1] == ("cancel_runs_by_user", {"box_name": "cloud4x"})


def test_a_launch_is_cancelled_by_its_name_but_not_again_when_a_person_did(tmp_path: Path) -> None:
    made, calls = backend_class()
    provider = XtProvider.around(made, plugin(tmp_path))
    handles = [answer for answer in provider.submit([launch("run1"), launch("run2")]) if isinstance(answer, str)]
    provider.cancel_runs("w", ["run1"], "n0")
    provider.cancel(handles)
    assert calls[-1] == ("cancel_runs_by_names", {"workspace": "w", "run_names": ["run2"], "box_name": "n0"})
    assert json.loads(handles[1])["run"] == "run2"


def test_a_run_that_was_killed_a_moment_ago_is_told_as_killed(tmp_path: Path) -> None:
    """The launch may be taken back before the person's cancel gets there."""
    state = {"run1": "running"}

    def cancel(given: dict[str, Any]) -> list[dict[str, Any]]:
        before, state["run1"] = state["run1"], "cancelled"
        return [{"run_name": "run1", "killed": before == "running", "status": "cancelled", "before_status": before}]

    made, _ = backend_class(answers={"cancel_runs_by_names": cancel})
    provider = XtProvider.around(made, plugin(tmp_path))
    (handle,) = provider.submit([launch("run1")])
    assert isinstance(handle, str)
    provider.cancel([handle])
    (ended,) = provider.cancel_runs("w", ["run1"], "n0")
    assert (ended.killed, ended.before) == (True, "running")


def test_other_names_of_arguments_are_taken_in_the_order_of_the_document(tmp_path: Path) -> None:
    made, _ = backend_class()
    seen: list[object] = []
    made.cancel_runs_by_names = lambda self, ws, names, box: seen.append((ws, names, box))  # type: ignore[attr-defined]
    XtProvider.around(made, plugin(tmp_path)).cancel_runs("w", ["run1"], "n0")
    assert seen == [("w", ["run1"], "n0")]
