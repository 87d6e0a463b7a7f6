"""Metapipe's Runtime: which jobs are submitted when, what their queue hears, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from turnout.compat.metapipe import (
    Job,
    JobQueue,
    LocalJob,
    Outcome,
    Parser,
    PipelineFailed,
    Queue,
    Runtime,
    call,
)
from turnout.compat.metapipe import ticking as ticking_module
from turnout.compat.metapipe.calling import SubmitFailed, SubmitUnclear, submit
from turnout.compat.metapipe.commands import Command
from turnout.compat.metapipe.hooks import Hooks
from turnout.compat.metapipe.job_types import QUEUE_TYPES
from turnout.compat.metapipe.reporting import HtmlReportingJobQueue
from turnout.compat.metapipe.steps import Steps
from turnout.compat.metapipe.ticking import Ticking
from turnout.errors import InvalidInput

SHORT = 0.02
CHAIN = """
[COMMANDS]
sort {1||2} > {o}
cat {1.*} > {o}
[FILES]
1. a
2. b
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("2\n1\n")
    (tmp_path / "b").write_text("3\n")
    Shell.fails, Shell.peak, Shell.going, Shell.submitted = {}, 0, set(), []
    return tmp_path


class Shell(Job):
    """Executes its script at once; then it is running for two looks. `fails` has how often a job fails before it is
    well."""

    fails: ClassVar[dict[str, int]] = {}
    submitted: ClassVar[list[str]] = []
    going: ClassVar[set[str]] = set()
    peak: ClassVar[int] = 0

    @property
    def cmd(self) -> list[str]:
        return ["bash", self.filename]

    def submit(self) -> None:
        self.make()
        self.attempts += 1
        self.looks = 0
        Shell.submitted.append(self.alias)
        Shell.going.add(self.alias)
        Shell.peak = max(Shell.peak, len(Shell.going))
        self.is_bad = Shell.fails.get(self.alias, 0) > 0
        if self.is_bad:
            Shell.fails[self.alias] -= 1
        self.code = call(self.cmd).returncode if not self.is_bad else 1

    def is_running(self) -> bool:
        self.looks += 1
        if self.looks > 2:
            Shell.going.discard(self.alias)
        return self.looks <= 2

    def is_complete(self) -> bool:
        return self.code == 0

    def is_error(self) -> bool:
        return self.code != 0


class Hears(Queue):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.restarts = 0

    def on_start(self) -> None:
        self.heard.append("start")

    def on_end(self) -> None:
        self.heard.append("end")

    def on_locked(self) -> bool:
        self.heard.append("locked")
        self.restarts -= 1
        return self.restarts >= 0

    def on_ready(self, job: Any) -> None:
        self.heard.append(f"ready {job.alias}")

    def on_submit(self, job: Any) -> None:
        self.heard.append(f"submit {job.alias}")

    def on_complete(self, job: Any) -> None:
        self.heard.append(f"complete {job.alias}")

    def on_error(self, job: Any) -> None:
        self.heard.append(f"error {job.alias}")

    def on_fail(self, job: Any) -> None:
        self.heard.append(f"fail {job.alias}")


def runtime(text: str = CHAIN, *given: Any, job_type: Any = Shell, **more: Any) -> Runtime:
    return Runtime(Parser(text).consume(), *given, job_type=job_type, sleep_time=SHORT, **more)


def failed(pipeline: Runtime) -> Outcome:
    with pytest.raises(PipelineFailed) as raised:
        pipeline.run()
    return raised.value.outcome


# --- making one -------------------------------------------------------------------------------------------------------


def test_as_the_document_has_it(here: Path) -> None:
    """With a custom job type in a dict, and its name."""
    job_types = {"my_custom_job_type": Shell}
    parser = Parser(CHAIN)
    try:
        command_templates = parser.consume()
    except ValueError as e:
        raise SyntaxError(f"Invalid config file. \n{e}") from e
    pipeline = Runtime(command_templates, job_types, "my_custom_job_type")
    outcome = pipeline.run()
    assert outcome.is_well and outcome.complete == ("1.1", "1.2", "2.1")
    assert (here / "mp.2.1.output").read_text() == "1\n2\n3\n"


def test_a_bad_file_is_a_value_error() -> None:
    for text in ("[COMMANDS]\ncat {1\n", "[COMMANDS]\ncat {gone}\n", ""):
        with pytest.raises(ValueError, match=r"config(:\d+)?"):
            Parser(text).consume()


TYPES = {"own": Shell}


@pytest.mark.parametrize(
    "given", [
        (TYPES, "own"), (TYPES, "own", Hears), (Hears, TYPES, "own"), (Hears, TYPES, "own", SHORT, 3),
        (TYPES, "own", Hears()), (Hears(), TYPES, "own"), (Shell,), (TYPES, "own", None),
    ],
)  # fmt: skip
def test_arguments_are_known_by_what_they_are(given: Sequence[Any]) -> None:
    """Metapipe's document and its code have them in different orders."""
    pipeline = Runtime(Parser(CHAIN).consume(), *given)
    assert pipeline.run().is_well and len(Shell.submitted) == 3
    assert isinstance(pipeline.queue, JobQueue if Hears not in map(_class, given) else Hears)


def _class(each: Any) -> Any:
    return each if isinstance(each, type) else type(each)


def test_without_anything_a_job_is_a_run_here() -> None:
    pipeline = Runtime(Parser(CHAIN).consume())
    assert isinstance(pipeline.queue, JobQueue)
    assert {type(job) for job in pipeline.queue.queue} == {LocalJob}


def test_a_module_stands_for_the_class_of_its_name() -> None:
    """As after ``import MyCustomJob``."""
    module = ModuleType("MyCustomJob")
    vars(module)["MyCustomJob"] = Shell
    assert runtime(CHAIN, {"x": module}, job_type="x").run().is_well


class Lacks(Job):
    def is_running(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("given", "more", "said"),
    [
        (({"own": Shell},), {"job_type": "onw"}, "no job type 'onw'"),
        (({"own": Lacks}, "own"), {}, "job type 'own' has no cmd, submit, is_complete, is_error"),
        (({"own": 3}, "own"), {}, "job type 'own' has no cmd"),
        ((), {"max_jobs": 0}, "max_jobs is 0"),
        (({}, {}), {}, "two arguments may be job_types"),
        ((), {"queue": Lacks}, "the queue Lacks cannot be made"),
        ((), {"queue": Fraction(1)}, "the queue Fraction has a queue that is no list"),
        ((), {"queue": type("Odd", (), {"failed": property(lambda self: 5)})}, "Odd has a failed that is no list"),
    ],
)
def test_what_is_wrong_is_told_before_anything_begins(given: Sequence[Any], more: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Runtime(Parser(CHAIN).consume(), *given, **more)


# --- what a queue hears -----------------------------------------------------------------------------------------------


def test_a_queue_hears_all_in_order() -> None:
    pipeline = runtime(queue=Hears, max_jobs=1)
    pipeline.run()
    assert pipeline.queue.heard == [
        "start",
        *(f"{what} {alias}" for alias in ("1.1", "1.2", "2.1") for what in ("ready", "submit", "complete")),
        "end",
    ]  # fmt: skip


class Bare:
    """No base, and few callbacks. It looks at its jobs before anybody gave it some."""

    def __init__(self) -> None:
        self.seen = [len(self.queue)]  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<MyCustomQueue: jobs={len(self.queue)}>"  # type: ignore[attr-defined]

    def on_tick(self) -> None:
        self.seen.append(len(self.queue))  # type: ignore[attr-defined]


def test_a_bare_class_is_a_queue() -> None:
    pipeline = runtime(queue=Bare)
    assert repr(pipeline.queue) == "<MyCustomQueue: jobs=3>"
    pipeline.run()
    assert pipeline.queue.seen[:2] == [0, 1] and pipeline.queue.seen[-1] == 0, "those that wait are in it"


def test_a_class_without_anything_is_a_queue() -> None:
    assert runtime(queue=type("Nothing", (), {})).run().is_well


class OwnList:
    def __init__(self) -> None:
        self.queue: list[Any] = []
        self.first = self.queue

    def on_start(self) -> None:
        self.queue = list(self.queue)  # another one is as good


def test_a_queue_may_have_lists_of_its_own() -> None:
    pipeline = runtime(queue=OwnList)
    assert [job.alias for job in pipeline.queue.first] == ["1.1", "1.2", "2.1"]
    assert pipeline.run().is_well


def test_a_job_that_is_pushed_meanwhile_is_done() -> None:
    class Pushes(Hears):
        def on_complete(self, job: Any) -> None:
            super().on_complete(job)
            if job.alias == "2.1":
                self.push(Shell("after", Command(alias="after", script="cp mp.2.1.output copy\n"), ["2.1"]))

    outcome = runtime(queue=Pushes).run()
    assert outcome.complete[-1] == "after" and Path("copy").exists()


def test_most_at_once() -> None:
    text = "[COMMANDS]\ncat {" + "||".join("123456") + "} > {o}\n[FILES]\n" + "".join(f"{n}. a\n" for n in range(1, 7))
    runtime(text, max_jobs=4).run()
    assert Shell.peak == 4
    Shell.peak = 0

    class Few(Queue):
        MAX_CONCURRENT_JOBS = 2

    runtime(text, queue=Few).run()
    assert Shell.peak == 2


def test_progress_and_lists() -> None:
    pipeline = runtime(queue=Hears)
    assert (pipeline.queue.progress, len(pipeline.queue.active_jobs)) == (0, 3)
    pipeline.run()
    assert (pipeline.queue.progress, pipeline.queue.is_empty, len(pipeline.queue.all_jobs)) == (100, True, 3)


def test_reports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime(queue=QUEUE_TYPES["text"]).run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[0%] ") and lines[0].endswith("Submitted: 1.1") and "[100%] " in lines[-1]
    Shell.fails = {"1.1": 1}
    runtime(queue=HtmlReportingJobQueue).run()
    page = (here / "metapipe.report.html").read_text()
    assert "All jobs are complete." in page and "Error: 1.1, attempt 1 of 5" in page


# --- when something fails ---------------------------------------------------------------------------------------------


def test_an_error_is_tried_again() -> None:
    Shell.fails = {"1.1": 2}
    pipeline = runtime(queue=Hears)
    assert pipeline.run().is_well
    assert Shell.submitted.count("1.1") == 3
    heard = [each for each in pipeline.queue.heard if each.endswith("1.1")]
    again = ["ready 1.1", "submit 1.1", "error 1.1"]
    assert heard == [*again, *again, "ready 1.1", "submit 1.1", "complete 1.1"]


def test_only_what_depends_on_a_failure_is_skipped() -> None:
    text = CHAIN.replace("[FILES]", "tac {2} > {o}\ncat {2.1} > {o}\n[FILES]")
    Shell.fails = {"1.2": 99}
    pipeline = runtime(text, queue=Hears)
    outcome = failed(pipeline)
    assert set(outcome.complete) == {"1.1", "3.1"}
    assert (outcome.failed, outcome.skipped) == (("1.2",), ("2.1", "4.1"))
    assert Shell.submitted.count("1.2") == Job.MAX_RETRY
    assert pipeline.queue.heard[-3:] == ["fail 1.2", "locked", "end"]


def test_what_is_raised_says_why() -> None:
    Shell.fails = {"1.2": 99}
    with pytest.raises(PipelineFailed) as raised:
        runtime().run()
    assert str(raised.value) == (
        "1.2 failed: it is in error\nnot submitted, for what they depend on is not complete: 2.1"
    )


def test_nothing_is_locked_where_nothing_waits() -> None:
    Shell.fails = {"2.1": 99}
    pipeline = runtime(queue=Hears)
    assert failed(pipeline).failed == ("2.1",) and "locked" not in pipeline.queue.heard


def test_a_restart_submits_what_failed_as_if_for_the_first_time() -> None:
    Shell.fails = {"1.2": Job.MAX_RETRY + 2}
    pipeline = runtime(queue=Hears)
    pipeline.queue.restarts = 1
    assert pipeline.run().is_well
    assert pipeline.queue.heard.count("locked") == 1
    assert (Shell.submitted.count("1.1"), Shell.submitted.count("1.2")) == (1, Job.MAX_RETRY + 3)
    assert next(job for job in pipeline.queue.complete if job.alias == "1.2").attempts == 3


def test_restarts_that_change_nothing_come_to_an_end() -> None:
    Shell.fails = {"1.2": 10_000}
    pipeline = runtime(queue=Hears)
    pipeline.queue.restarts = 10_000
    assert failed(pipeline).skipped == ("2.1",)
    assert pipeline.queue.heard.count("locked") == 6 and pipeline.queue.heard[-1] == "end"


def test_messages_have_what_a_job_and_a_queue_say_of_themselves(caplog: pytest.LogCaptureFixture) -> None:
    class Named(Shell):
        def __repr__(self) -> str:
            return f"<MyCustomJob: {self.cmd}>"

    Shell.fails = {"1.1": 10_000}
    pipeline = runtime(job_type=Named, queue=Hears)
    pipeline.queue.restarts = 10_000
    caplog.set_level("INFO", "turnout.compat.metapipe")
    failed(pipeline)
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "1.1, <MyCustomJob: ['bash', 'metapipe.1.1.job']>, is submitted again: it is in error"
    assert told[-1] == "<Hears: jobs=1> was restarted 5 times, and nothing more is complete: it ends"


def test_a_job_type_that_counts_nothing() -> None:
    class Uncounted(Shell):
        def submit(self) -> None:
            super().submit()
            self.attempts = 0

    Shell.fails = {"1.1": 99}
    failed(runtime(job_type=Uncounted))
    assert Shell.submitted.count("1.1") == Job.MAX_RETRY


def test_an_output_that_is_not_there_is_an_error() -> None:
    pipeline = runtime("[COMMANDS]\ntrue #{o:x.txt}\n")
    outcome = failed(pipeline)
    assert (outcome.failed, outcome.why["1.1"]) == (("1.1",), "it left no x.txt")
    assert Shell.submitted == ["1.1"] * Job.MAX_RETRY


def test_an_output_may_lie_anywhere_as_all_is_done_in_one_place(here: Path) -> None:
    text = f"[COMMANDS]\ntouch {{o:{here}/x}}\nmkdir {{o:d}}\ntouch {{d}}/x #{{o:d/x}}\n"
    assert runtime(text).run().complete == ("1.1", "2.1", "3.1")


def test_an_output_of_an_earlier_time_does_not_count(here: Path) -> None:
    (here / "mp.1.1.output").write_text("old")
    outcome = failed(runtime("[COMMANDS]\ntrue {o}\n"))
    assert outcome.why == {"1.1": "it left no mp.1.1.output"}


def test_it_goes_on_when_it_is_run_again() -> None:
    Shell.fails = {"1.2": Job.MAX_RETRY}
    pipeline = runtime(queue=Hears)
    failed(pipeline)
    assert pipeline.run().complete == ("1.1", "1.2", "2.1")
    assert Shell.submitted.count("1.1") == 1, "what is complete stays so"
    assert pipeline.run().ticks == 0


# --- submitting and looking -------------------------------------------------------------------------------------------


class Commanded(Shell):
    """Its ``cmd`` is one that the test says."""

    words: ClassVar[list[str]] = []

    @property
    def cmd(self) -> list[str]:
        return self.words

    def submit(self) -> None:
        self.make()
        self.attempts += 1
        Shell.submitted.append(self.alias)
        out = call(self.cmd)
        self.id = out[: out.index(".")]


def test_a_submit_that_fails_is_tried_again() -> None:
    Commanded.words = ["sh", "-c", "echo the queue is away >&2; exit 3"]
    outcome = failed(runtime("[COMMANDS]\ntrue\n", job_type=Commanded))
    assert outcome.why["1.1"] == "it was not submitted: SubmitFailed: sh exited with 3: the queue is away"
    assert Shell.submitted == ["1.1"] * Job.MAX_RETRY


def test_a_job_that_is_somewhere_is_not_submitted_twice() -> None:
    """The command was well, and its answer is not understood."""
    Commanded.words = ["echo", "no id"]
    pipeline = runtime("[COMMANDS]\ntrue\n", job_type=Commanded, queue=Hears)
    assert "SubmitUnclear" in failed(pipeline).why["1.1"]
    assert Shell.submitted == ["1.1"] and pipeline.queue.heard[-3:] == ["error 1.1", "fail 1.1", "end"]


def test_submit_may_take_the_job() -> None:
    class Takes(Shell):
        def submit(self, job: Any) -> None:  # type: ignore[override]
            assert job is self
            super().submit()

    assert runtime(job_type=Takes).run().is_well


def test_what_call_says() -> None:
    said = call(["sh", "-c", "echo out; echo err >&2; exit 3"])
    out, err = said
    assert (said, out, err, said.returncode) == ("out\n", "out\n", "err\n", 3)
    with pytest.raises(FileNotFoundError):
        call(["/nothing/is/here"])
    job = Commanded("1", Command(alias="1", script=""))
    Commanded.words = ["false"]
    with pytest.raises(SubmitFailed):
        submit(job)
    Commanded.words = ["true"]
    with pytest.raises(SubmitUnclear):
        submit(job)


class Ticks:
    """A queue that is ticked by hand, at times that the test says."""

    def __init__(self, job_type: Any, text: str = "[COMMANDS]\ntrue\n") -> None:
        self.now = 0.0
        self.hooks = Hooks(Hears)
        self.ticking = Ticking(Steps(Parser(text).consume(), job_type), self.hooks, 10, lambda: self.now)

    def __call__(self, seconds: float = 1.0) -> list[str]:
        """What was heard."""
        before = len(self.hooks.made.heard)
        self.now += seconds
        self.ticking.tick()
        return list(self.hooks.made.heard[before:])


class Away(Shell):
    """Nobody can ask how it is, until then."""

    error: ClassVar[Exception | None] = OSError("qstat is away")

    def is_running(self) -> bool:
        if self.error is not None:
            raise self.error
        return False


def test_a_look_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(Away)
    ticks()
    for _ in range(10):
        assert ticks() == []
    monkeypatch.setattr(Away, "error", None)
    assert ticks() == ["complete 1.1"]


def test_one_that_never_can_be_looked_at_has_failed() -> None:
    ticks = Ticks(Away)
    ticks()
    assert ticks(ticking_module._PATIENCE / 2) == []
    assert ticks(ticking_module._PATIENCE) == ["fail 1.1"]
    assert ticks.ticking.outcome(0).why == {"1.1": "it cannot be looked at: OSError: qstat is away"}


def test_a_mistake_in_a_job_type_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Away, "error", AttributeError("no such thing"))
    ticks = Ticks(Away)
    assert ticks() == ["ready 1.1", "submit 1.1", "fail 1.1"]


def test_one_that_says_nothing_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Shell):
        def is_complete(self) -> bool:
            return False

    ticks = Ticks(Silent)
    ticks()
    for _ in range(8):
        assert ticks(ticking_module._PATIENCE) == []
    assert [record.getMessage() for record in caplog.records] == [
        "1.1 says for 600 s that it is neither queued, running, in error nor complete"
    ]


def test_pauses_grow_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(Shell):
        def is_running(self) -> bool:
            self.looks += 1
            return self.looks < 12

    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    Runtime(Parser("[COMMANDS]\ntrue\n").consume(), Long).run()
    assert pauses[:4] == [0.02, 0.04, 0.08, 0.16] and pauses[-1] == max(pauses) == 1.0


# --- files that are known later ---------------------------------------------------------------------------------------

LATE = """
[COMMANDS]
mkdir -p parts; split -l 1 {1} parts/x #{o:parts/*}
tac {parts/*||} > {o.txt}
cat {2.*} > {o}
[FILES]
1. a
"""


def test_jobs_that_are_known_later(here: Path) -> None:
    pipeline = runtime(LATE, queue=Hears)
    assert [job.alias for job in pipeline.queue.queue] == ["1.1"]
    assert pipeline.run().complete == ("1.1", "2.1", "2.2", "3.1")
    assert (here / "mp.3.1.output").read_text() == "2\n1\n"
    assert (here / "mp.2.2.output.txt").exists()


def test_a_job_depends_on_jobs(here: Path) -> None:
    """Also on those that are known later. Until then, the command stands for them."""
    pipeline = runtime(
        LATE.replace("{o.txt}", "total #{o:total}").replace("||", "").replace("2.*", "total"), queue=Hears
    )
    of_three = pipeline.queue.queue[1]
    assert (of_three.alias, of_three.depends_on) == ("3.1", ["2"])
    pipeline.run()
    assert [(job.alias, job.depends_on) for job in pipeline.queue.complete] == [
        ("1.1", []), ("2.1", ["1.1"]), ("3.1", ["2.1"])
    ]  # fmt: skip


def test_a_job_does_not_wait_for_what_only_another_of_its_command_reads() -> None:
    pipeline = runtime("[COMMANDS]\ncat {1} > {o}\ncat {1} > {o}\ncat {1.1||2.1} > {o}\n[FILES]\n1. a\n")
    assert {job.alias: job.depends_on for job in pipeline.queue.queue} == {
        "1.1": [], "2.1": [], "3.1": ["1.1"], "3.2": ["2.1"]
    }  # fmt: skip


def test_files_of_an_earlier_time_are_not_what_it_left(here: Path) -> None:
    (here / "parts").mkdir()
    (here / "parts" / "old").write_text("old\n")
    assert len(runtime(LATE).run().complete) == 4
    assert (here / "mp.3.1.output").read_text() == "2\n1\n"


def test_a_command_whose_jobs_cannot_be_made(here: Path) -> None:
    """It has failed; a restart tries that again."""

    class Mends(Hears):
        def on_locked(self) -> bool:
            Path("parts", "z.csv").write_text("z\n")
            return super().on_locked()

    text = LATE.replace("{parts/*||}", "{parts/*.csv||}")
    outcome = failed(runtime(text))
    assert (outcome.complete, outcome.failed, outcome.skipped) == (("1.1",), ("2",), ("3",))
    assert "left no file that matches parts/*.csv" in outcome.why["2"]
    pipeline = runtime(text, queue=Mends)
    pipeline.queue.restarts = 1
    assert pipeline.run().complete == ("1.1", "2.1", "3.1")


# --- being interrupted ------------------------------------------------------------------------------------------------


class Interrupts(Hears):
    is_on = True

    def on_submit(self, job: Any) -> None:
        super().on_submit(job)
        if self.is_on:
            raise KeyboardInterrupt


def test_ctrl_c_ends_those_that_can_be_ended() -> None:
    cancelled = []

    class Ends(Shell):
        def cancel(self) -> None:
            cancelled.append(self.alias)

    pipeline = runtime(job_type=Ends, queue=Interrupts)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    assert cancelled == ["1.1"] and pipeline.queue.heard[-1] == "end"
    pipeline.queue.is_on = False
    assert pipeline.run().is_well and Shell.submitted.count("1.1") == 2


def test_after_ctrl_c_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = runtime(queue=Interrupts)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    assert capsys.readouterr().err == "these jobs go on: 1.1\n"
    pipeline.queue.is_on = False
    assert pipeline.run().is_well and Shell.submitted.count("1.1") == 1, "it was not submitted twice"


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_a_script_is_for_bash_and_begins_here(here: Path) -> None:
    text = "[COMMANDS]\n# say hi\ncat {1} > {o}\n[FILES]\n1. a\n[JOB_OPTIONS]\n#PBS -l mem=4gb\nset -e\n"
    runtime(text).run()
    assert (here / "metapipe.1.1.job").read_text().splitlines() == [
        "#!/bin/bash", "#PBS -l mem=4gb", f"cd -- {here} || exit", "set -e", "# say hi", "cat a > mp.1.1.output",
    ]  # fmt: skip
    runtime(text.replace("#PBS", "#!/usr/bin/env bash\n#PBS")).run()
    assert (here / "metapipe.1.1.job").read_text().startswith("#!/usr/bin/env bash\n#PBS"), "its own line stays"
