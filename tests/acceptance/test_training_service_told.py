"""What a TrainingService tells of trials counts where they do not tell of themselves: on a platform from which the hub
cannot be reached, and that reports metrics in a way of its own. And searches, each of whose runs is a trial."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.harness import Cli, wait_until

pytestmark = pytest.mark.timeout(120)

SETTINGS = """
compute-targets:
    yard: {service: yard}
providers:
    compute: {yard: "platform_of_mine.YardService"}
"""
#: Executes the command that it was wrapped around, as where there is no way to the hub.
ALONE = '["bash", "-c", config["command"].partition(" -- ")[2]]'
NOTED = """

class Noted(YardService):
    async def cancel_trial_job(self, trial_job_id, is_early_stopped=False):
        with open(os.path.join(os.path.dirname(__file__), "cancels"), "a") as file:
            file.write(f"{trial_job_id} {is_early_stopped}\\n")
        await super().cancel_trial_job(trial_job_id, is_early_stopped)
"""


@pytest.fixture
def project(cli: Cli) -> Path:
    text = (files("turnout") / "client" / "skeletons" / "training_service.py.txt").read_text()
    text = text.replace("@Class@", "Yard").replace("@name@", "yard") + NOTED
    (cli.cwd / "platform_of_mine.py").write_text(text)
    (cli.cwd / "turnout.yaml").write_text(SETTINGS.replace("YardService", "Noted"))
    (cli.cwd / ".gitignore").write_text("cancels\n")
    return cli.cwd


@pytest.fixture
def alone(project: Path) -> Path:
    path = project / "platform_of_mine.py"
    text = path.read_text()
    assert '["bash", "-c", config["command"]]' in text
    path.write_text(text.replace('["bash", "-c", config["command"]]', ALONE))
    return project


def test_a_run_that_does_not_reach_the_hub(cli: Cli, alone: Path) -> None:
    """Its state, metrics, output and end are those that its service tells."""
    command = 'echo hello; echo 0.5 >> "$NNI_SYS_DIR/metrics"; until [ -e ../go ]; do sleep 0.1; done; exit 3'
    go = alone / "go"
    cli("run", "-d", "--target", "yard", "bash", "-c", command.replace("../go", str(go)))
    wait_until(lambda: cli.json("show", "run1")["metrics"] == {"default": 0.5})
    assert cli.json("show", "run1")["state"] == "running"
    go.touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "failed")
    view = cli.json("show", "run1")
    assert (view["exit_code"], view["attempts"], view["message"]) == (1, 1, "FAILED, as its service says")
    assert cli("logs", "run1").stdout == "hello\n"
    assert [point["value"] for point in json.loads(cli("metrics", "--json", "run1").stdout)["default"]] == [0.5]


@pytest.mark.parametrize("tells", [True, False])
def test_such_a_run_can_be_cancelled(cli: Cli, alone: Path, tells: bool) -> None:
    """Whether it told something, and runs, or not, and waits for all we know."""
    tell = 'echo 0.5 >> "$NNI_SYS_DIR/metrics"; ' if tells else ""
    cli("run", "-d", "--target", "yard", "bash", "-c", f"{tell}touch {alone}/begun; exec sleep 600")
    wait_until((alone / "begun").exists)
    if tells:
        wait_until(lambda: cli.json("show", "run1")["state"] == "running")
    cli("cancel", "run", "run1")
    wait_until(lambda: cli.json("show", "run1")["state"] == "cancelled")
    wait_until((alone / "cancels").exists)
    assert cli.json("show", "run1")["attempts"] == (1 if tells else 0)


def test_a_run_that_reports_itself_is_not_told_of_twice(cli: Cli, project: Path) -> None:
    (project / "train.py").write_text("import turnout\nturnout.log(default=0.25)\n")
    path = project / "platform_of_mine.py"
    path.write_text(path.read_text() + """
    def _start(self, trial):
        started = super()._start(trial)
        self._metrics.emit("metric", TrialJobMetric(id=trial.id, data="0.5"))
        return started
""")  # fmt: skip
    assert cli.json("run", "--wait", "--target", "yard", "train.py")["state"] == "completed"
    told = json.loads(cli("metrics", "--json", "run1").stdout)["default"]
    assert [point["value"] for point in told][-1] == 0.25


def test_what_a_run_prints_does_not_silence_its_service(cli: Cli, project: Path) -> None:
    """Its output comes from where it is; of metrics it tells none itself."""
    path = project / "platform_of_mine.py"
    path.write_text(path.read_text() + """
    async def get_trial_job(self, trial_job_id):
        tell = os.path.join(os.path.dirname(__file__), "tell")
        if os.path.exists(tell):
            os.unlink(tell)
            self._metrics.emit("metric", TrialJobMetric(id=trial_job_id, data="0.5"))
        return await super().get_trial_job(trial_job_id)
""")  # fmt: skip
    (project / ".gitignore").write_text("cancels\ntell\n")
    cli("run", "-d", "--target", "yard", "bash", "-c", f"echo hello; until [ -e {project}/go ]; do sleep 0.1; done")
    wait_until(lambda: cli("logs", "run1").stdout == "hello\n")
    (project / "tell").touch()
    wait_until(lambda: cli.json("show", "run1")["metrics"] == {"default": 0.5})
    (project / "go").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed")
    assert cli.json("show", "run1")["metrics"] == {"default": 0.5} and cli("logs", "run1").stdout == "hello\n"


SPACE = "hyperparameter-distributions:\n  scale: [1, 2, 3, 4, 5, 6]\n"


def test_each_run_of_a_search_is_a_trial_with_its_parameters(cli: Cli, project: Path) -> None:
    (project / "space.yaml").write_text(SPACE)
    (project / "trial.py").write_text("import turnout\nturnout.log(loss=1.0 / turnout.params()['scale'])\n")
    view = cli.json(
        "run", "--wait", "--target", "yard", "--hp-config", "space.yaml", "--search-type", "random", "--runs", "6",
        "--minimize", "loss", "--concurrent", "2", "trial.py",
    )  # fmt: skip
    assert view["state"] == "completed"
    runs = [run for run in cli.json("list", "runs", "job1") if run["parent"]]
    assert len(runs) == 6
    shown = [cli.json("show", run["name"]) for run in runs]
    assert len({each["service_job_id"] for each in shown}) == 6
    assert all(each["metrics"]["loss"] == 1.0 / each["params"]["scale"] for each in shown)


def test_a_stopper_ends_trials_and_their_service_knows_why(cli: Cli, alone: Path) -> None:
    """On a platform from which nobody reports: it hears of metrics by its service, and ends by it."""
    (alone / "space.yaml").write_text("hyperparameter-distributions:\n  scale: [1]\n")
    line = 'for step in 1 2 3; do echo "$step" >> "$NNI_SYS_DIR/metrics"; done; exec sleep 600'
    (alone / "trial.sh").write_text(line)
    view = cli.json(
        "run", "--wait", "--target", "yard", "--hp-config", "space.yaml", "--search-type", "random", "--runs", "1",
        "--minimize", "default", "--stopper", "threshold", "--stopper-option", "upper=2.5", "--option-prefix", "",
        "bash", "trial.sh",
    )  # fmt: skip
    assert view["state"] == "completed", view
    (run,) = [run for run in cli.json("list", "runs", "job1") if run["parent"]]
    assert (run["state"], run["reason"]) == ("stopped", "pruned") and run["metrics"] == {"default": 3.0}
    wait_until((alone / "cancels").exists)
    assert (alone / "cancels").read_text().split()[1] == "True"
