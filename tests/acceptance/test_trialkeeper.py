"""A TrialKeeper takes a run that waits for one: through the command line, with a real hub over TCP."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import is_alive
from tests.harness import Cli, user_environment, wait_until
from tests.nni_library import nni_python

pytestmark = pytest.mark.timeout(120)

SETTINGS = "compute-targets: {cloud: {service: trialkeeper}}\n"
FINAL = '{"parameter_id": 0, "trial_job_id": "t", "type": "FINAL", "sequence": 0, "value": "0.5"}'
NNI = "/api/v1/nni-pai"
#: The shell ends when it is told to; what it started does not.
STUBBORN = """sh -c 'trap "" TERM; echo $$ > stubborn; exec sleep 600' & wait"""


@dataclass(frozen=True)
class Platform:
    """A directory where trials are started, of which turnout knows nothing but what a keeper tells."""

    cli: Cli
    place: Path
    port: int

    def submit(self, *args: str) -> str:
        """A run that waits for a keeper; its name."""
        name = str(self.cli.json("run", "-d", "--target", "cloud", *args)["runs"][0])
        self.wait_for_token(name)
        return name

    def search(self, *args: str) -> list[str]:
        """The runs of a search of two learning rates, once they wait for keepers."""
        (self.cli.cwd / "space.yaml").write_text("hyperparameter-distributions: {lr: [0.1, 0.2]}\n")
        wanted = ("--hp-config", "space.yaml", "--search-type", "grid", "--maximize", "default")
        parent = self.cli.json("run", "-d", "--target", "cloud", *wanted, *args, "anything")["runs"][0]
        for child in (f"{parent}.1", f"{parent}.2"):
            self.wait_for_token(child)
        return [f"{parent}.1", f"{parent}.2"]

    def wait_for_token(self, run: str) -> None:
        wait_until(lambda: self.cli("trialkeeper", "--print-token", run, check=False).returncode == 0)

    def stubborn(self) -> int:
        """The process of STUBBORN that hears no SIGTERM, once it does not."""
        wait_until(lambda: (self.place / "stubborn").exists() and (self.place / "stubborn").read_text().strip())
        return int((self.place / "stubborn").read_text())

    def files_of(self, run: str) -> Path:
        """What a TrainingService is given for that run, as copied by its platform."""
        job = self.cli.json("show", run)["job"].removeprefix("job")
        return Path(shutil.copytree(self.cli.home / "jobs" / job / "files", self.place / "code"))

    def token(self, run: str) -> dict[str, Any]:
        return dict(self.cli.json("trialkeeper", "--print-token", run))

    def start(self, run: str, command: str, *more: str, **env: str) -> subprocess.Popen[bytes]:
        """A keeper of that run, over TCP."""
        where = ("--nnimanager_ip", "127.0.0.1", "--nnimanager_port", str(self.port))
        ticket = {"TURNOUT_TRIAL_TOKEN": self.token(run)["ticket"]}
        return subprocess.Popen(
            self.cli.argv("trialkeeper", "--trial_command", command, *where, *more), cwd=self.place,
            env={**user_environment(self.cli.home), **ticket, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def keep(self, run: str, command: str, *more: str, **env: str) -> tuple[int, bytes, str]:
        """The same to its end: exit code, what it printed, and its errors."""
        process = self.start(run, command, *more, **env)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err.decode()

    def ask(
        self, method: str, path: str, told: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, json.dumps(told) if told is not None else None, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def platform(cli: Cli, tmp_path: Path) -> Platform:
    (cli.cwd / "turnout.yaml").write_text(SETTINGS)
    cli("hub", "start", "--listen", "127.0.0.1:0")
    place = tmp_path / "platform"
    place.mkdir()
    return Platform(cli, place, int(cli.json("hub", "status")["tcp"].rpartition(":")[2]))


def bearer(platform: Platform, run: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {platform.token(run)['token']}"}


class TestOurs:
    def test_output_metrics_and_exit_code_are_the_run_s(self, platform: Platform) -> None:
        run = platform.submit("anything")
        (platform.place / "trial.sh").write_text("pwd; echo mine >&2; printf '%s\\n' \"NNISDK_MEb'$1'\"; exit 3\n")
        command = f"sh trial.sh '{FINAL}'"
        code, printed, said = platform.keep(run, command, "--job_id_file", "pid", "--hdfs_host", "there")
        assert code == 3 and "--hdfs_host is ignored" in said
        view = platform.cli.json("show", run)
        assert (view["state"], view["exit_code"], view["attempts"]) == ("failed", 3, 1)
        assert view["metrics"] == {"default": 0.5}
        expected = f"{platform.place}\nmine\nNNISDK_MEb'{FINAL}'\n"
        assert platform.cli("logs", run).stdout == expected and printed.decode() == expected
        assert (platform.place / "pid").read_text().isdecimal()
        assert {each.name for each in platform.place.iterdir()} == {"trial.sh", "pid"}, "nothing of ours is left"

    def test_what_nni_s_library_writes_and_reads_by_files(self, platform: Platform) -> None:
        """Where nobody set it up: the parameters are there, and the file with metrics is told, once."""
        run = platform.submit("anything")
        (platform.place / "trial.py").write_text(
            "import json, os\n"
            "place = os.environ['NNI_SYS_DIR']\n"
            "assert json.load(open(f'{place}/parameter.cfg'))['parameters'] == {}\n"
            "os.mkdir(f'{place}/.nni')\n"
            "for step in range(3):\n"
            "    told = json.dumps({'type': 'PERIODICAL', 'sequence': step, 'value': str(step * 2)}) + '\\n'\n"
            "    open(f'{place}/.nni/metrics', 'a').write(f'ME{len(told):06d}{told}')\n"
            "print(os.environ['NNI_TRIAL_JOB_ID'], os.environ['NNI_EXP_ID'])\n"
        )
        assert platform.keep(run, "python3 trial.py", PATH=os.environ["PATH"])[:2] == (0, f"{run} job1\n".encode())
        points = platform.cli.json("metrics", run)["default"]
        assert [(each["step"], each["value"]) for each in points] == [(0, 0.0), (1, 2.0), (2, 4.0)]

    def test_a_hundred_thousand_lines_arrive_as_they_are(self, platform: Platform) -> None:
        run = platform.submit("anything")
        code, printed, _ = platform.keep(run, "seq 100000")
        expected = "".join(f"{number}\n" for number in range(1, 100_001))
        assert code == 0 and printed.decode() == expected
        assert platform.cli("logs", run).stdout == expected

    def test_output_may_be_any_bytes(self, platform: Platform) -> None:
        run = platform.submit("anything")
        content = bytes(range(256)) * 4096
        (platform.place / "bytes").write_bytes(content)
        assert platform.keep(run, "cat bytes")[:2] == (0, content)
        told = subprocess.run(
            platform.cli.argv("logs", run), env=user_environment(platform.cli.home), capture_output=True, check=True
        )
        assert told.stdout == content

    def test_a_silent_trial_tells_metrics_alone(self, platform: Platform) -> None:
        run = platform.submit("anything")
        (platform.place / "trial.sh").write_text("echo words; printf '%s\\n' \"NNISDK_MEb'$1'\"\n")
        code, printed, _ = platform.keep(run, f"sh trial.sh '{FINAL}'", "--log_collection", "none")
        assert code == 0 and b"words" in printed
        assert platform.cli.json("show", run)["metrics"] == {"default": 0.5} and platform.cli("logs", run).stdout == ""

    @pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "TERM"), (signal.SIGINT, "INT")])
    def test_signals_are_the_trial_s(self, platform: Platform, number: int, name: str) -> None:
        run = platform.submit("anything")
        command = f"trap 'echo heard; exit 7' {name}; touch begun; while :; do sleep 0.05; done"
        process = platform.start(run, command)
        wait_until((platform.place / "begun").exists)
        process.send_signal(number)
        assert process.communicate(timeout=30)[0].endswith(b"heard\n") and process.returncode == 7
        view = platform.cli.json("show", run)
        assert (view["state"], view["exit_code"]) == ("failed", 7)

    def test_a_person_cancels(self, platform: Platform) -> None:
        run = platform.submit("anything")
        process = platform.start(run, "touch begun; exec sleep 600")
        wait_until((platform.place / "begun").exists)
        platform.cli("cancel", "run", run)
        process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGTERM
        assert platform.cli.json("show", run)["state"] == "cancelled"

    @pytest.mark.parametrize(("options", "is_asked"), [((), True), (("--time", "1s"), False)])
    def test_what_the_shell_started_and_does_not_end_is_killed(
        self, platform: Platform, options: tuple[str, ...], is_asked: bool
    ) -> None:
        """A cancel, or the end of its time, is over when all is that the trial started."""
        run = platform.submit("--grace", "0.5", *options, "anything")
        process = platform.start(run, STUBBORN)
        left = platform.stubborn()
        if is_asked:
            platform.cli("cancel", "run", run)
        process.communicate(timeout=30)
        assert not is_alive(left) and process.returncode == 128 + signal.SIGTERM
        view = platform.cli.json("show", run)
        assert (view["state"], view["reason"]) == (("cancelled", "user") if is_asked else ("failed", "timeout"))

    def test_a_signal_is_over_when_all_is_that_it_went_to(self, platform: Platform) -> None:
        run = platform.submit("--grace", "0.5", "anything")
        process = platform.start(run, STUBBORN)
        left = platform.stubborn()
        process.terminate()
        process.communicate(timeout=30)
        assert not is_alive(left) and process.returncode == 128 + signal.SIGTERM

    def test_a_trial_does_not_outlive_its_keeper(self, platform: Platform) -> None:
        run = platform.submit("anything")
        process = platform.start(run, STUBBORN)
        left = platform.stubborn()
        process.kill()
        process.communicate()
        wait_until(lambda: not is_alive(left), what="the trial ended")

    def test_what_a_trial_leaves_on_purpose_stays(self, platform: Platform) -> None:
        run = platform.submit("anything")
        assert (
            platform.keep(run, f"{STUBBORN.removesuffix('wait')} until test -s stubborn; do sleep 0.05; done")[0] == 0
        )
        left = platform.stubborn()
        assert is_alive(left)
        os.kill(left, signal.SIGKILL)

    def test_runs_of_a_search_are_kept_side_by_side(self, platform: Platform) -> None:
        """Each with its own parameters: in a variable, and in a file."""
        runs = platform.search()
        command = 'cat "$TURNOUT_PARAMS_FILE"; touch begun-$TURNOUT_RUN_NAME; until test -e go; do sleep 0.05; done'
        kept = [platform.start(run, command) for run in runs]
        for run in runs:
            wait_until((platform.place / f"begun-{run}").exists)
        (platform.place / "go").touch()
        assert [json.loads(each.communicate(timeout=30)[0]) for each in kept] == [{"lr": 0.1}, {"lr": 0.2}]

    def test_a_run_that_is_not_given_yet_is_waited_for(self, platform: Platform) -> None:
        """Of its search, as many run as may: the keeper of another waits as long as it was told, and says that it
        executed nothing."""
        first, second = platform.search("--schedule", "static", "--concurrent", "1")
        busy = platform.start(first, "touch begun; until test -e go; do sleep 0.05; done")
        wait_until((platform.place / "begun").exists)
        code, printed, said = platform.keep(second, "touch second", "--patience", "1")
        assert (code, printed) == (126, b"") and "not executed" in said and f"turnout why {second}" in said
        assert not (platform.place / "second").exists()
        assert platform.cli.json("show", second)["state"] == "queued"
        waiting = platform.start(second, "touch second")
        assert waiting.stderr is not None and b"waiting for up to 300 s" in waiting.stderr.readline()
        (platform.place / "go").touch()
        waiting.communicate(timeout=30)
        assert busy.wait(30) == 0 and waiting.returncode == 0 and (platform.place / "second").exists()

    def test_a_keeper_that_waits_can_be_ended(self, platform: Platform) -> None:
        first, second = platform.search("--schedule", "static", "--concurrent", "1")
        busy = platform.start(first, "touch begun; exec sleep 600")
        wait_until((platform.place / "begun").exists)
        waiting = platform.start(second, "touch second")
        assert waiting.stderr is not None and waiting.stderr.readline()
        waiting.terminate()
        waiting.communicate(timeout=30)
        busy.terminate()
        busy.communicate(timeout=30)
        assert waiting.returncode == 128 + signal.SIGTERM and not (platform.place / "second").exists()

    def test_a_token_may_lie_among_the_files(self, platform: Platform) -> None:
        run = platform.submit("anything")
        done = platform.cli(
            "trialkeeper", "--trial_command", "echo mine; exit 5", cwd=platform.files_of(run), check=False
        )
        assert (done.returncode, done.stdout) == (5, "mine\n")
        assert platform.cli("logs", run).stdout == "mine\n" and platform.cli.json("show", run)["exit_code"] == 5

    def test_a_command_that_takes_its_run_itself_is_let_do_so(self, platform: Platform) -> None:
        """As a TrainingService is given it, who wraps what it starts."""
        (platform.cli.cwd / "train.sh").write_text("cat brought; exit 5\n")
        (platform.cli.cwd / "brought").write_text("mine\n")
        run = platform.submit("sh", "train.sh")
        code = platform.files_of(run)
        (program,) = (code / ".turnout").glob("agent-*.pyz")
        argv = ["python3", f".turnout/{program.name}", "exec", f".turnout/{run}.1.json", "--", "sh", "train.sh"]
        command = f"exec {shlex.join(argv)}"
        done = platform.cli("trialkeeper", "--trial_command", command, cwd=code, check=False)
        assert done.returncode == 5
        view = platform.cli.json("show", run)
        assert (view["state"], view["exit_code"], view["attempts"]) == ("failed", 5, 1)
        assert platform.cli("logs", run).stdout == "mine\n"

    def test_where_the_number_cannot_be_written(self, platform: Platform) -> None:
        run = platform.submit("anything")
        code, _, said = platform.keep(run, "touch begun", "--job_id_file", "nowhere/pid")
        assert code == 2 and "--job_id_file nowhere/pid cannot be written" in said and "Traceback" not in said
        assert not (platform.place / "begun").exists()

    def test_the_trial_does_not_get_the_token(self, platform: Platform) -> None:
        run = platform.submit("anything")
        token = platform.token(run)
        code, printed, _ = platform.keep(run, "env; cat /proc/$PPID/cmdline")
        assert code == 0 and b"TURNOUT_RUN_NAME=" + run.encode() in printed
        assert token["token"].encode() not in printed and token["ticket"].encode() not in printed

    def test_a_token_takes_its_run_once(self, platform: Platform) -> None:
        run = platform.submit("anything")
        ticket = platform.token(run)["ticket"]
        assert platform.keep(run, "touch first")[0] == 0
        wait_until(lambda: platform.cli.json("show", run)["state"] == "completed")
        wait_until(lambda: not platform.cli.json("hub", "status")["agents"])
        done = platform.cli(
            "trialkeeper", "--trial_command", "touch second", env={"TURNOUT_TRIAL_TOKEN": ticket}, check=False
        )
        assert done.returncode == 2 and "does not take this token" in done.stderr
        assert not (platform.cli.cwd / "second").exists()

    def test_a_keeper_that_is_started_twice_executes_once(self, platform: Platform) -> None:
        """As platforms do that start a container again: what the first one began is not begun under its number."""
        run = platform.submit("anything")
        ticket = platform.token(run)["ticket"]
        first = platform.start(run, "echo first >> begun; exec sleep 600")
        wait_until((platform.place / "begun").exists)
        first.kill()
        first.communicate()
        done = platform.cli(
            "trialkeeper", "--trial_command", f"echo second >> {platform.place}/begun", check=False,
            env={"TURNOUT_TRIAL_TOKEN": ticket},
        )  # fmt: skip
        assert done.returncode in (0, 2) and ("somebody else" in done.stderr or "does not take" in done.stderr)
        assert (platform.place / "begun").read_text() == "first\n"

    def test_a_run_that_waits_for_nobody_has_no_token(self, platform: Platform) -> None:
        platform.cli("run", "--wait", "true")
        done = platform.cli("trialkeeper", "--print-token", "run1", check=False)
        assert (
            done.returncode == 4 and "does not wait for a TrialKeeper" in done.stderr and "trialkeeper" in done.stderr
        )


NAMED = ("version/job1/run1", "stdout/job1/run1", "update-metrics/job1/run1")


class TestNnis:
    """What NNI's own keeper sends, understood."""

    def test_from_first_line_to_last(self, platform: Platform) -> None:
        run = platform.submit("anything")
        mine = bearer(platform, run)

        def post(what: str, told: object) -> int:
            return platform.ask("POST", f"{NNI}/{what}/job1/{run}", told, mine)[0]

        assert post("version", {"tag": "VCSuccess"}) == 200
        assert platform.cli.json("show", run)["state"] == "queued", "that its keeper began is not the trial's begin"
        assert post("stdout", {"tag": "trial", "stdOutputType": "Stdout", "msg": "one"}) == 200
        assert platform.cli.json("show", run)["state"] == "running"
        assert post("stdout", {"tag": "trial", "stdOutputType": "Stdout", "msg": f"NNISDK_MEb'{FINAL}'"}) == 200
        assert post("update-metrics", {"jobId": run, "metrics": [FINAL.replace("0.5", "0.75")]}) == 200
        assert platform.ask("GET", f"{NNI}/parameter-file-meta", headers=mine) == (200, b"[]")
        assert (
            post("stdout", {"tag": "trial_keeper", "msg": "[x] INFO subprocess terminated. Exit code is 4. Quit"})
            == 200
        )
        view = platform.cli.json("show", run)
        assert (view["state"], view["exit_code"], view["attempts"]) == ("failed", 4, 1)
        assert view["metrics"] == {"default": 0.75} and platform.cli("logs", run).stdout == "one\n"
        assert len(platform.cli.json("metrics", run)["default"]) == 2
        assert post("stdout", {"tag": "trial", "stdOutputType": "Stdout", "msg": "late"}) in (401, 409)
        assert platform.cli("logs", run).stdout == "one\n"

    def test_a_cancel_ends_the_run_whatever_its_keeper_does(self, platform: Platform) -> None:
        """That keeper is never asked anything, and may be dead: it cannot be told, and nobody waits for it."""
        run = platform.submit("anything")
        mine, told = bearer(platform, run), {"tag": "trial", "stdOutputType": "Stdout", "msg": "one"}
        assert platform.ask("POST", f"{NNI}/stdout/job1/{run}", told, mine)[0] == 200
        assert "given up" not in platform.cli("why", run).stdout, "no lease is kept that could run out"
        platform.cli("cancel", "run", run)
        wait_until(lambda: platform.cli.json("show", run)["state"] == "cancelled")
        view = platform.cli.json("show", run)
        assert "end it on its platform" in view["message"] and platform.cli("logs", run).stdout == "one\n"
        assert platform.ask("POST", f"{NNI}/stdout/job1/{run}", told, mine)[0] in (401, 409)

    def test_its_own_keeper_as_it_is(self, platform: Platform) -> None:
        """NNI's program, which knows of no tokens: its library for HTTP finds ours in a netrc file."""
        python = nni_python()
        run = platform.submit("anything")
        netrc = platform.place / "netrc"
        netrc.touch(0o600)
        netrc.write_text(f"machine 127.0.0.1 login keeper password {platform.token(run)['token']}\n")
        (platform.place / "trial.sh").write_text("echo hello; printf '%s\\n' \"NNISDK_MEb'$1'\"; exit 6\n")
        theirs = {
            "NETRC": str(netrc), "NNI_OUTPUT_DIR": str(platform.place), "NNI_SYS_DIR": str(platform.place),
            "NNI_PLATFORM": "pai", "NNI_TRIAL_JOB_ID": run, "NNI_EXP_ID": "job1", "MULTI_PHASE": "false",
        }  # fmt: skip
        argv = [
            python, "-m", "nni.tools.trial_tool.trial_keeper", "--trial_command", f"sh trial.sh '{FINAL}'",
            "--nnimanager_ip", "127.0.0.1", "--nnimanager_port", str(platform.port), "--nni_manager_version", "3.0",
        ]  # fmt: skip
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            argv, cwd=platform.place, env={**env, **theirs}, capture_output=True, timeout=90, check=False
        )
        view = platform.cli.json("show", run)
        assert (done.returncode, view["state"], view["exit_code"]) == (6, "failed", 6), done.stderr
        assert view["metrics"] == {"default": 0.5} and platform.cli("logs", run).stdout == "hello\n"

    def test_as_a_password(self, platform: Platform) -> None:
        """``requests``, which NNI's keeper uses, takes that from a netrc file."""
        run = platform.submit("anything")
        password = base64.b64encode(f"keeper:{platform.token(run)['token']}".encode()).decode()
        told = {"tag": "trial", "stdOutputType": "Stdout", "msg": "hello"}
        assert platform.ask("POST", f"{NNI}/stdout/job1/{run}", told, {"Authorization": f"Basic {password}"})[0] == 200
        assert platform.cli("logs", run).stdout == "hello\n"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    def test_nobody_gets_in_without_the_token(self, platform: Platform, method: str) -> None:
        run = platform.submit("anything")
        user = (platform.cli.home / "token").read_text()
        basic = base64.b64encode(f"keeper:{user}".encode()).decode()
        for headers in (
            {}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {user}"}, {"Authorization": "Basic ???"},
            {"Authorization": f"Basic {basic}"}, {"Authorization": "Basic a2VlcGVyOg=="},
        ):  # fmt: skip
            for path in (*NAMED, "parameter-file-meta", "nothing"):
                assert platform.ask(method, f"{NNI}/{path}", None, headers)[0] == 401, (path, headers)
        assert platform.cli.json("show", run)["state"] == "queued"

    def test_a_token_opens_its_own_run_alone(self, platform: Platform) -> None:
        one, two = platform.submit("anything"), platform.submit("anything")
        told = {"tag": "trial", "stdOutputType": "Stdout", "msg": "x"}
        for path in (f"job2/{two}", f"job1/{two}", f"job2/{one}", "job9/run9"):
            assert platform.ask("POST", f"{NNI}/stdout/{path}", told, bearer(platform, one))[0] == 403, path
        assert {platform.cli.json("show", each)["state"] for each in (one, two)} == {"queued"}
        for path in ("/api/runs", "/api/hub", f"/api/runs/{one}/trial-token"):
            assert platform.ask("GET", path, headers=bearer(platform, one))[0] == 401

    @pytest.mark.parametrize(
        ("what", "told"),
        [
            ("stdout", []), ("stdout", {"tag": "someone", "msg": "x"}), ("stdout", {"tag": "trial", "msg": 3}),
            ("stdout", None), ("version", {"tag": "x"}), ("update-metrics", {"metrics": "x"}),
            ("update-metrics", {"metrics": [1]}),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense_is_refused(self, platform: Platform, what: str, told: object) -> None:
        run = platform.submit("anything")
        assert platform.ask("POST", f"{NNI}/{what}/job1/{run}", told, bearer(platform, run))[0] == 422
        assert platform.cli.json("show", run)["state"] == "queued"
