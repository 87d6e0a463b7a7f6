"""The conformance kit of Metapipe's job types: what every one of them has to do, as checks that its tests inherit.

A check is one method, `test_...`, whose docstring is the promise.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from turnout.compat.metapipe.calling import submit
from turnout.compat.metapipe.commands import Command
from turnout.compat.metapipe.job import Job, lacking
from turnout.compat.metapipe.launches import state_of
from turnout.compat.metapipe.states import State, look
from turnout.testing.contract.bench import Broken, expect

_pause = threading.Event()  # never set
_ORDER = (State.QUEUED, State.RUNNING, State.COMPLETE)
_OVER = (State.COMPLETE, State.ERROR)
_LOOKS = ("is_running", "is_queued", "is_complete", "is_error", "is_fail")
#: Waits for $1 to be there, or its folder to be gone, in steps that a machine with much to do can bear.
_WAIT = 'while [ ! -e "$1" ] && [ -d "${1%/*}" ]; do sleep 0.05; done'


class JobTypeContract:
    """Inherit it under a name that pytest collects, and say how a job is made::

        class TestMine(JobTypeContract):
            def make_job(self, alias, command):
                return MyJob(alias, command, [])

    Jobs are shell commands that have to see the temporary folder of this machine; the current directory is a folder in
    there meanwhile.
    """

    patience: ClassVar[float] = 60.0
    """seconds within which whatever is promised has to come"""

    prompt: ClassVar[float] = 10.0
    """seconds that submitting may take"""

    is_in_memory: ClassVar[bool] = False
    """its objects know of their jobs what no other object can know, as a process they started; the check of that is
    skipped"""

    folder: Path
    jobs: list[Any]
    _before: str

    def make_job(self, alias: str, command: Command) -> Any:
        """A new one, which was not submitted."""
        raise NotImplementedError

    # --- what it is -------------------------------------------------------------------------------------------------

    def test_it_has_what_a_job_type_needs(self) -> None:
        """It is a subclass of `Job` with a `cmd`, `submit`, `is_running`, `is_complete` and `is_error` of its own."""
        job = self.make("true")
        lacks = lacking(type(job))
        expect(not lacks, f"it has no {', '.join(lacks)} of its own")
        expect(isinstance(job, Job), "it is a subclass of Job")

    def test_a_new_job_waits(self) -> None:
        """It has its alias, `attempts` is 0, `waiting` is true, and its `filename` is not that of another."""
        one, other = self.make("true"), self.make("true")
        expect(one.alias == "1.1" and other.alias == "1.2", "it has the alias that it was given")
        expect(one.attempts == 0 and one.waiting is True, "it was not submitted yet")
        expect(one.filename != other.filename, "each has a script of its own")

    def test_make_writes_its_script(self) -> None:
        """`make` writes the command to `filename`, so that bash does it, wherever that is started."""
        job = self.make("echo done > made")
        job.make()
        expect(os.path.isfile(job.filename), "the script is there")
        subprocess.run(["bash", os.path.abspath(job.filename)], cwd="/", check=False, stdin=subprocess.DEVNULL)
        expect((self.folder / "made").is_file(), "bash does the command, in the directory of the pipeline")

    def test_cmd_is_a_list_of_words(self) -> None:
        """`cmd` is a list of strings, with the script's name among them."""
        job = self.make("true")
        words = job.cmd
        is_list = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
        expect(words and is_list, f"a list of words, and not {words!r}")
        expect(any(word.endswith(os.path.basename(job.filename)) for word in words), "its script is in there")

    def test_submit_takes_the_job_or_nothing(self) -> None:
        """`submit` is called with the job itself, or without arguments: as it takes it."""
        taken = inspect.signature(self.make("true").submit).parameters.values()
        needed = [each for each in taken if each.default is each.empty and each.kind not in (2, 4)]
        expect(len(needed) <= 1, f"it takes one argument at most, and not {len(needed)}")

    # --- submitting -------------------------------------------------------------------------------------------------

    def test_submitting_does_not_block(self) -> None:
        """`submit` returns while the job goes on; `attempts` is 1 then, and `waiting` false."""
        job = self.make(self.until_go())
        self.submit(job)
        expect(not (self.folder / "go").exists(), "it returns before the job's end")
        expect(job.attempts == 1, f"attempts is 1, and not {job.attempts}")
        expect(not job.waiting, "waiting is false")

    def test_each_job_keeps_its_id(self) -> None:
        """`id` is what the other system calls it: not that of another, and the same until it is submitted again."""
        jobs = [self.submitted("true") for _ in range(2)]
        ids = [job.id for job in jobs]
        if None in ids:
            raise SkipTest("its jobs have no id")
        expect(ids[0] != ids[1], "ids are different")
        for job in jobs:
            self.until_state(job, State.COMPLETE)
        expect([job.id for job in jobs] == ids, "each keeps its own")

    # --- watching ---------------------------------------------------------------------------------------------------

    def test_a_job_waits_runs_and_is_complete(self) -> None:
        """It is queued, running, complete: never back, it stays complete, and its command was executed once."""
        job = self.submitted(f"echo once >> count; {self.until_go()}")
        self.until_state(job, State.RUNNING)
        self.go()
        self.until_state(job, State.COMPLETE)
        expect(look(job) is State.COMPLETE, "it stays so")
        expect((self.folder / "count").read_text() == "once\n", "it was executed once")

    def test_a_failing_job_is_in_error(self) -> None:
        """One that does not exit with 0 is in error, and never complete; one whose command is not there, too."""
        for command in ("exit 3", "/nothing/is/here"):
            job = self.submitted(command)
            self.until_state(job, State.ERROR)
            expect(not job.is_complete() and not job.is_running(), "it is nothing else")

    def test_a_look_is_yes_or_no(self) -> None:
        """Each `is_…` is true or false, changes nothing, and no two of running, queued and complete are true."""
        job = self.submitted(self.until_go())
        self.until_state(job, State.RUNNING)
        for _ in range(2):
            found = {name: getattr(job, name)() for name in _LOOKS}
            odd = {name: each for name, each in found.items() if not isinstance(each, bool)}
            expect(not odd, f"true or false, and not {odd}")
            expect(
                not (found["is_complete"] or found["is_error"] or found["is_fail"]), f"it runs, and no more: {found}"
            )
        self.go()
        self.until_state(job, State.COMPLETE)
        expect(not job.is_running() and not job.is_queued(), "it is complete, and no more")

    def test_jobs_are_told_apart(self) -> None:
        """One is complete or in error while another runs."""
        going, well, bad = self.submitted(self.until_go()), self.submitted("true"), self.submitted("false")
        self.until_state(well, State.COMPLETE)
        self.until_state(bad, State.ERROR)
        self.until_state(going, State.RUNNING)
        expect(look(well) is State.COMPLETE and look(bad) is State.ERROR, "those that are over stay what they are")

    def test_another_object_goes_on_with_it(self) -> None:
        """One that was made anew, with what the first knew after its submit, knows how the job is."""
        if self.is_in_memory:
            raise SkipTest("what its objects know is in memory only")
        job = self.submitted(self.until_go())
        other = self.make_job(job.alias, job.command)
        vars(other).update(json.loads(state_of(job)))
        self.until_state(other, State.RUNNING)
        self.go()
        self.until_state(other, State.COMPLETE)

    # --- again, and no more -----------------------------------------------------------------------------------------

    def test_a_job_that_errored_is_submitted_again(self) -> None:
        """A second `submit` executes it once more, counts, and is what the looks are about then."""
        job = self.submitted("echo once >> count; test -e mended")
        self.until_state(job, State.ERROR)
        (self.folder / "mended").touch()
        self.submit(job)
        expect(job.attempts == 2, f"attempts is 2, and not {job.attempts}")
        self.until_state(job, State.COMPLETE)
        expect((self.folder / "count").read_text() == "once\n" * 2, "it was executed twice")

    def test_it_fails_when_it_was_tried_often_enough(self) -> None:
        """In error, `should_retry` is true and `is_fail` false until `attempts` is MAX_RETRY; then it is the other way
        round."""
        job = self.submitted("false")
        self.until_state(job, State.ERROR)
        expect(job.should_retry and not job.is_fail(), "after one attempt it is tried again")
        job.attempts = job.MAX_RETRY
        expect(job.is_fail() and not job.should_retry, f"after {job.MAX_RETRY} attempts it has failed")

    def test_a_cancelled_job_ends(self) -> None:
        """Where there is a `cancel`: it ends the job with its processes, and is not complete then. Again is no
        error."""
        job = self.make(f"echo $$ > pid.new; mv pid.new pid; {self.until_go()}")
        if not callable(getattr(job, "cancel", None)):
            raise SkipTest("it has no cancel, which it need not have")
        self.submit(job)
        self.until((self.folder / "pid").exists, "it begins")
        for _ in range(2):
            job.cancel()
        self.until(lambda: not self.is_alive(), "its process is gone")
        self.until(lambda: not job.is_running() and not job.is_queued(), "it is over")
        expect(not job.is_complete(), "it is not complete")

    # --- the bench --------------------------------------------------------------------------------------------------

    def setup_method(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="turnout-contract-"))
        self.jobs, self._before = [], os.getcwd()
        os.chdir(self.folder)

    def teardown_method(self) -> None:
        """What still runs ends when its folder is gone."""
        os.chdir(self._before)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, command: str) -> Any:
        """A job of this line of shell: 1.1, 1.2, …"""
        alias = f"1.{len(self.jobs) + 1}"
        self.jobs.append(self.make_job(alias, Command(alias=alias, script=f"{command}\n")))
        return self.jobs[-1]

    def submitted(self, command: str) -> Any:
        job = self.make(command)
        self.submit(job)
        return job

    def submit(self, job: Any) -> None:
        """In a thread of its own: one that blocks is not waited for."""
        raised: list[BaseException] = []

        def act() -> None:
            try:
                submit(job)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        thread.join(self.prompt)
        expect(not thread.is_alive(), f"submit returns within {self.prompt:g} s")
        if raised:
            raise Broken(f"submit raised {type(raised[0]).__name__}: {raised[0]}") from raised[0]

    def until_state(self, job: Any, wanted: State) -> None:
        """Broken when it takes another way there than a job may take."""
        deadline = time.monotonic() + self.patience
        last = State.QUEUED
        while (found := look(job)) is not wanted:
            expect(found not in _OVER, f"it is {found.value}, and should be {wanted.value}")
            is_forward = found is State.SILENT or _ORDER.index(found) >= _ORDER.index(last)
            expect(is_forward, f"it goes from {last.value} to {found.value}")
            last = found if found in _ORDER else last
            what = f"within {self.patience:g} s, it is {wanted.value}, and not {found.value}"
            expect(time.monotonic() < deadline, what)
            _pause.wait(0.02)

    def until_go(self) -> str:
        """A line for the shell that ends after `go`."""
        return f"exec sh -c {shlex.quote(_WAIT)} job {shlex.quote(str(self.folder / 'go'))}"

    def go(self) -> None:
        (self.folder / "go").touch()

    def is_alive(self) -> bool:
        state = Path("/proc", (self.folder / "pid").read_text().strip(), "stat")
        try:
            return state.read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + self.patience
        while not is_so():
            expect(time.monotonic() < deadline, f"within {self.patience:g} s, {what}")
            _pause.wait(0.02)
