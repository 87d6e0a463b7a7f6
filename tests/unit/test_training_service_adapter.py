"""A TrainingService as a provider: what it is asked, in which order, and what its answers mean."""

from __future__ import annotations

import enum
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from turnout.compat import loading
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


class Clock:
    """Goes on when somebody says so, instead of `time`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(adapting, "time", SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now))

    def take(self, seconds: float) -> None:
        self.now += seconds


def counts(answers: list[Handle | Failure]) -> tuple[int, list[str]]:
    """How many were submitted, and what became of the others."""
    return sum(isinstance(each, str) for each in answers), [each.kind for each in answers if isinstance(each, Failure)]


def test_a_trial_that_waits_long_keeps_the_others_waiting_but_nobody_else(
    tmp_path: Path, made: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at some times in all, not for each that could come next."""
    clock = Clock(monkeypatch)

    async def update(self: Paper, trial: str, form: Any) -> None:
        self.calls.append(("update", trial))
        clock.take(0.5)

    busy = type("Busy", (Paper,), {"update_trial_job": update, "begins_at_once": False})
    provider = provider_of(busy, tmp_path)
    launches = [launch(f"run{each}", tmp_path) for each in range(40)]
    answers = provider.submit(launches)
    assert counts(answers) == (1, ["throttled"] * 39) and "trial t0 waits" in str(answers[1])
    assert len(made[-1].asked("update")) < 10
    assert counts(provider.submit(launches[1:])) == (0, ["throttled"] * 39)
    assert len(made[-1].asked("update")) < 10, "it had its time: one more look"


def test_what_cannot_be_submitted_in_time_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    async def submit(self: Paper, form: Any) -> Any:
        clock.take(8.0)
        return await Paper.submit_trial_job(self, form)

    provider = provider_of(type("Slow", (Paper,), {"submit_trial_job": submit}), tmp_path)
    launches = [launch(f"run{each}", tmp_path) for each in range(40)]
    assert counts(provider.submit(launches)) == (4, ["throttled"] * 36)
    monkeypatch.setattr(adapting, "_LONGEST", 0.0)
    assert counts(provider.submit(launches[4:])) == (1, ["throttled"] * 35), "one at least"


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


def test_a_trial_that_waited_in_the_memory_of_a_service_is_lost_with_it(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its process began anew, and does not know it for some looks: so it is tried again. What began may go on."""
    (began,) = started(provider, launch("run1", tmp_path))
    monkeypatch.setattr(Paper, "begins_at_once", False)
    (waits,) = started(provider, launch("run2", tmp_path))
    provider.observe([began, waits])
    again = provider_of(Paper, tmp_path)
    looks = [again.observe([began, waits]) for _ in range(20)]
    assert [each[waits].phase for each in looks[:3]] == [Phase.UNKNOWN] * 3, "a service may have to remember"
    assert looks[-1][waits].reason == "node_lost" and "never said that it began" in looks[-1][waits].detail
    assert {(each[began].phase, each[began].reason) for each in looks} == {(Phase.UNKNOWN, "")}


def test_a_service_may_take_its_time_to_know_what_it_was_given(
    provider: TrainingServiceProvider, tmp_path: Path, made: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Paper, "begins_at_once", False)
    (handle,) = started(provider, launch("run1", tmp_path))
    trial = made[-1].trials.pop("t0")
    assert {provider.observe([handle])[handle].phase for _ in range(20)} == {Phase.UNKNOWN}
    made[-1].trials["t0"] = trial
    assert provider.observe([handle])[handle].phase is Phase.PENDING


def test_a_launch_that_fails_harms_no_other(tmp_path: Path) -> None:
    async def submit(self: Paper, form: Any) -> Any:
        if "run1" in form.command:
            raise PermissionError("no credit left")
        return {"id": "other", "status": "WAITING"}

    provider = provider_of(type("Poor", (Paper,), {"submit_trial_job": submit}), tmp_path)
    first, second = provider.submit([launch("run1", tmp_path), launch("run2", tmp_path)])
    assert isinstance(first, Failure) and first.message == "submit_trial_job raised PermissionError: no credit left"
    assert isinstance(second, str) and json.loads(second)["id"] == "other"


class OwnStatus(enum.Enum):
    RUNNING = "RUNNING"
    DONE = "SUCCEEDED"
    FAILED = 3


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (OwnStatus.RUNNING, Phase.ACTIVE), (OwnStatus.DONE, Phase.GONE), (OwnStatus.FAILED, Phase.GONE),
        ("on its way", Phase.UNKNOWN),
    ],
)  # fmt: skip
def test_a_trial_that_has_an_id_is_started_once(tmp_path: Path, status: object, phase: Phase) -> None:
    """Whatever else its service says of it, and in whatever words."""

    async def submit(self: Paper, form: Any) -> Any:
        await Paper.submit_trial_job(self, form)
        self.trials["t0"].status = status  # type: ignore[assignment]
        return {"id": "t0", "status": status}

    provider = provider_of(type("OwnWords", (Paper,), {"submit_trial_job": submit}), tmp_path)
    (handle,) = started(provider, launch("run1", tmp_path))
    seen = provider.observe([handle])[handle]
    assert seen.phase is phase and (phase is not Phase.UNKNOWN or "'on its way' is not a valid" in seen.detail)


def test_a_trial_without_an_id_is_not_started_again_and_again(tmp_path: Path, made: list[Paper]) -> None:
    async def submitTrialJob(self: Paper, form: Any) -> None:
        await Paper.submit_trial_job(self, form)

    provider = provider_of(type("Mute", (Paper,), {"submitTrialJob": submitTrialJob}), tmp_path)
    answers = provider.submit([launch("run1", tmp_path), launch("run2", tmp_path)])
    assert counts(answers) == (0, ["rejected"] * 2) and len(made[-1].trials) == 1
    assert str(answers[0]) == "submitTrialJob: a TrialJobDetail was expected, not None"


def test_what_a_service_raises_is_told_under_the_name_of_its_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the spelling of who wrote it; where it comes from is in the log, once."""

    async def setClusterMetadata(self: Paper, key: str, value: str) -> None:
        if key == "trial_config":
            raise KeyError("codeDir")

    async def update(self: Paper, trial: str, form: Any) -> None:
        raise OSError("no answer")

    provider = provider_of(type("Camel", (Paper,), {"setClusterMetadata": setClusterMetadata}), tmp_path)
    (answer,) = provider.submit([launch("run1", tmp_path)])
    assert str(answer) == "setClusterMetadata raised KeyError: 'codeDir'"
    provider = provider_of(type("Silent", (Paper,), {"update_trial_job": update}), tmp_path)
    (handle,) = started(provider, launch("run2", tmp_path))
    capsys.readouterr()
    for _ in range(3):
        seen = provider.observe([handle])[handle]
        assert (seen.phase, seen.detail) == (Phase.ACTIVE, "update_trial_job raised OSError: no answer")
    assert capsys.readouterr().err.count("Traceback") == 1


def test_variables_that_cannot_be_written_harm_no_other(provider: TrainingServiceProvider, tmp_path: Path) -> None:
    first, second = provider.submit([launch("run1", tmp_path / "gone", env={"A": "b"}), launch("run2", tmp_path)])
    assert isinstance(first, Failure) and "its variables cannot be written" in first.message
    assert isinstance(second, str)


def test_a_service_that_cannot_begin_has_not_begun(tmp_path: Path, made: list[Paper]) -> None:
    """It begins with the next call, with its listener and its main loop."""

    def add(self: Paper, listener: Any) -> None:
        self.calls.append(("add",))
        if len(self.asked("add")) == 1:
            raise OSError("not yet")
        Paper.add_trial_job_metric_listener(self, listener)

    provider = provider_of(type("Late", (Paper,), {"add_trial_job_metric_listener": add}), tmp_path)
    with pytest.raises(OSError, match="not yet"):
        provider.submit([launch("run1", tmp_path)])
    assert not made[-1].asked("submit")
    started(provider, launch("run1", tmp_path))
    assert len(made) == 1 and made[-1].asked("run") == [()] and len(made[-1].listeners) == 1
    provider.rest()
    assert not made[-1].listeners


def test_it_is_made_with_what_it_takes_by_name(tmp_path: Path) -> None:
    """Its other arguments are its own affair, however many there are."""
    given: list[Any] = []

    class Own(Paper):
        def __init__(self, host: str = "h", port: int = 22, user: str = "me") -> None:
            super().__init__()
            given.append((host, port, user))

    class All(Paper):
        def __init__(self, username: str, **more: Any) -> None:
            super().__init__()
            given.append((username, sorted(more)))

    for each in (Own, All):
        provider_of(each, tmp_path)
    assert given == [("h", 22, "me"), ("me", ["settings", "target"])]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", ""),
        ("    del clean_up", "has not all methods of NNI's TrainingService: clean_up"),
        ("    submitTrialJob = lambda self, form: None\n    del submit_trial_job", ""),
    ],
)
def test_a_method_that_xt_has_as_well_makes_no_backend_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    name = f"helpful_{abs(hash(line))}"
    (tmp_path / f"{name}.py").write_text(HELPFUL + line + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugin = Plugin(f"{name}.Helpful", "t", "helpful", {}, {}, "me", str(tmp_path / "records"))
    if said:
        with pytest.raises(loading.Broken, match=said):
            loading.make(plugin)
    else:
        assert isinstance(loading.make(plugin), TrainingServiceProvider)


HELPFUL = """
class Helpful:
    def submit_job(self, form): return form
    view_status = submit_job
    def list_trial_jobs(self): return []
    def get_trial_job(self, trial_job_id): pass
    def add_trial_job_metric_listener(self, listener): pass
    def remove_trial_job_metric_listener(self, listener): pass
    def submit_trial_job(self, form): return self.submit_job(form)
    def update_trial_job(self, trial_job_id, form): pass
    def cancel_trial_job(self, trial_job_id): pass
    def set_cluster_metadata(self, key, value): pass
    def clean_up(self): pass
    def run(self): pass
"""


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
