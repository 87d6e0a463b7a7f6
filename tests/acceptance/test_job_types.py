"""Job types and queues that are written for Metapipe: as targets, for one pipeline, and in scripts of their own;
through the command line, with real hubs and agents."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import components
from tests.contract.job_type import PBS_JOB
from tests.harness import Cli, at_terminal, processes_of, user_environment, wait_until
from tests.slurm import Cluster, running_cluster
from turnout.testing import pbs

pytestmark = pytest.mark.timeout(150)

SETTINGS = """
compute-targets:
    batch: {service: my-pbs}
providers:
    compute: {my-pbs: "jobs.mine.PBSJob"}
"""
CHAIN = """
[COMMANDS]
sort {1||2} > {o}
cat {1.*} > {o}
[FILES]
1. a
2. b
[JOB_OPTIONS]
#PBS -N chained
set -e
"""
#: The second of two fails, as long as there is no file ``mended``.
ONE_FAILS = "[COMMANDS]\n(test {{1||2}} != b || test -e {there}/mended) && cat {{1||2}} > {{o}}\ncat {{1.*}}\n[FILES]\n"
QUEUE = """
class MyCustomQueue(object):
    restarts = RESTARTS

    def __repr__(self):
        return '<MyCustomQueue: jobs=%s>' % len(self.queue)

    def on_start(self):
        print('start', self)

    def on_end(self):
        print('end', self)

    def on_locked(self):
        print('locked', self)
        open('mended', 'w').close()
        self.restarts -= 1
        return self.restarts >= 0

    def on_ready(self, job):
        print('ready', job.alias)

    def on_submit(self, job):
        print('submit', job.alias, job.attempts)

    def on_complete(self, job):
        print('complete', job.alias)

    def on_error(self, job):
        print('error', job.alias, job.is_error())
"""


@pytest.fixture
def lab(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """A user whose project has the class, and two files; the commands of a PBS are there."""
    monkeypatch.setenv("PATH", f"{pbs.install(tmp_path / 'pbs')}:{os.environ['PATH']}")
    (cli.cwd / "jobs").mkdir()
    (cli.cwd / "jobs" / "mine.py").write_text(PBS_JOB)
    (cli.cwd / "a").write_text("2\n1\n")
    (cli.cwd / "b").write_text("3\n")
    yield cli
    cli("cancel", "all")


@pytest.fixture
def target(lab: Cli) -> Cli:
    (lab.cwd / "turnout.yaml").write_text(SETTINGS)
    return lab


def extended(user: Cli, text: str) -> None:
    """The class does that besides."""
    with open(user.cwd / "jobs" / "mine.py", "a") as file:
        file.write(text)


def keep_scripts(user: Cli) -> Path:
    """What is submitted is kept there: where it lies, it goes with the last run."""
    extended(user, f"""
    def submit(self, job):
        job.make()
        open('{user.cwd.parent}/scripts', 'a').write(open(self.filename).read())
        self.id = call(job.cmd).partition('.')[0]
""")  # fmt: skip
    return user.cwd.parent / "scripts"


def state(user: Cli, run: str = "run1") -> str:
    return str(user.json("show", run)["state"])


# --- as a target ------------------------------------------------------------------------------------------------------


def test_a_run_from_submit_to_end(target: Cli) -> None:
    """Status, output, metrics, files and the exit code are the run's own, and the job's id is shown."""
    (target.cwd / "train.py").write_text(
        "import turnout\nprint('hello')\nturnout.log(loss=0.5)\n(turnout.output_dir() / 'model').write_text('w')\n"
    )
    view = target.json("run", "--wait", "--target", "batch", "train.py")
    assert (view["state"], view["exit_code"], view["target"]) == ("completed", 0, "batch")
    assert view["metrics"] == {"loss": 0.5} and target("logs", "run1").stdout == "hello\n"
    assert target.json("show", "run1")["service_job_id"] == "1"
    target("extract", "run1", str(target.cwd.parent / "got"))
    assert list((target.cwd.parent / "got" / "after").rglob("model")), "what it left is kept"
    done = target("run", "--wait", "--target", "batch", "bash", "-c", "exit 3", check=False)
    assert done.returncode == 3 and state(target, "run2") == "failed"
    assert "jobs.mine.PBSJob is Metapipe's Job" in target("doctor", "batch").stdout


def test_its_variables_are_in_no_script(target: Cli) -> None:
    kept = keep_scripts(target)
    done = target("run", "--wait", "--target", "batch", "--env", "WORD=it's me", "bash", "-c", 'echo "$WORD"')
    assert done.stdout == "it's me\n"
    assert kept.read_text().startswith("#!/bin/bash\n") and "it's me" not in kept.read_text()


def test_what_is_written_of_a_target_is_for_its_class(target: Cli) -> None:
    """Lines for the head of scripts, and what ``__init__`` takes."""
    kept = keep_scripts(target)
    extended(target, "    def __init__(self, alias, command, depends_on=[], queue='none', nice_level=0):\n"
                     "        super().__init__(alias, command, depends_on)\n"
                     "        self.told = '%s %s' % (queue, nice_level)\n"
                     "    def make(self):\n"
                     "        super().make()\n"
                     "        open(self.filename, 'a').write('# ' + self.told)\n")  # fmt: skip
    more = 'batch: {service: my-pbs, queue: workq, nice-level: 5, job-options: ["#PBS -N mine"]'
    (target.cwd / "turnout.yaml").write_text(SETTINGS.replace("batch: {service: my-pbs", more))
    target("run", "--wait", "--target", "batch", "true")
    script = kept.read_text()
    assert script.splitlines()[:2] == ["#!/bin/bash", "#PBS -N mine"] and script.endswith("# workq 5")


def test_a_job_that_cannot_be_submitted_waits_and_says_why(target: Cli, tmp_path: Path) -> None:
    (tmp_path / "pbs" / "bin" / "qsub").rename(tmp_path / "qsub")
    (tmp_path / "pbs" / "bin" / "qsub").write_text("#!/bin/sh\necho the queue is away >&2\nexit 3\n")
    (tmp_path / "pbs" / "bin" / "qsub").chmod(0o755)
    target("run", "-d", "--target", "batch", "echo", "hello")
    wait_until(lambda: "SubmitFailed: qsub exited with 3: the queue is away" in target("why", "run1").stdout)
    (tmp_path / "qsub").replace(tmp_path / "pbs" / "bin" / "qsub")
    wait_until(lambda: state(target) == "completed")
    assert target("logs", "run1").stdout == "hello\n"


def test_a_person_cancels(target: Cli) -> None:
    """Where the class knows no cancel, the run hears of it from the hub."""
    target("run", "-d", "--target", "batch", "bash", "-c", f"touch {target.cwd}/begun; exec sleep 600")
    wait_until((target.cwd / "begun").exists)
    target("cancel", "run", "run1")
    wait_until(lambda: state(target) == "cancelled")
    wait_until(lambda: "job_state = R" not in call("qstat", "-f"))


def test_what_was_cancelled_while_it_waited_is_not_executed(target: Cli) -> None:
    """Its job stays where it is, and does nothing when its turn comes."""
    (target.cwd / "turnout.yaml").write_text(SETTINGS.replace("my-pbs}", 'my-pbs, job-options: ["#PBS -h"]}', 1))
    target("run", "-d", "--target", "batch", "touch", f"{target.cwd}/begun")
    wait_until(lambda: target.json("show", "run1")["service_job_id"] == "1")
    (script,) = (target.home / "jobs").rglob("metapipe.run1.job")
    target("cancel", "run", "run1")
    assert wait_until(lambda: state(target) == "cancelled")
    subprocess.run(["bash", script], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert not (target.cwd / "begun").exists()


def test_a_cancel_of_its_own(target: Cli) -> None:
    extended(target, "    def cancel(self):\n        call(['qdel', self.id])\n")
    (target.cwd / "turnout.yaml").write_text(SETTINGS.replace("my-pbs}", 'my-pbs, job-options: ["#PBS -h"]}', 1))
    target("run", "-d", "--target", "batch", "true")
    wait_until(lambda: target.json("show", "run1")["service_job_id"] == "1")
    target("cancel", "run", "run1")
    wait_until(lambda: state(target) == "cancelled")
    wait_until(lambda: "job_state = F" in call("qstat", "-x", "-f"))


ALONE = """
    def make(self):
        super().make()
        script = open(self.filename).read()
        before, _, wrapped = script.partition('\\nexec ')
        open(self.filename, 'w').write(before + '\\nexec ' + wrapped.partition(' -- ')[2])
"""


@pytest.mark.parametrize(("code", "end"), [(0, "completed"), (3, "failed")])
def test_a_run_that_does_not_reach_the_hub(target: Cli, code: int, end: str) -> None:
    """Its job type says how it is; also after hub and plugin process died: what its object knew is put back."""
    extended(target, ALONE)
    waits = f"touch {target.cwd}/begun; until [ -e {target.cwd}/go ]; do sleep 0.1; done; exit {code}"
    target("run", "-d", "--target", "batch", "bash", "-c", waits)
    wait_until((target.cwd / "begun").exists)
    wait_until(lambda: target.json("show", "run1")["service_status"] == "running")
    os.kill(int(target.json("hub", "status")["pid"]), signal.SIGKILL)
    wait_until(lambda: not [pid for pid in processes_of(target.home) if "compat" in _command(pid)])
    (target.cwd / "go").touch()
    wait_until(lambda: state(target) == end, 60.0)
    view = target.json("show", "run1")
    assert (view["attempts"], view["exit_code"]) == (1, min(code, 1))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_job_that_its_system_forgot_is_tried_again(target: Cli) -> None:
    """It never began, as far as anybody knows."""
    (target.cwd / "turnout.yaml").write_text(
        SETTINGS.replace("my-pbs}", 'my-pbs, job-options: ["#PBS -h"], poll-interval: 0.1}', 1)
    )
    target("run", "-d", "--target", "batch", "true")
    wait_until(lambda: target.json("show", "run1")["service_job_id"] == "1")
    server = Path(os.environ["PATH"].partition(":")[0]).parent
    (server / "jobs" / "1.json").unlink()
    wait_until(lambda: target.json("show", "run1")["service_job_id"] == "2", 60.0)


def call(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


# --- for one pipeline -------------------------------------------------------------------------------------------------


def written(user: Cli, text: str = CHAIN, files: str = "") -> str:
    (user.cwd / "p.mp").write_text(text + files)
    return "p.mp"


def test_all_steps_of_a_pipeline_run_through_a_class(lab: Cli) -> None:
    """No settings are needed. What the file has for the head of scripts is there for the batch system."""
    view = lab.json("pipeline", "--job-type", "jobs.mine.PBSJob", written(lab))
    assert (view["state"], view["counts"]) == ("completed", {"completed": 3})
    assert {step["target"] for step in view["steps"]} == {"jobs.mine.PBSJob"}
    assert call("qstat", "-x", "-f").count("Job_Name = chained") == 3
    lab("extract", "run3", str(lab.cwd.parent / "got"))
    assert (lab.cwd.parent / "got" / "after" / "mp.2.1.output").read_text() == "1\n2\n3\n"


def test_a_command_of_any_length(lab: Cli) -> None:
    """As the text of a step is that reads thousands of files."""
    steps = {"say": {"command": f": {'x' * 200_000}\necho here; exit 3"}}
    (lab.cwd / "long.yaml").write_text(json.dumps({"pipeline": {"steps": steps}}))
    view = json.loads(lab("pipeline", "--json", "--job-type", "jobs.mine.PBSJob", "long.yaml", check=False).stdout)
    assert view["counts"] == {"failed": 1} and lab("logs", "say").stdout == "here\n"
    assert lab.json("show", "say")["exit_code"] == 3


def test_a_job_gives_its_place_back_when_its_run_is_over(lab: Cli) -> None:
    """And not when its agent asks the next time, a third of a lease later."""
    lab("hub", "start", env={"TURNOUT_LEASE": "90"})
    lab("pipeline", "--job-type", "jobs.mine.PBSJob", written(lab))
    wait_until(lambda: call("qstat", "-x", "-f").count("job_state = F") == 3, 10.0, "all jobs are over")


def test_a_step_that_says_where_it_runs_stays_there(lab: Cli) -> None:
    steps = "{a: {command: 'true', target: local}, b: {command: 'true', needs: a}}"
    (lab.cwd / "p.yaml").write_text(f"pipeline: {{steps: {steps}}}\n")
    view = lab.json("pipeline", "--job-type", "jobs.mine.PBSJob", "p.yaml")
    assert [step["target"] for step in view["steps"]] == ["local", "jobs.mine.PBSJob"]


LATE = """
[COMMANDS]
mkdir -p parts; split -l 1 {1} parts/x #{o:parts/*}
test -e THERE/mended && tac {parts/*||} > {o}
cat {2.*} > {o}
[FILES]
1. a
"""


def test_steps_that_are_known_later_and_a_restart(lab: Cli) -> None:
    """Each run is a job of its own, also those that are made later, and those that are in the place of others."""
    queue(lab, restarts=1)
    options = ("--job-type", "jobs.mine.PBSJob", "--queue", "queues.MyCustomQueue")
    view = lab.json("pipeline", *options, written(lab, LATE.replace("THERE", str(lab.cwd))))
    assert (view["state"], [step["counts"] for step in view["steps"]]) == (
        "completed", [{"completed": 1}, {"completed": 2}, {"completed": 1}],
    )  # fmt: skip
    told = [run for run in lab.json("list", "runs", "--filter", "job = job1") if run["state"] != "cancelled"]
    ids = [lab.json("show", run["name"])["service_job_id"] for run in told]
    assert len(told) == 6 and len(set(ids)) == 6, "two failed at first"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--job-type", "PBSJob"), "--job-type: 'PBSJob' is no path of a class"),
        (("--job-type", "gone.PBSJob"), "--job-type: no package 'gone' for gone.PBSJob"),
        (("--job-type", "jobs.gone.PBSJob"), "jobs.gone cannot be imported: ModuleNotFoundError"),
        (("--job-type", "jobs.mine.Gone"), "--job-type: there is no class Gone in "),
        (("--job-type", "jobs.mine.Lacks"), "jobs.mine.Lacks has not all methods of Metapipe's Job: is_complete"),
        (("--job-type", "jobs.mine.PBSJob", "--target", "local"), "--target and --job-type exclude each other"),
        (("--queue", "queues"), "--queue: 'queues' is no path of a class"),
        (("--queue", "gone.Queue"), "--queue: gone.Queue cannot be made: ModuleNotFoundError"),
        (("--queue", "jobs.mine.Gone"), "--queue: jobs.mine.Gone cannot be made: AttributeError"),
        (("--queue", "jobs.mine.Lacks"), "the queue Lacks cannot be made: "),
        (("--queue", "os.path"), "--queue: os.path is no class"),
        (("--queue", "jobs.mine.Lacks", "-d"), "--queue and --detach exclude each other"),
    ],
)
def test_what_is_wrong_is_told_before_anything_begins(lab: Cli, options: tuple[str, ...], said: str) -> None:
    extended(lab, "\n\nclass Lacks(PBSJob):\n    is_complete = Job.is_complete\n")
    done = lab("pipeline", *options, written(lab), check=False)
    assert done.returncode in (2, 7) and said in done.stderr, done.stderr
    assert lab.json("list", "jobs") == []


def queue(user: Cli, restarts: int = 0) -> str:
    (user.cwd / "queues.py").write_text(QUEUE.replace("RESTARTS", str(restarts)))
    return written(user, ONE_FAILS.format(there=user.cwd), "1. a\n2. b\n")


def events(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if not line.startswith("job")]


def test_a_queue_hears_what_becomes_of_jobs(lab: Cli) -> None:
    queue(lab)
    done = lab("pipeline", "--queue", "queues.MyCustomQueue", written(lab))
    heard = events(done.stdout)
    assert heard[0] == "start <MyCustomQueue: jobs=0>" and heard[-1] == "end <MyCustomQueue: jobs=0>"
    for alias in ("1.1", "1.2", "2.1"):
        mine = [line for line in heard if f" {alias}" in line]
        assert mine == [f"ready {alias}", f"submit {alias} 1", f"complete {alias}"]
    assert heard.index("ready 2.1") > max(heard.index("complete 1.1"), heard.index("complete 1.2"))
    assert re.fullmatch(r"job\d+ completed: 3 completed", done.stdout.splitlines()[-1])


def test_a_queue_that_is_locked_ends_unless_it_says_otherwise(lab: Cli) -> None:
    file = queue(lab)
    done = lab("pipeline", "--queue", "queues.MyCustomQueue", file, check=False)
    assert done.returncode == 1 and "turnout why job" in done.stderr
    assert events(done.stdout)[-3:] == [
        "error 1.2 True", "locked <MyCustomQueue: jobs=1>", "end <MyCustomQueue: jobs=1>",
    ]  # fmt: skip


def test_a_queue_restarts_a_pipeline(lab: Cli) -> None:
    """What failed is done again, and what was given up for that; what is complete is not."""
    file = queue(lab, restarts=1)
    done = lab("pipeline", "--json", "--queue", "queues.MyCustomQueue", file)
    view = json.loads(done.stdout)
    assert (view["state"], view["counts"]) == ("completed", {"completed": 3})
    heard = events(done.stderr)
    assert heard.count("locked <MyCustomQueue: jobs=1>") == 1 and heard[-1] == "end <MyCustomQueue: jobs=0>"
    assert [line for line in heard if " 1.2" in line] == [
        "ready 1.2", "submit 1.2 1", "error 1.2 True", "ready 1.2", "submit 1.2 1", "complete 1.2",
    ]  # fmt: skip
    assert heard.count("complete 1.1") == 1 and heard.count("complete 2.1") == 1


def test_a_callback_that_raises_ends_the_command_and_not_the_pipeline(lab: Cli) -> None:
    (lab.cwd / "queues.py").write_text("class Q:\n    def on_submit(self, job):\n        raise KeyError(job.alias)\n")
    done = lab("pipeline", "--queue", "queues.Q", written(lab), check=False)
    assert done.returncode != 0 and "Q.on_submit raised KeyError: '1." in done.stderr
    assert "queues.py:3" in done.stderr and "job1 goes on" in done.stderr
    assert lab.json("attach", "job1")["state"] == "completed"


def test_after_ctrl_c_a_pipeline_goes_on(lab: Cli) -> None:
    queue(lab)
    wait = f"until [ -e {lab.cwd}/go ]; do sleep 0.1; done"
    file = written(lab, f"[COMMANDS]\n{wait}; cat {{1}} > {{o}}\n[FILES]\n1. a\n")
    shown = at_terminal(lab, "", "pipeline", "--queue", "queues.MyCustomQueue", file, interrupt_at=["submit 1.1 1"])
    assert "job1 goes on" in shown and "end <MyCustomQueue: jobs=0>" in shown
    (lab.cwd / "go").touch()
    assert lab.json("attach", "job1")["state"] == "completed"


# --- in scripts of their own ------------------------------------------------------------------------------------------

SCRIPT = """
from metapipe.parser import Parser
from metapipe.runtime import Runtime
from jobs.mine import PBSJob
from queues import MyCustomQueue

JOB_TYPES = {
    'my_custom_job_type': PBSJob
}

config = open('p.mp').read()
parser = Parser(config)
try:
    command_templates = parser.consume()
except ValueError as e:
    raise SyntaxError('Invalid config file. \\n%s' % e)

pipeline = Runtime(command_templates, JOB_TYPES, 'my_custom_job_type', queue=MyCustomQueue)
pipeline.run()
"""


def test_a_script_with_a_job_type_and_a_queue(lab: Cli) -> None:
    """No hub is needed for it. Files lie where it runs."""
    queue(lab)
    (lab.cwd / "script.py").write_text(SCRIPT)
    written(lab)
    done = lab("exec", "script.py")
    heard = done.stdout.splitlines()
    assert heard[:2] == ["start <MyCustomQueue: jobs=3>", "ready 1.1"] and heard[-1].startswith("end")
    assert (lab.cwd / "mp.2.1.output").read_text() == "1\n2\n3\n"
    assert (lab.cwd / "metapipe.1.1.job").read_text().startswith("#!/bin/bash\n#PBS -N chained\n")
    assert not lab.home.exists()


MANY = """
sort {1||2} > {o}
cat {1.*||} > {o}
cat {2.*} {1.2} > {o}
mkdir p; cp {1.1} p/x.txt; cp {2.2} p/y.txt #{o:p/*.txt}
cat {p/*.txt} > total #{o:total}
cat {1.*} {total} > {o}
"""
TELLS = """
class MyCustomQueue:
    def on_start(self):
        print('start', {job.alias: job.depends_on for job in self.queue if job.alias == '6.1'})
    def on_complete(self, job):
        print(job.alias, 'after', *job.depends_on)
"""


def test_jobs_depend_on_the_same_jobs_whoever_drives_them(lab: Cli) -> None:
    """On single jobs, as far as it can be said; a command whose files are known later on all jobs that it waits for."""
    (lab.cwd / "queues.py").write_text(TELLS)
    (lab.cwd / "script.py").write_text(SCRIPT.replace("'my_custom_job_type', q", "'local', q"))
    file = written(lab, "[COMMANDS]" + MANY + "[FILES]\n1. a\n2. b\n")
    heard = {
        "1.1 after", "1.2 after", "2.1 after 1.1", "2.2 after 1.2", "3.1 after 1.2 2.1 2.2", "4.1 after 1.1 2.2",
        "5.1 after 4.1", "6.1 after 1.1 1.2 5.1",
    }  # fmt: skip
    lines = lab("pipeline", "--queue", "queues.MyCustomQueue", file).stdout.splitlines()
    assert {line for line in lines if " after" in line} == heard
    lines = lab("exec", "script.py").stdout.splitlines()
    assert lines[0] == "start {'6.1': ['1.1', '1.2', '5']}", "a job is not known yet"
    assert {line for line in lines if " after" in line} == heard


def test_a_script_whose_pipeline_fails(lab: Cli) -> None:
    queue(lab)
    (lab.cwd / "script.py").write_text(SCRIPT)
    (lab.cwd / "queues.py").write_text("class MyCustomQueue:\n    pass\n")
    done = lab("exec", "script.py", check=False)
    assert done.returncode == 1
    assert "PipelineFailed: 1.2 failed: it is in error, as " in done.stderr
    assert "not submitted, for what they depend on is not complete: 2.1" in done.stderr
    assert call("qstat", "-x", "-f").count("Job Id") == 1 + 5, "one was tried as often as it may"


def test_a_script_with_a_bad_file(lab: Cli) -> None:
    (lab.cwd / "script.py").write_text(SCRIPT.replace("from queues", "#").replace(", queue=MyCustomQueue", ""))
    written(lab, "[COMMANDS]\ncat {1\n")
    done = lab("exec", "script.py", check=False)
    assert done.returncode == 1 and "SyntaxError: Invalid config file." in done.stderr and "config:2:" in done.stderr


DEFAULT = """
from metapipe import LocalJob, Parser, Runtime
JOB_TYPES = {'there': LocalJob.on('there', tags={'why': 'test'})}
pipeline = Runtime(Parser(open('p.mp').read()).consume(), JOB_TYPES, JOB_TYPE)
print(pipeline.run().complete)
"""


@pytest.mark.parametrize("job_type", ["local", "there"])
def test_the_job_type_that_is_always_there(lab: Cli, job_type: str) -> None:
    """A job is a run; on another target it is one with a copy of the files, and what it leaves comes back."""
    (lab.cwd / "turnout.yaml").write_text("compute-targets: {there: {service: local}}\n")
    (lab.cwd / "script.py").write_text(DEFAULT.replace("JOB_TYPE)", f"'{job_type}')"))
    written(lab, CHAIN.replace("cat {1.*}", "mkdir -p d; echo x > d/e; pwd > place #{o:place} {o:d/*}\ncat {1.*}"))
    assert sorted(re.findall(r"'(.*?)'", lab("exec", "script.py").stdout)) == ["1.1", "1.2", "2.1", "3.1"]
    assert (lab.cwd / "mp.3.1.output").read_text() == "1\n2\n3\n" and (lab.cwd / "d" / "e").exists()
    assert ((lab.cwd / "place").read_text().strip() == str(lab.cwd)) is (job_type == "local")
    runs = lab.json("list", "runs")
    assert {run["tags"]["metapipe"] for run in runs} == {"1.1", "1.2", "2.1", "3.1"}
    assert {run["target"] for run in runs} == {job_type}


def test_a_job_that_fails_there_says_which_run_it_was(lab: Cli) -> None:
    (lab.cwd / "script.py").write_text(DEFAULT.replace("JOB_TYPE)", "'local')"))
    written(lab, "[COMMANDS]\nexit 3\n")
    done = lab("exec", "script.py", check=False)
    assert done.returncode == 1
    assert "1.1 failed: run5 failed, exit code 3; `turnout why run5` tells more" in done.stderr


# --- to begin with ----------------------------------------------------------------------------------------------------


def test_new_writes_a_job_type_that_works_as_it_is(cli: Cli) -> None:
    """Its tests pass, and its README says how it is used."""
    made = cli.json("provider", "new", "my-yard", "--job-type")
    directory = Path(made["directory"])
    assert made["class"] == "turnout_provider_my_yard.MyYardJob"
    env = {**os.environ, "PYTHONPATH": str(directory / "src")}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout
    settings = re.findall(r"```yaml\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    (cli.cwd / "turnout.yaml").write_text(*settings)
    found = {"PYTHONPATH": str(directory / "src")}
    assert cli.json("run", "--wait", "--target", "jobs", "true", env=found)["state"] == "completed"
    (cli.cwd / "p.mp").write_text("[COMMANDS]\ntrue\n")
    assert cli.json("pipeline", "--job-type", made["class"], "p.mp", env=found)["state"] == "completed"
    done = cli("provider", "new", "other", "--batch", "--job-type", check=False)
    assert done.returncode == 2 and "exclude each other" in done.stderr


# --- on a real cluster ------------------------------------------------------------------------------------------------

SLURM_JOB = """
from metapipe.models import Job
from metapipe.models.job import call


class SlurmJob(Job):

    @property
    def cmd(self):
        return ['sbatch', '--parsable', self.filename]

    def submit(self, job):
        if self.attempts == 0:
            job.make()
        self.attempts += 1
        self.id = call(job.cmd).strip()
        self.waiting = False

    def _state(self):
        fields = dict(word.partition('=')[::2] for word in call(['scontrol', 'show', 'job', self.id]).split())
        return fields.get('JobState')

    def is_running(self):
        return self._state() in ('RUNNING', 'COMPLETING')

    def is_queued(self):
        return self._state() in ('PENDING', 'CONFIGURING')

    def is_complete(self):
        return self._state() == 'COMPLETED'

    def is_error(self):
        return self._state() in ('FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY')
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    components.slurm()
    with running_cluster() as made:
        monkeypatch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


@pytest.mark.xdist_group("slurm")
@pytest.mark.timeout(200)
def test_a_job_type_for_a_real_slurm(cli: Cli, cluster: Cluster) -> None:
    """For a pipeline of the hub, whose steps report themselves; and in a script, where the class is all that tells."""
    (cli.cwd / "mine.py").write_text(SLURM_JOB)
    (cli.cwd / "a").write_text("2\n1\n")
    (cli.cwd / "b").write_text("3\n")
    text = CHAIN.replace("#PBS -N chained", "#SBATCH --job-name=chained")
    view = cli.json("pipeline", "--job-type", "mine.SlurmJob", written(cli, text), timeout=120.0)
    assert (view["state"], view["counts"]) == ("completed", {"completed": 3})
    assert len(cluster.all_jobs()) == 3
    cli("hub", "stop")
    (cli.cwd / "script.py").write_text(
        "from metapipe import Parser, Runtime\nfrom mine import SlurmJob\n"
        "templates = Parser(open('p.mp').read()).consume()\n"
        "print(tuple(sorted(Runtime(templates, {'slurm': SlurmJob}, 'slurm').run().complete)))\n"
    )
    env: dict[str, Any] = {**user_environment(cli.home), **cluster.environment}
    argv = [sys.executable, "-m", "turnout.cli", "exec", "script.py"]
    done = subprocess.run(argv, cwd=cli.cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "('1.1', '1.2', '2.1')\n", done.stderr
    assert (cli.cwd / "mp.2.1.output").read_text() == "1\n2\n3\n"
