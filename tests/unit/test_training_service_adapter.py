"""A TrainingService as a provider: what it is asked, in which order, and what its answers mean."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnout.compat.nni import NotFound, TrainingService, TrialJobDetail, TrialJobMetric
from turnout.compat.nni import TrialJobStatus as Status
from turnout.compat.nni import adapter as adapting
from turnout.compat.nni.adapter import TrainingServiceProvider
from turnout.plugin.foreign import DraftRun
from turnout.plugin.provider import Failure, Handle, Launch, Need, Phase, Work
from turnout.plugin.remote import METHODS, Plugin, plain
from turnout.plugin.telling import Known
from turnout.wire import frames


class Paper(TrainingService):
    """Trials are notes: a test sets their statuses. What it is asked is noted, too."""

    begins_at_once = True
    made: list[Paper] = []

    def __init__(self, target: str = "", settings: Any = None) -> None:
        self.target, self.settings = target, settings
        self.calls: list[tuple[Any, ...]] = []
        self.trials: dict[str, TrialJobDetail] = {}
        self.listeners: list[Any] = []
        self.over = threading.Event()
        Paper.made.append(self)

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        return list(self.trials.values())

    async def get_trial_job(self, trial_job_id: str) -> TrialJobDetail:
        if trial_job_id not in self.trials:
            raise NotFound(f"no trial {trial_job_id}")
        return self.trials[trial_job_id]

    def add_trial_job_metric_listener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def remove_trial_job_metric_listener(self, listener: Any) -> None:
        self.listeners.remove(listener)

    async def submit_trial_job(self, form: Any) -> TrialJobDetail:
        self.calls.append(("submit", form))
        status = Status.RUNNING if self.begins_at_once else Status.WAITING
        trial = TrialJobDetail(id=f"t{len(self.trials)}", status=status, url="https://paper/1")
        self.trials[trial.id] = trial
        return trial

    async def update_trial_job(self, trial_job_id: str, form: Any) -> TrialJobDetail:
        self.calls.append(("update", trial_job_id, form.hyper_parameters.parameters))
        return await self.get_trial_job(trial_job_id)

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return False

    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        self.calls.append(("cancel", trial_job_id, is_early_stopped))
        trial = await self.get_trial_job(trial_job_id)
        trial.status = Status.EARLY_STOPPED if is_early_stopped else Status.USER_CANCELED

    async def set_cluster_metadata(self, key: str, value: str) -> None:
        self.calls.append(("set", key, value))

    async def get_cluster_metadata(self, key: str) -> str:
        return ""

    async def clean_up(self) -> None:
        self.calls.append(("clean_up",))
        self.over.set()

    def run(self) -> None:  # type: ignore[override]
        self.calls.append(("run",))
        self.over.wait(20)

    def asked(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


def provider_of(found: type, tmp_path: Path, **definition: object) -> TrainingServiceProvider:
    plugin = Plugin(
        path="ext.paper.Paper", target="paper", service="paper", settings={}, definition=definition, username="me",
        records=str(tmp_path / "records"),
    )  # fmt: skip
    return TrainingServiceProvider.around(found, plugin)


@pytest.fixture(autouse=True)
def made() -> Iterator[list[Paper]]:
    Paper.made = []
    yield Paper.made
    for each in Paper.made:
        each.over.set()


@pytest.fixture
def provider(tmp_path: Path) -> TrainingServiceProvider:
    return provider_of(Paper, tmp_path)


def launch(run: str, tmp_path: Path, env: dict[str, str] | None = None, **params: object) -> Launch:
    work = Work(
        job="job1", run=run, attempt=1, workspace="w", experiment="e", argv=["exec", run, "a b"], command=[run],
        files=str(tmp_path), env=env or {}, params=params,
    )  # fmt: skip
    return Launch(
        token=f"token-{run}", node="n0", directory="", argv=(), stdin=b"", work=work, need=Need(gpus=2, memory=3 << 20)
    )


def started(provider: TrainingServiceProvider, *launches: Launch) -> list[Handle]:
    answers = provider.submit(launches)
    assert all(isinstance(each, str) for each in answers), answers
    return [str(each) for each in answers]


def test_a_launch_is_a_trial(provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]) -> None:
    """The platform first, then the main loop, then for each trial its config and its form."""
    provider = provider_of(Paper, tmp_path, metadata={"machine_room": [7], "version_check": "true"})
    started(provider, launch("run1", tmp_path, lr=0.1))
    service = made[-1]
    assert (service.target, service.settings["metadata"]["machine_room"]) == ("paper", [7])
    assert [call[0] for call in service.calls][-3:] == ["run", "set", "submit"]
    told = dict(service.asked("set"))
    assert told["machine_room"] == "[7]" and told["version_check"] == "true" and "nni_manager_ip" in told
    assert json.loads(told["trial_config"]) == {
        "command": "exec exec run1 'a b'", "codeDir": str(tmp_path), "gpuNum": 2, "memoryMB": 3,
    }  # fmt: skip
    (form,) = service.asked("submit")[0]
    assert form.hyperParameters.parameters == {"lr": 0.1} and form.hyperParameters.index == 0
    assert (form.token, form.code_directory) == ("token-run1", str(tmp_path))


def test_variables_are_in_no_command(provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]) -> None:
    started(provider, launch("run1", tmp_path, env={"KEY": "hun'ter2", "A": "b"}))
    (form,) = made[-1].asked("submit")[0]
    assert "hun" not in form.command + repr(form)
    path = tmp_path / form.command.split(";")[0].removeprefix(". ./")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "export KEY='hun'\"'\"'ter2'\nexport A=b\n"


def test_the_next_trial_comes_when_the_last_has_begun(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service may read its config when it starts a trial, from a queue of its own."""
    monkeypatch.setattr(adapting, "_PATIENCE", 0.1)
    monkeypatch.setattr(Paper, "begins_at_once", False)
    first, second = provider.submit([launch("run1", tmp_path), launch("run2", tmp_path)])
    assert isinstance(first, str) and isinstance(second, Failure) and second.kind == "throttled"
    made[-1].trials["t0"].status = Status.RUNNING
    started(provider, launch("run2", tmp_path))


def test_one_that_starts_by_forms_gets_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paper, "begins_at_once", False)
    provider = provider_of(type("ByForm", (Paper,), {"starts_by_form": True}), tmp_path)
    assert len(started(provider, launch("run1", tmp_path), launch("run2", tmp_path))) == 2


@pytest.mark.parametrize(
    ("status", "seen"),
    [
        (Status.WAITING, (Phase.PENDING, "", None)), (Status.RUNNING, (Phase.ACTIVE, "", None)),
        (Status.UNKNOWN, (Phase.UNKNOWN, "", None)), (Status.SUCCEEDED, (Phase.GONE, "exit_code", 0)),
        (Status.FAILED, (Phase.GONE, "exit_code", 1)), (Status.USER_CANCELED, (Phase.GONE, "cancelled", None)),
        (Status.SYS_CANCELED, (Phase.GONE, "preempted", None)),
    ],
)  # fmt: skip
def test_statuses_are_phases(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper], status: Status,
    seen: tuple[Phase, str, int | None],
) -> None:  # fmt: skip
    (handle,) = started(provider, launch("run1", tmp_path, lr=0.1))
    made[-1].trials["t0"].status = status
    found = provider.observe([handle, "nonsense"])
    assert list(found) == [handle]
    assert (found[handle].phase, found[handle].reason, found[handle].exit_code) == seen
    assert (found[handle].native, found[handle].id, found[handle].url) == (str(status), "t0", "https://paper/1")
    assert made[-1].asked("update")[-1] == ("t0", {"lr": 0.1}), "it is asked to find out, with the form"


def test_a_service_that_knows_no_updates_is_not_asked_again(tmp_path: Path, made: list[Paper]) -> None:
    async def no(self: Paper, *given: object) -> None:
        self.calls.append(("update",))
        raise NotImplementedError

    provider = provider_of(type("NoUpdates", (Paper,), {"update_trial_job": no}), tmp_path)
    (handle,) = started(provider, launch("run1", tmp_path))
    for _ in range(3):
        assert provider.observe([handle])[handle].phase is Phase.ACTIVE
    assert len(made[-1].asked("update")) == 1


def test_of_a_trial_that_is_not_known_nothing_is_known(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]
) -> None:
    """It may go on: a service that keeps all to itself has forgotten it when its process began anew."""
    (handle,) = started(provider, launch("run1", tmp_path))
    again = provider_of(Paper, tmp_path)
    seen = again.observe([handle])[handle]
    assert seen.phase is Phase.UNKNOWN and "does not know it" in seen.detail
    assert again.find("token-run1") == handle and again.find("") is again.find("token") is None
    again.cancel([handle])  # no error


def test_a_launch_that_fails_harms_no_other(tmp_path: Path) -> None:
    async def submit(self: Paper, form: Any) -> Any:
        if "run1" in form.command:
            raise PermissionError("no credit left")
        return {"id": "other", "status": "WAITING"}

    provider = provider_of(type("Poor", (Paper,), {"submit_trial_job": submit}), tmp_path)
    first, second = provider.submit([launch("run1", tmp_path), launch("run2", tmp_path)])
    assert isinstance(first, Failure) and first.message == "submit_trial_job raised PermissionError: no credit left"
    assert isinstance(second, str) and json.loads(second)["id"] == "other"


def test_cancels_and_stops(provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]) -> None:
    one, two, three = started(provider, *(launch(f"run{each}", tmp_path) for each in (1, 2, 3)))
    made[-1].trials["t2"].status = Status.SUCCEEDED
    provider.cancel([one, "nonsense", three])
    provider.stop([two])
    assert made[-1].asked("cancel") == [("t0", False), ("t1", True)], "what is over is not cancelled"
    assert [each.status for each in made[-1].trials.values()] == ["USER_CANCELED", "EARLY_STOPPED", "SUCCEEDED"]


def test_a_person_is_told_what_a_cancel_did(provider: TrainingServiceProvider, tmp_path: Path) -> None:
    started(provider, launch("run1", tmp_path), launch("run2", tmp_path))
    (ended,) = provider.cancel_runs("w", ["run1", "run9"], "n0")
    assert (ended.run, ended.killed, ended.before, ended.state) == ("run1", True, "running", "user_canceled")
    told = provider.cancel_job("job1", [DraftRun(f"run{each}", "w", "e", "n0", ["x"]) for each in (1, 2)])
    assert [(each.run, each.killed) for each in told] == [("run1", False), ("run2", True)]
    assert provider.cancel_user("paper")[0].state == "user_canceled"


def test_one_cancel_that_fails_saves_no_other(tmp_path: Path, made: list[Paper]) -> None:
    async def cancel(self: Paper, trial: str, is_early_stopped: bool = False) -> None:
        if trial == "t0":
            raise OSError("no answer")
        self.trials[trial].status = Status.USER_CANCELED

    provider = provider_of(type("Slow", (Paper,), {"cancel_trial_job": cancel}), tmp_path)
    handles = started(provider, launch("run1", tmp_path), launch("run2", tmp_path))
    with pytest.raises(Failure, match="cancel_trial_job raised OSError: no answer"):
        provider.cancel(handles)
    assert made[-1].trials["t1"].status is Status.USER_CANCELED


def test_metrics_are_passed_on(provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]) -> None:
    """And what lies in the directory of a trial that is over is what it printed."""
    one, two = started(provider, launch("run1", tmp_path), launch("run2", tmp_path))
    (listener,) = made[-1].listeners
    for value in ("0.5", "nonsense", '{"default": 0.25, "acc": 1}'):
        listener(TrialJobMetric("t0", value))
    listener({"id": "t1", "data": "7"})
    news = provider.news({one: Known(), two: Known(), "nonsense": Known()})
    records = [json.loads(frame.payload)["m"] for frame in frames.scan(news[one].records)]
    assert records == [{"default": 0.5}, {"default": 0.25, "acc": 1}] and news[one].output == b""
    assert list(provider.news({one: Known(len(news[one].records)), two: Known()})) == [two]
    (tmp_path / "t0").mkdir()
    (tmp_path / "t0" / "stdout").write_text("out")
    (tmp_path / "t0" / "stderr").write_text("err")
    made[-1].trials["t0"].working_directory = str(tmp_path / "t0")
    made[-1].trials["t0"].status = Status.FAILED
    assert provider.news({one: Known(len(news[one].records), 1)})[one].output == b"uterr"


def test_it_rests_when_nothing_is_left_and_begins_anew(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper]
) -> None:
    started(provider, launch("run1", tmp_path))
    provider.rest()
    provider.rest()
    assert made[-1].asked("clean_up") == [()] and made[-1].listeners == []
    assert provider.find("token-run1") is None
    started(provider, launch("run2", tmp_path))
    assert len(made) == 2 and made[-1].asked("run") == [()]
    provider.clear()
    assert made[-1].asked("clean_up") == [()]


def test_a_main_loop_that_raised_is_told(tmp_path: Path) -> None:
    def run(self: Paper) -> None:
        raise OSError("no platform")

    provider = provider_of(type("Broken", (Paper,), {"run": run, "begins_at_once": False}), tmp_path)
    with pytest.raises(Failure, match="run raised OSError: no platform"):  # noqa: PT012 - which of them, is a race
        handles = started(provider, launch("run1", tmp_path))
        while True:
            provider.observe(handles)


def test_metadata_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="metadata of target paper has keys and values, not 'x'"):
        provider_of(Paper, tmp_path, metadata="x").submit([launch("run1", tmp_path)])


def test_all_that_it_is_asked_can_be_asked_from_another_process(
    provider: TrainingServiceProvider, tmp_path: Path
) -> None:
    (handle,) = started(provider, launch("run1", tmp_path, lr=0.1))
    seen = METHODS["observe"].answer(json.loads(json.dumps(plain(provider.observe([handle])))))
    assert seen == provider.observe([handle])
    (again,) = METHODS["submit"].read([json.loads(json.dumps(plain([launch("run2", tmp_path, lr=[1, 2])])))])[0]
    assert again.work.params == {"lr": [1, 2]}
