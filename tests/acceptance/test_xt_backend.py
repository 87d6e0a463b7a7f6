"""A backend that was written for XT, unchanged: the class of ``examples/xt-backend``, with the YAML of XT's document.

Its cloud is a directory of the project, and its machines are this one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import turnout
from tests.harness import Cli, at_terminal, processes_of, wait_until
from turnout.compat.xt import backend_for
from turnout.errors import InvalidInput

EXAMPLE = Path(__file__).parents[2] / "examples" / "xt-backend"
pytestmark = pytest.mark.timeout(120)

#: Notes every call of the class beside what it does.
NOTED = """

def _noted(name, method):
    import functools, inspect
    @functools.wraps(method)
    def note(self, *args, **given):
        bound = inspect.signature(method).bind(self, *args, **given).arguments
        with open(os.path.join(os.path.dirname(CLOUD), "calls.jsonl"), "a") as file:
            files = sorted(os.listdir(bound["snapshot_dir"])) if "snapshot_dir" in bound else []
            file.write(json.dumps([name, {k: v for k, v in bound.items() if k != "self"}, files]) + "\\n")
        return method(self, *args, **given)
    return note

for _name in [n for n in vars(BackendInterface) if not n.startswith("_")] + ["__init__"]:
    setattr(MyCloudCompute, _name, _noted(_name, getattr(MyCloudCompute, _name)))
"""


@pytest.fixture
def project(cli: Cli) -> Path:
    shutil.copytree(EXAMPLE, cli.cwd, dirs_exist_ok=True)
    with open(cli.cwd / "extensions" / "my_cloud_compute.py", "a") as file:
        file.write(NOTED)
    (cli.cwd / ".gitignore").write_text(".my-cloud\ncalls.jsonl\n")
    return cli.cwd


def calls(cli: Cli, name: str) -> list[dict[str, Any]]:
    """What that method was called with, each time."""
    try:
        noted = [json.loads(line) for line in (cli.cwd / "calls.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return []
    return [{**given, "files": files} for called, given, files in noted if called == name]


def test_a_run_from_submit_to_end(cli: Cli, project: Path) -> None:
    """What the class says of the job is what people see: in `show`, in `status`, in JSON."""
    view = cli.json("run", "--wait", "--target", "cloud4x", "train.py", "--lr", "0.1")
    assert (view["state"], view["exit_code"], view["target"]) == ("completed", 0, "cloud4x")
    account = "https://johnsmith@mycoudcompute.com/myservice"
    assert cli("logs", "run1").stdout == f"set up for {account}\ntraining with ['--lr', '0.1'] on a G4\n"
    for name in ("run1", "job1"):
        shown = cli.json("show", name)
        assert shown["service_job_id"] == "mcc-job1"
        assert shown["monitor_url"] == "https://mycoudcompute.com/G4/mcc-job1"
        assert cli.json("open", name) == {"name": name, "monitor_url": shown["monitor_url"]}
        assert cli("open", "--print", name).stdout == f"{shown['monitor_url']}\n"
        assert "mcc-job1  https://mycoudcompute.com/G4/mcc-job1" in cli("status", name).stdout
    assert (project / ".my-cloud" / "run1" / "output").exists()


def test_adjust_run_commands_is_called_before_the_snapshot_is_kept(cli: Cli, project: Path) -> None:
    cli("run", "--wait", "--target", "cloud4x", "--experiment", "ex", "--tag", "a=b", "train.py", "--lr", "0.1")
    (given,) = calls(cli, "adjust_run_commands")
    assert {name: given[name] for name in ("job_id", "using_hp", "experiment", "service_type")} == {
        "job_id": "job1", "using_hp": False, "experiment": "ex", "service_type": "myCloudCompute",
    }  # fmt: skip
    assert given["job_runs"] == [
        {"run_name": "run1", "workspace": "default", "exper_name": "ex", "box_name": "cloud4x#job1.0", "repeat": 1,
         "cmd_parts": ["train.py", "--lr", "0.1"], "pre_cmds": [], "env_vars": {}}
    ]  # fmt: skip
    assert given["args"]["target"] == "cloud4x" and given["args"]["tags"] == {"a": "b"}
    assert given["files"] == [".gitignore", "extensions", "train.py", "turnout.yaml"]
    assert not Path(given["snapshot_dir"]).exists(), "it was for that call only"
    cli("extract", "run1", str(project.parent / "got"))
    before = project.parent / "got" / "before"
    assert (before / "cloud_setup.sh").read_text().startswith("export CLOUD_ACCOUNT="), "a file it added is frozen"
    assert cli.json("show", "job1")["env"] == ["CLOUD_SKU"]


def test_submit_job_gets_the_job_as_the_document_says(cli: Cli, project: Path) -> None:
    (project / "lines").write_text("echo one\necho two\n")
    cli("run", "-d", "--target", "cloud16x", "--nodes", "2", "--multi", "lines")
    cli("cancel", "all")
    cli("run", "--wait", "--target", "cloud16x", "--repeat", "2", "echo", "hello")
    given = calls(cli, "submit_job")[-1]
    (record,) = given["job_runs"]
    assert {name: given[name] for name in ("job_id", "workspace", "resume_name", "repeat_count", "using_hp")} == {
        "job_id": "job2", "workspace": "default", "resume_name": None, "repeat_count": 2, "using_hp": False,
    }  # fmt: skip
    assert given["runs_by_box"] == {record["box_name"]: [record]}
    assert given["compute_def"] == {
        "service": "cloudcomputeservice", "sku": "G16", "nodes": 1, "type": "myCloudCompute",
        "account": "https://johnsmith@mycoudcompute.com/myservice",
    }  # fmt: skip
    assert record["cmd_parts"][-2:] == ["echo", "hello"] and given["args"]["repeat"] == 2
    assert record["env_vars"] == {"CLOUD_SKU": "G16"}
    assert {"cloud_setup.sh", "train.py", "extensions"} <= set(given["files"])
    assert calls(cli, "__init__")[-1]["compute"] == "cloud16x"
    assert [run["state"] for run in cli.json("list", "runs", "job2")].count("completed") == 3


def test_a_search_is_said_to_be_one_and_each_run_has_its_parameters(cli: Cli, project: Path) -> None:
    (project / "turnout.yaml").write_text((project / "turnout.yaml").read_text().replace(", nodes: 1", ""))
    (project / "hp.yaml").write_text("hyperparameter-distributions: {lr: [0.1, 0.2]}\n")
    asked = ("--hp-config", "hp.yaml", "--search-type", "grid")
    view = cli.json("run", "--wait", "--target", "cloud4x", *asked, "train.py", "--seed=[7]")
    assert view["counts"] == {"completed": 2}
    assert [given["using_hp"] for given in calls(cli, "adjust_run_commands")] == [True]
    assert {given["using_hp"] for given in calls(cli, "submit_job")} == {True}
    told = [cli("logs", f"run1.{number}").stdout.splitlines()[-1] for number in (1, 2)]
    assert told == [f"training with ['--seed=7', '--lr={lr}'] on a G4" for lr in (0.1, 0.2)]


def test_many_runs_are_one_job_there(cli: Cli, project: Path) -> None:
    (project / "turnout.yaml").write_text((project / "turnout.yaml").read_text().replace(", nodes: 1", ""))
    (project / "lines").write_text("echo one\necho two\necho three\n")
    assert cli.json("run", "--wait", "--target", "cloud4x", "--multi", "lines")["counts"] == {"completed": 3}
    (given,) = calls(cli, "submit_job")
    assert [record["run_name"] for record in given["job_runs"]] == ["run1", "run2", "run3"]
    assert len(given["runs_by_box"]) == 3
    assert {run["name"]: cli("logs", run["name"]).stdout.split()[-1] for run in cli.json("list", "runs")} == {
        "run1": "one", "run2": "two", "run3": "three",
    }  # fmt: skip


def test_status_asks_the_class_under_the_names_of_the_document(cli: Cli, project: Path) -> None:
    cli("run", "--wait", "--target", "cloud4x", "true")
    wait_until((project / ".my-cloud" / "run1" / "exit_code").exists)
    shown = cli("status", "run1").stdout
    assert shown.endswith("run1     job1     completed  cloud4x#job1.0\n1 runs in my cloud\n")
    cli("status", "--target", "cloud4x", "--job", "job1", "--workspace", "w", "--escape-secs", "3", "--auto-start",
        "--queued", "--active", "--status", "running", "--max-finished", "5", "--monitor")  # fmt: skip
    first, second = calls(cli, "view_status")
    assert first == {
        "run_name": "run1", "workspace": "default", "job": None, "monitor": False, "escape_secs": None,
        "auto_start": False, "stage_flags": {"queued": True, "active": True, "completed": True}, "status": None,
        "max_finished": None, "files": [],
    }  # fmt: skip
    assert second == {
        "run_name": None, "workspace": "w", "job": "job1", "monitor": True, "escape_secs": 3.0, "auto_start": True,
        "stage_flags": {"queued": True, "active": True}, "status": "running", "max_finished": 5, "files": [],
    }  # fmt: skip
    told = cli.json("status", "--target", "cloud4x", "--completed")
    assert told["target"] == "cloud4x" and told["service_text"].endswith("1 runs in my cloud\n")
    assert [view["name"] for view in told["runs"]] == ["run1"]
    assert cli.json("status", "job1")["service_text"].startswith("run1     job1     completed")


def test_a_status_that_goes_on_is_seen_as_it_comes_and_ends_with_ctrl_c(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    forever = '        console.print(f"{shown} runs in my cloud")\n'
    again = (
        forever + '        import time\n        while monitor:\n            console.print("again"); time.sleep(0.1)\n'
    )
    file.write_text(file.read_text().replace(forever, again))
    cli("run", "--wait", "--target", "cloud4x", "true")
    shown = at_terminal(cli, "", "status", "run1", "--monitor", interrupt_at=["again"])
    assert "runs in my cloud" in shown and "Traceback" not in shown
    wait_until(lambda: len(_children(cli)) <= 1, 10.0, "the process that monitored is gone")


def _children(cli: Cli) -> list[int]:
    return [
        pid for pid in processes_of(cli.home) if b"turnout.compat.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_a_status_that_raises_is_told_with_its_place(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    file.write_text(file.read_text().replace("        shown = 0\n", "        raise LookupError('no cloud today')\n"))
    cli("run", "--wait", "--target", "cloud4x", "true")
    done = cli("status", "run1", check=False)
    assert (
        done.returncode == 7 and "LookupError: no cloud today" in done.stderr and "my_cloud_compute.py" in done.stderr
    )


def test_the_three_cancels_are_called_and_their_records_shown(cli: Cli, project: Path) -> None:
    """The cloud has the runs in a queue of its own: they never begin."""
    file = project / "extensions" / "my_cloud_compute.py"
    file.write_text(file.read_text().replace('*run["cmd_parts"]]', '"sleep", "100"]'))

    def start() -> str:
        run: str = cli.json("run", "-d", "--target", "cloud4x", "true")["runs"][0]
        wait_until(lambda: cli.json("show", run)["service_job_id"])
        assert cli.json("show", run)["state"] == "queued"
        return run

    first = start()
    (item,) = cli.json("cancel", "run", first)
    record = {"workspace": "default", "run_name": first, "exper_name": "default", "killed": True,
              "status": "cancelled", "before_status": "running"}  # fmt: skip
    assert {name: item["service"][name] for name in record} == record
    assert (item["outcome"], cli.json("show", first)["state"]) == ("cancelled", "cancelled")
    given = calls(cli, "cancel_runs_by_names")[-1]
    assert (given["workspace"], given["run_names"], given["box_name"]) == ("default", [first], "cloud4x#job1.0")

    second = start()
    said = cli("cancel", "job", "job2").stdout
    assert said == f"{second} cancelled; its service says: killed, was running, is cancelled\n"
    (given,) = calls(cli, "cancel_runs_by_job")
    assert given["job_id"] == "job2"
    assert {box: [run["run_name"] for run in runs] for box, runs in given["runs_by_box"].items()} == {
        "cloud4x#job2.0": [second]
    }

    third = start()
    (item,) = cli.json("cancel", "all", "cloud4x")
    assert (item["run"], item["service"]["killed"]) == (third, True)
    assert [given["box_name"] for given in calls(cli, "cancel_runs_by_user")] == ["cloud4x"]


def test_a_cancel_that_raises_stops_nothing(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    file.write_text(file.read_text().replace("record in self.records() if name in", "record in [][0] if name in"))
    run = cli.json("run", "-d", "--target", "cloud4x", "sleep", "100")["runs"][0]
    wait_until(lambda: cli.json("show", run)["state"] == "running")
    done = cli("cancel", "run", run)
    assert "is being ended; its service did not end it:" in done.stdout
    wait_until(lambda: cli.json("show", run)["state"] == "cancelled")


def test_a_submit_that_raises_is_tried_again_and_why_tells(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    head = "        for box_name, runs in runs_by_box.items():\n"
    trip = '        if not os.path.exists(os.path.join(os.path.dirname(CLOUD), "credit")):\n'
    trip += '            raise PermissionError("no credit left")\n'
    file.write_text(file.read_text().replace(head, trip + head))
    cli("run", "-d", "--target", "cloud4x", "echo", "hello")
    wait_until(lambda: "no credit left" in " ".join(cli.json("why", "run1")["why"]))
    assert cli.json("show", "run1")["state"] == "queued"
    (project / "credit").write_text("")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 30.0)


@pytest.mark.parametrize("script", ["deep/go.sh", "deep/go.py"])
def test_a_run_that_cannot_reach_the_hub_executes_its_script_all_the_same(cli: Cli, project: Path, script: str) -> None:
    """With the lines that were put in front of it, its arguments, and in its directory."""
    file = project / "extensions" / "my_cloud_compute.py"
    head = "        for box_name, runs in runs_by_box.items():\n"
    cut = "        import glob\n"
    cut += "        for path in glob.glob(os.path.join(snapshot_dir, '.turnout', '*.json')):\n"
    cut += "            order = dict(json.load(open(path)), address=['nowhere.sock'], patience=0.0)\n"
    cut += "            json.dump(order, open(path, 'w'))\n"
    file.write_text(file.read_text().replace(head, cut + head))
    (project / "deep").mkdir()
    (project / "deep" / "go.sh").write_text('echo "$(basename "$PWD")" $RUN_ARGS$\n')
    (project / "deep" / "go.py").write_text("import os, sys; print(os.path.basename(os.getcwd()), *sys.argv[1:])\n")
    cli("run", "-d", "--target", "cloud4x", "--working-dir", "deep", script, "a  b")
    output = project / ".my-cloud" / "run1" / "output"
    wait_until(lambda: output.exists() and b"deep" in output.read_bytes(), 30.0)
    before, last = output.read_text().splitlines()[-2:]
    assert before.startswith("set up for") and last == "deep a  b"


def test_the_kit_passes(cli: Cli, project: Path) -> None:
    shutil.copy(EXAMPLE / "extensions" / "my_cloud_compute.py", project / "extensions")  # as it is, without notes
    told = cli.json("provider", "test", "cloud4x")
    assert told["failed"] == 0 and told["passed"] >= 15
    assert Path("/dev/null").is_char_device()


def test_adjusting_that_raises_submits_nothing(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    head = '        with open(os.path.join(snapshot_dir, "cloud_setup.sh"), "w") as file:\n'
    file.write_text(file.read_text().replace(head, "        raise ValueError('no such sku')\n" + head))
    done = cli("run", "-d", "--target", "cloud4x", "true", check=False)
    assert done.returncode == 7 and "ValueError: no such sku" in done.stderr and "my_cloud_compute.py" in done.stderr
    assert "nothing was submitted" in done.stderr and cli.json("list", "runs") == []


def test_a_rerun_is_not_adjusted_twice(cli: Cli, project: Path) -> None:
    """It is submitted as it was asked for, and adjusted as the new job that it is."""
    cli("run", "--wait", "--target", "cloud4x", "train.py", "--lr", "0.1")
    again = cli("rerun", "--wait", "run1").stdout
    assert again.count("set up for") == 1 and again.endswith("training with ['--lr', '0.1'] on a G4\n")
    first, second = calls(cli, "adjust_run_commands")
    assert first["job_runs"][0]["cmd_parts"] == second["job_runs"][0]["cmd_parts"] == ["train.py", "--lr", "0.1"]
    assert second["job_id"] == "job2" and second["job_runs"][0]["pre_cmds"] == []
    cli("run", "--wait", "--target", "cloud4x", "echo", "hello")
    assert cli("rerun", "--wait", "run3").stdout.splitlines()[1:] == ["hello"]


def test_its_package_is_frozen_with_the_run_though_left_out(cli: Cli, project: Path) -> None:
    with open(project / "turnout.yaml", "a") as file:
        file.write("code: {code-omit: [extensions]}\n")
    cli("run", "--wait", "--target", "cloud4x", "true")
    assert "extensions" in calls(cli, "adjust_run_commands")[-1]["files"]
    cli("run", "--wait", "true")
    cli("extract", "run2", str(project.parent / "local"))
    assert not (project.parent / "local" / "before" / "extensions").exists(), "not where nobody needs it"


def test_the_hub_may_die_while_the_job_is_there(cli: Cli, project: Path) -> None:
    """It is not submitted again, and its end is learned."""
    cli("run", "-d", "--target", "cloud4x", "sh", "-c", f"while [ ! -e {project}/go ]; do sleep 0.1; done; echo done")
    wait_until(lambda: cli.json("show", "run1")["state"] == "running")
    os.kill(cli.json("hub", "status")["pid"], signal.SIGKILL)
    assert cli.json("show", "run1")["service_job_id"] == "mcc-job1"
    (project / "go").write_text("")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 30.0)
    assert cli("logs", "run1").stdout.endswith("done\n") and len(calls(cli, "submit_job")) == 1


def test_a_hub_that_is_stopped_amid_a_submission_waits_for_it_and_makes_no_second_one(cli: Cli, project: Path) -> None:
    file = project / "extensions" / "my_cloud_compute.py"
    head = "        for box_name, runs in runs_by_box.items():\n"
    file.write_text(file.read_text().replace(head, "        import time; time.sleep(7)\n" + head))
    cli("run", "-d", "--target", "cloud4x", "echo", "hello")
    wait_until(lambda: calls(cli, "submit_job"))
    cli("hub", "stop")
    cli("hub", "start")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 60.0, "its command reached the hub")
    assert cli.json("show", "run1")["service_job_id"] == "mcc-job1" and len(calls(cli, "submit_job")) == 1
    assert "MyCloudCompute submits; it is waited for" in cli("hub", "logs").stdout


def test_secrets_of_the_settings_reach_the_class_and_no_file(cli: Cli, project: Path) -> None:
    text = (project / "turnout.yaml").read_text().replace('sku: "G4"', 'sku: "G4", key: "secret:CLOUD_KEY"')
    (project / "turnout.yaml").write_text(text)
    cli("secret", "set", "--from-stdin", "CLOUD_KEY", input="hunter2 and more\n")
    cli("run", "--wait", "--target", "cloud4x", "true")
    assert calls(cli, "submit_job")[-1]["compute_def"]["key"] == "hunter2 and more"
    kept = [path for path in cli.home.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.name for path in kept} == {"secrets.json"}, "where secrets are kept"
    (project / "calls.jsonl").unlink()
    cli("provider", "test", "cloud4x", "--check", "cancel_ends_it")
    (given,) = calls(cli, "submit_job")
    assert given["compute_def"]["key"] == "hunter2 and more", "the kit is told them as well"


class TestTheOtherWayRound:
    """Any target of turnout as a backend of XT."""

    def test_a_job_is_submitted_watched_and_cancelled(self, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
        (cli.cwd / "train.py").write_text("import os, sys; print(sys.argv[1], os.environ['SKU'])\n")
        cli("hub", "start")
        client = turnout.Client(cli.home)
        backend = backend_for("local", client)
        runs = [
            {"run_name": f"r{n}", "workspace": "w", "exper_name": "e", "box_name": "b", "pre_cmds": ["echo first"],
             "cmd_parts": ["python", "train.py", f"--n={n}"], "env_vars": {"SKU": "G4"}, "repeat": 1}
            for n in (1, 2)
        ]  # fmt: skip
        backend.adjust_run_commands("xt7", runs, False, "e", "turnout", str(cli.cwd), {})
        service_job_id, url = backend.submit_job(
            "xt7", runs, "w", {}, None, 1, False, {"b": runs}, "e", str(cli.cwd), {}
        )
        assert (service_job_id, url) == ("job1", None)
        assert client.wait("job1", timeout=30)["counts"] == {"completed": 2}
        assert cli("logs", "run2").stdout == "first\n--n=2 G4\n"
        backend.view_status(None, "w", "xt7", False, None, False, {}, None, 1)
        (line,) = capsys.readouterr().out.splitlines()
        assert line.split("\t")[:2] == ["run2", "completed"]
        assert not backend.provides_container_support()

    def test_the_three_cancels(self, cli: Cli) -> None:
        client = turnout.Client(cli.home)
        backend = backend_for("local", client)
        run: dict[str, Any] = {"cmd_parts": ["sleep", "100"]}
        for number in range(3):
            backend.submit_job(f"xt{number}", [run], "w", {}, None, 1, False, {}, "e", str(cli.cwd), {})
        assert [each["run_name"] for each in backend.cancel_runs_by_names("w", ["run1"], "b")] == ["run1"]
        by_box = backend.cancel_runs_by_job("xt1", {})
        assert {box: [each["run_name"] for each in ended] for box, ended in by_box.items()} == {"local": ["run2"]}
        (record,) = backend.cancel_runs_by_user("b")
        assert set(record) == {"workspace", "run_name", "exper_name", "killed", "status", "before_status"}
        assert (record["run_name"], record["killed"]) == ("run3", True)

    def test_a_job_is_cancelled_however_many_runs_it_has(self, cli: Cli) -> None:
        backend = backend_for("local", turnout.Client(cli.home))
        runs: list[dict[str, Any]] = [{"cmd_parts": ["sleep", str(1000 + number)]} for number in range(130)]
        for part in (runs, runs[:2]):
            backend.submit_job("xt7", part, "w", {}, None, 1, False, {}, "e", str(cli.cwd), {})
        backend.submit_job("xt8", runs[:1], "w", {}, None, 1, False, {}, "e", str(cli.cwd), {})
        (ended,) = backend.cancel_runs_by_job("xt7", {}).values()
        assert len({each["run_name"] for each in ended}) == 132
        wait_until(lambda: [view["name"] for view in cli.json("status")] == ["run133"])
        assert [each["run_name"] for each in backend.cancel_runs_by_job("job3", {})["local"]] == ["run133"]

    @pytest.mark.parametrize(
        ("changed", "repeat", "said"),
        [
            ({"env_vars": {"SKU": "G16"}}, 1, "the runs of xt7 have different env_vars"),
            ({"env_vars": None}, 1, "the runs of xt7 have different env_vars"),
            ({"repeat": 3}, 1, "xt7 has 2 runs: only a single one can be repeated"),
            ({}, 2, "xt7 has 2 runs: only a single one can be repeated"),
        ],
    )
    def test_what_one_job_cannot_be_is_refused(self, cli: Cli, changed: dict[str, Any], repeat: int, said: str) -> None:
        backend = backend_for("local", turnout.Client(cli.home))
        run: dict[str, Any] = {"cmd_parts": ["true"], "env_vars": {"SKU": "G4"}, "repeat": 1}
        with pytest.raises(InvalidInput, match=said):
            backend.submit_job(
                "xt7", [run, {**run, **changed}], "w", {}, None, repeat, False, {}, "e", str(cli.cwd), {}
            )
        assert cli.json("list", "runs") == []

    def test_a_run_is_repeated_as_its_record_or_the_job_says(self, cli: Cli) -> None:
        client = turnout.Client(cli.home)
        backend = backend_for("local", client)
        for record, job in ((2, 1), (1, 2), (2, 2)):
            run: dict[str, Any] = {"cmd_parts": ["true"], "repeat": record}
            name, _ = backend.submit_job("xt7", [run], "w", {}, None, job, False, {}, "e", str(cli.cwd), {})
            assert client.wait(name, timeout=30)["counts"] == {"completed": 2}
        with pytest.raises(InvalidInput, match="xt7 is repeated 3 times, its run 2 times"):
            backend.submit_job("xt7", [run], "w", {}, None, 3, False, {}, "e", str(cli.cwd), {})

    def test_no_finished_run_is_shown_where_none_is_wanted(self, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
        cli("run", "--wait", "true")
        backend = backend_for("local", turnout.Client(cli.home))
        backend.view_status(None, "", None, False, None, False, {}, None, 0)
        assert capsys.readouterr().out == ""
        backend.view_status(None, "", None, False, None, False, {}, None, None)
        assert capsys.readouterr().out.startswith("run1\tcompleted")


def test_own_tables_take_the_same_filters(cli: Cli) -> None:
    """Where turnout itself knows how runs are, `status` tells it with the same options."""
    cli("run", "--wait", "true")
    cli("run", "--wait", "--workspace", "other", "false", check=False)
    cli("run", "-d", "--held", "--target", "local", "echo", "later")

    def names(*options: str) -> list[str]:
        return [view["name"] for view in cli.json("status", *options)]

    assert names() == ["run3"]
    assert names("--target", "local", "--queued") == ["run3"] and names("--active") == []
    assert names("--completed") == ["run2", "run1"] and names("--status", "failed") == ["run2"]
    assert names("--completed", "--workspace", "other") == ["run2"] and names("--job", "job1", "--completed") == [
        "run1"
    ]
    assert names("--max-finished", "1") == ["run3", "run2"]
    began = time.monotonic()
    assert "run3" in cli("status", "--monitor", "--escape-secs", "0.5").stdout and time.monotonic() - began < 10
    done = cli("status", "--target", "nowhere", check=False)
    assert done.returncode == 3 and "no target 'nowhere'" in done.stderr
    assert cli("open", "run1", check=False).returncode == 3
