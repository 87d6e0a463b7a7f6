"""The conformance kit of TrainingServices: what every one of them has to do, as checks that its tests inherit.

A check is one method, `test_...`, whose docstring is the promise.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from turnout.compat.nni import HyperParameters, TrialJobApplicationForm, TrialJobDetail, TrialJobMetric
from turnout.compat.nni import TrialJobStatus as Status
from turnout.compat.nni.driving import Driver
from turnout.compat.nni.errors import is_not_found
from turnout.compat.nni.service import own_member
from turnout.compat.nni.spelling import read_either
from turnout.compat.nni.trials import detail_of
from turnout.testing.contract.bench import Broken, expect

_pause = threading.Event()  # never set
_ORDER = (Status.WAITING, Status.RUNNING, Status.SUCCEEDED)
#: Waits for $1 to be there, or its folder to be gone, in steps that a machine with much to do can bear.
_WAIT = 'while [ ! -e "$1" ] && [ -d "${1%/*}" ]; do sleep 0.05; done'


class TrainingServiceContract:
    """Inherit it under a name that pytest collects, and say how your service is made::

        class TestMine(TrainingServiceContract):
            def make_service(self):
                return MyService()

    Trials are shell commands that have to see the temporary folder of this machine. What a platform cannot do is said
    with a SkipTest in the methods below, and the checks of it are skipped.
    """

    patience: ClassVar[float] = 60.0
    """seconds within which whatever is promised has to come"""

    folder: Path
    driver: Driver
    heard: list[TrialJobMetric]
    _last: str | None

    def make_service(self) -> object:
        """A new one; no trial was submitted to it."""
        raise NotImplementedError

    def metadata(self) -> dict[str, str]:
        """What this platform has to be told besides ``trial_config``."""
        return {}

    def tell_metric(self, value: float) -> str:
        """A line for the shell by which a trial there tells a metric."""
        raise SkipTest("nobody says how a trial tells a metric there: tell_metric")

    def show_parameters(self) -> str:
        """A line for the shell by which a trial there prints its parameters, as JSON."""
        raise SkipTest("nobody says how a trial sees its parameters there: show_parameters")

    # --- submitting -------------------------------------------------------------------------------------------------

    def test_a_trial_is_there_when_it_was_submitted(self) -> None:
        """`submit_trial_job` answers with an id, WAITING or RUNNING, the form as it was given, and when that was."""
        form = TrialJobApplicationForm.of({"lr": 0.1})
        trial = self.submit(self.until_go(), form)
        expect(trial.id, "it has an id")
        expect(trial.status in _ORDER[:2], f"it waits or runs, and is not {trial.status}")
        expect(trial.form is form or _value(trial.form) == _value(form), "its form is the one that was given")
        expect(trial.submit_time > 0, "it has a submit_time, in milliseconds")
        expect(self.get(trial.id).id == trial.id, "get_trial_job knows it")

    def test_trials_are_told_apart(self) -> None:
        """Each has an id of its own, and a sequence_id larger than that of the one before."""
        trials = [self.submit("true") for _ in range(3)]
        expect(len({each.id for each in trials}) == len(trials), "ids are different")
        numbers = [each.sequence_id for each in trials]
        expect(numbers == sorted(set(numbers)), f"sequence ids grow: {numbers}")

    def test_each_trial_gets_its_own_parameters(self) -> None:
        """What a trial sees is what it was submitted with, whichever begins first."""
        show = self.show_parameters()
        shown = {each: self.folder / f"shown{each}" for each in range(4)}
        for each, file in shown.items():
            line = f"{show} > {shlex.quote(str(file))}.new && mv {shlex.quote(str(file))}.new {shlex.quote(str(file))}"
            self.submit(line, TrialJobApplicationForm.of({"number": each}, number=each))
        for each, file in shown.items():
            self.until(file.exists, f"trial {each} shows its parameters")
            found = HyperParameters(file.read_text()).parameters
            expect(found == {"number": each}, f"trial {each} has its own parameters, not {found}")

    # --- watching ---------------------------------------------------------------------------------------------------

    def test_a_trial_waits_runs_and_succeeds(self) -> None:
        """Its status goes WAITING, RUNNING, SUCCEEDED, never back, and stays; its times are in order."""
        trial = self.submit(self.until_go())
        self.until_status(trial.id, Status.RUNNING)
        self.go()
        self.until_status(trial.id, Status.SUCCEEDED)
        last = self.get(trial.id)
        expect(last.status is Status.SUCCEEDED, "it stays so")
        times = (last.submit_time, last.start_time, last.end_time)
        known = [each for each in times if each is not None]
        expect(len(known) == len(times) and known == sorted(known), f"its times are in order: {times}")

    def test_a_trial_fails(self) -> None:
        """One that does not exit with 0 is FAILED; one whose command is not there, too."""
        for command in ("exit 3", "/nothing/is/here"):
            self.until_status(self.submit(command).id, Status.FAILED)

    def test_all_trials_are_listed(self) -> None:
        """`list_trial_jobs` has every trial, those that are over as well, as `get_trial_job` tells of each."""
        over = self.submit("true")
        self.until_status(over.id, Status.SUCCEEDED)
        going = self.submit(self.until_go())
        self.until_status(going.id, Status.RUNNING)
        listed = {each.id: each for each in map(detail_of, self.driver.ask("list_trial_jobs"))}
        expect(set(listed) == {over.id, going.id}, f"both are listed: {sorted(listed)}")
        expect(listed[over.id].status is Status.SUCCEEDED, "with their status")

    def test_updating_harms_nothing(self) -> None:
        """`update_trial_job` with the form of the trial finds out how it is, or does nothing; in no case more."""
        trial = self.submit(self.until_go())
        self.until_status(trial.id, Status.RUNNING)
        for _ in range(3):
            self.driver.ask("update_trial_job", trial.id, trial.form)
        expect(self.get(trial.id).status is Status.RUNNING, "it runs on")
        self.go()
        self.until_status(trial.id, Status.SUCCEEDED)

    def test_an_unknown_trial_is_not_found(self) -> None:
        """Looking at, or cancelling, what is not there raises NOT_FOUND."""
        for name in ("get_trial_job", "cancel_trial_job"):
            try:
                self.driver.ask(name, "no-such-trial")
            except Exception as error:
                expect(is_not_found(error), f"{name} of an unknown trial raises NOT_FOUND, not {error!r}")
            else:
                raise Broken(f"{name} of an unknown trial raises NOT_FOUND")

    # --- ending -----------------------------------------------------------------------------------------------------

    def test_a_cancelled_trial_ends(self) -> None:
        """A trial that runs is USER_CANCELED after a cancel, and its processes are gone. Again is no error."""
        trial = self.submit(self.until_go("began"))
        self.until((self.folder / "began").exists, "it begins")
        for _ in range(2):
            self.driver.ask("cancel_trial_job", trial.id)
        last = self.until_status(trial.id, Status.USER_CANCELED)
        expect(not last.is_early_stopped, "nobody stopped it early")
        self.until(lambda: not self.is_alive("began"), "its process is gone")

    def test_a_trial_is_stopped_early(self) -> None:
        """A cancel that is an early stop makes it EARLY_STOPPED, and says so; a later cancel changes nothing."""
        trial = self.submit(self.until_go("began"))
        self.until((self.folder / "began").exists, "it begins")
        self.driver.ask("cancel_trial_job", trial.id, True)
        self.until_status(trial.id, Status.EARLY_STOPPED)
        self.driver.ask("cancel_trial_job", trial.id)
        last = self.get(trial.id)
        expect(last.status is Status.EARLY_STOPPED and last.is_early_stopped, "it stays stopped early")

    def test_a_cancel_right_after_the_submit(self) -> None:
        """Whether it waits or runs by then: it ends as cancelled."""
        trial = self.submit(self.until_go())
        self.driver.ask("cancel_trial_job", trial.id)
        self.until_status(trial.id, Status.USER_CANCELED)

    def test_cancelling_what_is_over_changes_nothing(self) -> None:
        """A trial that succeeded, or failed, stays so, whoever cancels it."""
        for command, status in (("true", Status.SUCCEEDED), ("false", Status.FAILED)):
            trial = self.submit(command)
            before = self.until_status(trial.id, status)
            for is_early_stopped in (False, True):
                self.driver.ask("cancel_trial_job", trial.id, is_early_stopped)
            after = self.get(trial.id)
            expect(after.status is status and not after.is_early_stopped, f"it is {status} still")
            expect(after.end_time == before.end_time, "it ended when it ended")

    def test_cleaning_up_ends_all(self) -> None:
        """`clean_up` ends the trials that are left, and `run`."""
        self.submit(self.until_go("began"))
        self.until((self.folder / "began").exists, "it begins")
        self.driver.end()
        expect(not self.driver.trouble, self.driver.trouble)
        expect(self.driver.has_returned, "`run` returns")
        self.until(lambda: not self.is_alive("began"), "its process is gone")

    # --- metrics ----------------------------------------------------------------------------------------------------

    def test_metrics_come_to_listeners(self) -> None:
        """Each metric comes once, with the trial's id and what it told, before the trial is shown as over."""
        line = "; ".join(self.tell_metric(value) for value in (0.5, 0.25))
        trial = self.submit(line)
        self.until_status(trial.id, Status.SUCCEEDED)
        values = [value for each in self.heard for value in _values(each.data, "PERIODICAL")]
        expect({each.id for each in self.heard} == {trial.id}, "they have the id of their trial")
        expect(values == [0.5, 0.25], f"each comes once, in its order: {values}")

    def test_a_listener_that_was_removed_hears_nothing(self) -> None:
        """Others hear on."""
        others: list[object] = []
        self.driver.ask("add_trial_job_metric_listener", others.append)
        self.driver.ask("remove_trial_job_metric_listener", others.append)
        self.until_status(self.submit(self.tell_metric(0.5)).id, Status.SUCCEEDED)
        expect(not others and self.heard, "one that was removed hears nothing, the other does")

    # --- the platform -----------------------------------------------------------------------------------------------

    def test_metadata_can_be_set_and_asked_for(self) -> None:
        """`get_cluster_metadata` gives text: what was set, or nothing."""
        self.need("get_cluster_metadata")
        text = json.dumps({"nniManagerIp": "127.0.0.1"})
        self.driver.ask("set_cluster_metadata", "nni_manager_ip", text)
        found = self.driver.ask("get_cluster_metadata", "nni_manager_ip")
        expect(found in (text, "", None), f"what was set, or nothing, and not {found!r}")

    def test_it_says_whether_it_knows_phases(self) -> None:
        """`is_multi_phase_job_supported` is true or false."""
        self.need("is_multi_phase_job_supported")
        expect(isinstance(self.driver.ask("is_multi_phase_job_supported"), bool), "true or false")

    # --- the bench --------------------------------------------------------------------------------------------------

    def setup_method(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="turnout-contract-"))
        (self.folder / "code").mkdir()
        self.heard = []
        self._last = None
        self.driver = Driver(self.make_service(), self.hear)
        self.driver.begin(self.metadata())

    def teardown_method(self) -> None:
        self.go()
        self.driver.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def need(self, member: str) -> None:
        """SkipTest when the service has no such member, which it need not have."""
        if own_member(type(self.driver.service), member) is None:
            raise SkipTest(f"it has no {member}")

    def hear(self, metric: object) -> None:
        self.heard.append(TrialJobMetric(id=str(read_either(metric, "id")), data=read_either(metric, "data")))

    def submit(self, command: str, form: TrialJobApplicationForm | None = None) -> TrialJobDetail:
        """One trial with this line of shell. What is said of all trials changes only when the one before has begun."""
        self.until(lambda: self._last is None or self.get(self._last).status is not Status.WAITING, "a trial begins")
        config = json.dumps({"command": command, "codeDir": str(self.folder / "code"), "gpuNum": 0})
        self.driver.ask("set_cluster_metadata", "trial_config", config)
        form = form or TrialJobApplicationForm.of({})
        form.command, form.code_directory = command, str(self.folder / "code")
        trial = detail_of(self.driver.ask("submit_trial_job", form))
        self._last = trial.id
        return trial

    def get(self, trial: str) -> TrialJobDetail:
        """As turnout finds out: some know how a trial is when they are asked to update it, some when they get it."""
        with contextlib.suppress(Exception):
            self.driver.ask("update_trial_job", trial, TrialJobApplicationForm.of({}))
        return detail_of(self.driver.ask("get_trial_job", trial))

    def until_status(self, trial: str, wanted: Status) -> TrialJobDetail:
        """Broken when it takes another way there than a trial may take."""
        deadline = time.monotonic() + self.patience
        last = Status.WAITING
        while True:
            found = self.get(trial)
            if found.status is wanted:
                return found
            expect(not found.status.is_final, f"it is {found.status}, and should become {wanted}")
            is_forward = found.status is Status.UNKNOWN or _ORDER.index(found.status) >= _ORDER.index(last)
            expect(is_forward, f"it goes from {last} to {found.status}")
            last = found.status if found.status in _ORDER else last
            expect(time.monotonic() < deadline, f"within {self.patience:g} s, it is {wanted}, and not {found.status}")
            _pause.wait(0.02)

    def until_go(self, began: str = "begun") -> str:
        """A line for the shell that ends after `go`. The file `began` has its process id; it appears whole, for who
        sees it may end the trial at once."""
        file = shlex.quote(str(self.folder / began))
        begin = f"echo $$ > {file}.new; mv {file}.new {file}"
        return f"{begin}; exec sh -c {shlex.quote(_WAIT)} trial {shlex.quote(str(self.folder / 'go'))}"

    def go(self) -> None:
        (self.folder / "go").touch()

    def is_alive(self, began: str) -> bool:
        state = Path("/proc", (self.folder / began).read_text().strip(), "stat")
        try:
            return state.read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + self.patience
        while not is_so():
            expect(time.monotonic() < deadline, f"within {self.patience:g} s, {what}")
            _pause.wait(0.02)


def _value(form: Any) -> object:
    return form.hyper_parameters.value


def _values(data: str, kind: str) -> list[float]:
    """The numbers of a metric of that kind; one that is told plainly is of any."""
    content = json.loads(data)
    if isinstance(content, dict) and "trial_job_id" in content:
        content = json.loads(content["value"]) if content["type"] == kind else {}
    found = content.get("default") if isinstance(content, dict) else content
    return [] if found is None else [found]
