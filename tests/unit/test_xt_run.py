"""XT's `Run`: a script that logs, saves checkpoints and asks for parameters through it does so as a run of turnout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, user_environment, wait_until
from turnout.wire import frames


class InARun:
    """A run's directories, for scripts with a `run`; attempt after attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output"
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.told: dict[str, str] = {
            "TURNOUT_SPOOL": str(self.spool), "TURNOUT_OUTPUT_DIR": str(self.output), "TURNOUT_RUN_NAME": "run3.2",
            "TURNOUT_JOB": "job7", "TURNOUT_ATTEMPT": "1", "TURNOUT_WORKSPACE": "ws", "TURNOUT_EXPERIMENT": "exp",
        }  # fmt: skip

    def python(
        self, script: str, environment: Mapping[str, str] | None = None, *, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        return subprocess.run(
            [sys.executable, "-c", f"from turnout.compat.xt import Run\n{script}"],
            env={**clean, **self.told, **(environment or {})}, cwd=self.folder, capture_output=True, text=True,
            check=check, timeout=30,
        )  # fmt: skip

    def __call__(self, script: str, **environment: str) -> Any:
        """What `result` is in the end, of a script that has a `run`."""
        source = f"import json, turnout\nrun = Run()\nresult = None\n{script}\nprint(json.dumps(result))"
        return json.loads(self.python(source, environment).stdout)

    def records(self) -> list[dict[str, Any]]:
        """What it told, without the times."""
        files = sorted(self.spool.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        told = [json.loads(frame.payload) for path in files for frame in frames.scan(path.read_bytes())]
        return [{key: value for key, value in record.items() if key != "t"} for record in told]


@pytest.fixture
def in_a_run(tmp_path: Path) -> InARun:
    return InARun(tmp_path)


class TestTelling:
    def test_parameters(self, in_a_run: InARun) -> None:
        in_a_run("run.log_hparam('lr', 0.1); run.log_hparams({'layers': 3, 'name': 'a'})")
        assert in_a_run.records() == [{"p": {"lr": 0.1}}, {"p": {"layers": 3, "name": "a"}}]

    def test_the_metric_that_counts_is_the_step_and_the_stage_stands_before_the_others(self, in_a_run: InARun) -> None:
        in_a_run("run.log_metrics({'epoch': 4, 'loss': 0.5}, step_name='epoch', stage='train')")
        assert in_a_run.records() == [{"s": 4, "m": {"epoch": 4, "train-loss": 0.5}}]

    def test_without_it_or_when_it_does_not_count_values_are_numbered_as_they_come(self, in_a_run: InARun) -> None:
        in_a_run("run.log_metrics({'loss': 0.5}); run.log_metrics({'loss': 0.4, 'epoch': 0.5}, 'epoch')")
        in_a_run("run.log_metrics({'loss': 0.3}, 'epoch')")
        assert in_a_run.records() == [{"m": {"loss": 0.5}}, {"m": {"loss": 0.4, "epoch": 0.5}}, {"m": {"loss": 0.3}}]

    @pytest.mark.parametrize("step", ["10**400", "2**70", "float('inf')", "-2**62"])
    def test_a_step_that_is_too_large_is_none(self, step: str, in_a_run: InARun) -> None:
        in_a_run(f"run.log_metrics({{'epoch': {step}, 'loss': 0.5}}, 'epoch')")
        (record,) = in_a_run.records()
        assert "s" not in record and record["m"]["loss"] == 0.5

    def test_tags(self, in_a_run: InARun) -> None:
        in_a_run("run.tag_run({'kind': 'old', 'keep': None})")
        assert in_a_run.records() == [{"g": {"kind": "old", "keep": ""}}]

    def test_tags_of_the_job_are_set_on_the_run_and_it_says_how_to_do_it(self, in_a_run: InARun) -> None:
        done = in_a_run.python("Run().tag_job({'kind': 'my own', 'keep': None})")
        assert in_a_run.records() == [{"g": {"kind": "my own", "keep": ""}}]
        assert "`turnout set tags job7 'kind=my own' keep` tags the job" in done.stderr

    def test_events_are_lines_of_a_file_that_is_kept(self, in_a_run: InARun) -> None:
        in_a_run("run.log_event('started', {'a': 1}); run.log_event('done', {})")
        lines = [json.loads(line) for line in (in_a_run.output / "xt-events.jsonl").read_text().splitlines()]
        assert [(line["event"], line["data"]) for line in lines] == [("started", {"a": 1}), ("done", {})]
        assert all(line["time"] > 1.7e9 for line in lines)

    def test_with_logging_off_nothing_is_told(self, in_a_run: InARun) -> None:
        in_a_run(
            "run = Run(None, None, False); run.log_hparam('a', 1); run.log_metrics({'b': 1}); run.log_event('c', {})"
        )
        assert in_a_run.records() == [] and not in_a_run.output.exists()

    def test_a_wrong_type_is_a_mistake_in_the_script(self, in_a_run: InARun) -> None:
        done = in_a_run.python("Run().log_metrics({'loss': 'low'})", check=False)
        assert "metric 'loss' must be a number, not str" in done.stderr


def test_the_constructor_takes_what_xt_takes(in_a_run: InARun) -> None:
    names = "('cfg', 'store', True, False, False, 'tb', True)"
    assert in_a_run(
        f"run = Run(*{names}); result = [run.config, run.get_store(), run.aml_logging, run.checkpoints_enabled,"
        " run.tensorboard_path, run.supress_normal_output, run.run_name, run.ws_name, run.exper_name, run.resume_name]"
    ) == ["cfg", "store", False, False, "tb", True, "run3.2", "ws", "exp", None]
    assert in_a_run("result = Run(tb_path='x').tensorboard_path") == "x"


class TestCheckpoints:
    def test_a_later_attempt_finds_what_was_set_last(self, in_a_run: InARun) -> None:
        script = "open('model', 'w').write('weights {0}'); result = run.set_checkpoint({{'epoch': {0}}}, 'model')"
        assert in_a_run(script.format(1)) is True and in_a_run(script.format(2)) is True
        found = "result = [run.is_resuming(), run.get_checkpoint('back'), open('back').read()]"
        assert in_a_run(found, TURNOUT_ATTEMPT="2") == [True, {"epoch": 2}, "weights 2"]
        assert len(list((in_a_run.output / "checkpoints").glob("file-*"))) == 1

    def test_without_a_file_that_of_before_stays(self, in_a_run: InARun) -> None:
        in_a_run(
            "open('model', 'w').write('w'); run.set_checkpoint({'epoch': 1}, 'model'); run.set_checkpoint({'epoch': 2})"
        )
        assert in_a_run("result = [run.get_checkpoint('back'), open('back').read()]") == [{"epoch": 2}, "w"]

    def test_a_first_attempt_has_none(self, in_a_run: InARun) -> None:
        assert in_a_run("result = [run.is_resuming(), run.get_checkpoint('back')]") == [False, None]
        assert not (in_a_run.folder / "back").exists()

    def test_what_is_cleared_is_gone(self, in_a_run: InARun) -> None:
        in_a_run("run.set_checkpoint({'epoch': 1})")
        assert in_a_run("result = [run.clear_checkpoint(), run.get_checkpoint()]") == [True, None]
        assert not (in_a_run.output / "checkpoints").exists()

    def test_one_that_fails_leaves_the_earlier_one(self, in_a_run: InARun) -> None:
        in_a_run("open('model', 'w').write('good'); run.set_checkpoint({'epoch': 1}, 'model')")
        for wrong in ("{'epoch': object()}, 'model'", "{'epoch': 2}, 'no such file'"):
            assert in_a_run.python(f"Run().set_checkpoint({wrong})", check=False).returncode == 1
        assert in_a_run("result = [run.get_checkpoint('back'), open('back').read()]") == [{"epoch": 1}, "good"]

    def test_who_is_killed_in_the_middle_finds_the_earlier_one(self, in_a_run: InARun) -> None:
        """Before the new record is in its place, and after it."""
        in_a_run("open('model', 'w').write('one'); run.set_checkpoint({'epoch': 1}, 'model')")
        die = "import os, pathlib, signal\ndef die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
        script = "open('model', 'w').write('{0}'); Run().set_checkpoint({{'epoch': '{0}'}}, 'model')"
        found = "result = [run.get_checkpoint('back'), open('back').read()]"
        assert in_a_run.python(f"{die}os.replace = die\n{script.format('two')}", check=False).returncode == -9
        assert in_a_run(found) == [{"epoch": 1}, "one"]
        assert (
            in_a_run.python(f"{die}pathlib.Path.unlink = die\n{script.format('three')}", check=False).returncode == -9
        )
        assert in_a_run(found) == [{"epoch": "three"}, "three"]

    def test_they_can_be_switched_off(self, in_a_run: InARun) -> None:
        script = "run = Run(checkpoints_enabled=False); result = [run.set_checkpoint({'a': 1}), run.get_checkpoint()]"
        assert in_a_run(script) == [False, None] and not in_a_run.output.exists()


class TestParameters:
    SPACE = "{'lr': '$uniform(0, 1)', 'layers': [1, 2, 3, 4, 5, 6, 7, 8, 9], 'name': 'a'}"

    def test_those_of_the_search_are_what_it_gets(self, in_a_run: InARun) -> None:
        given = json.dumps({"lr": 0.125, "layers": 77, "other": 1})
        script = f"result = run.get_next_hp_set_in_search({self.SPACE}, 'dgd')"
        assert in_a_run(script, TURNOUT_PARAMS=given) == {"lr": 0.125, "layers": 77, "name": "a"}
        assert in_a_run.records() == [{"p": {"name": "a"}}]

    def test_else_they_are_drawn_recorded_and_the_same_after_a_restart(self, in_a_run: InARun) -> None:
        script = f"result = [run.get_next_hp_set_in_search({self.SPACE}, 'random') for _ in range(2)]"
        first, second = in_a_run(script)
        assert 0 <= first["lr"] <= 1 and first["layers"] in range(1, 10) and first["name"] == "a"
        assert first != second
        assert in_a_run.records() == [{"p": first}, {"p": second}]
        assert in_a_run(script, TURNOUT_ATTEMPT="2") == [first, second]
        assert in_a_run(script, TURNOUT_RUN_NAME="run3.3") != [first, second]

    def test_a_space_that_makes_no_sense_is_told(self, in_a_run: InARun) -> None:
        done = in_a_run.python("Run().get_next_hp_set_in_search({'lr': '$unifrom(0, 1)'})", check=False)
        assert "InvalidInput" in done.stderr and "lr" in done.stderr


class TestShares:
    def test_a_run_has_no_way_to_them_and_says_what_to_do(self, in_a_run: InARun) -> None:
        for call, hint in (
            ("upload_files_to_share('pets', 'a', 'model', False)", "turnout.output_dir()"),
            ("download_files_from_share('pets', 'train', 'here', False)", "turnout run --data pets/train"),
        ):
            script = f"try: Run().{call}\nexcept Exception as error: print(type(error), error, error.hint)"
            said = in_a_run.python(script).stdout
            assert "InvalidInput" in said
            assert "run3.2 cannot" in said and "no connection to the hub" in said and hint in said

    def test_elsewhere_they_are_as_for_everybody(self, cli: Cli, tmp_path: Path) -> None:
        for name in ("a.csv", "b.csv", "c.txt"):
            (tmp_path / name).write_text(name)
        script = "from turnout.compat.xt import Run; run = Run()\n"
        script += "print(run.upload_files_to_share('pets', 'train', '*.csv', False))\n"
        script += "print(run.download_files_from_share('pets', 'train', 'back', False))\n"
        environment = user_environment(cli.home)
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip
        assert done.stdout.splitlines() == ["{'count': 2, 'path': 'pets/train'}"] * 2, done.stderr
        assert sorted(path.name for path in (tmp_path / "back").rglob("*.csv")) == ["a.csv", "b.csv"]


def test_outside_a_run_all_of_it_is_dropped(in_a_run: InARun) -> None:
    in_a_run.told.clear()
    assert in_a_run(
        "run.log_hparam('a', 1); run.log_metrics({'b': 1}, 'b', 'test'); run.log_event('c', {})\n"
        "run.tag_run({'d': 1}); run.tag_job({'d': 1}); run.close()\n"
        "result = [run.is_resuming(), run.set_checkpoint({'a': 1}, 'nothing'),"
        " run.get_checkpoint('x'), run.clear_checkpoint(), run.run_name]"
    ) == [False, False, None, False, None]
    assert [path.name for path in in_a_run.folder.iterdir()] == ["spool"] and in_a_run.records() == []


SCRIPT = """
import time
from turnout.compat.xt import Run

run = Run()
begun = run.get_checkpoint("model")
if begun is None:
    open("model", "w").write("what it learned")
    run.set_checkpoint({"epoch": 5}, "model")
    print("saved", flush=True)
    time.sleep(100)
print(run.is_resuming(), begun, open("model").read(), flush=True)
run.log_metrics({"epoch": begun["epoch"], "loss": 0.5}, step_name="epoch")
run.clear_checkpoint()
"""


def test_a_run_goes_on_where_its_earlier_attempt_was(cli: Cli) -> None:
    (cli.cwd / "train.py").write_text(SCRIPT)
    cli("run", "-d", sys.executable, "train.py")
    wait_until(lambda: "saved" in cli("logs", "run1", check=False).stdout, 30)
    cli("restart", "run1")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 30)
    assert cli("logs", "run1").stdout == "True {'epoch': 5} what it learned\n"
    (point,) = cli.json("metrics", "run1")["loss"]
    assert (point["step"], point["value"]) == (5, 0.5)
