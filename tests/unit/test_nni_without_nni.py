"""A trial of NNI where NNI is not installed: ``import nni`` finds ours, by the import aliases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from turnout.wire import frames

TRIAL = """
from turnout.compat.nni import library as nni

params = nni.get_next_parameter()
nni.report_intermediate_result(params.get("x", 0))
nni.report_intermediate_result({"default": 2, "other": 3.5, "text": "no number"})
nni.report_final_result(4)
print(params, nni.get_trial_id(), nni.get_sequence_id(), nni.get_experiment_id())
"""


def run(**env: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
    done = subprocess.run([sys.executable, "-c", TRIAL], env={**kept, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_trial_has_the_parameters_of_its_run_and_its_reports_are_metrics(tmp_path: Path) -> None:
    told = {"TURNOUT_RUN_NAME": "run1.3", "TURNOUT_JOB": "job1", "TURNOUT_PARAMS": '{"x": 1.5}'}
    assert run(TURNOUT_SPOOL=str(tmp_path), **told) == "{'x': 1.5} run1.3 2 job1"
    (file,) = tmp_path.iterdir()
    logged: list[dict[str, Any]] = [json.loads(frame.payload) for frame in frames.scan(file.read_bytes())]
    assert [(each.get("s"), each["m"]) for each in logged] == [
        (0, {"default": 1.5}), (1, {"default": 2, "other": 3.5}), (None, {"default": 4}),
    ]  # fmt: skip


def test_outside_a_run_it_works_as_well() -> None:
    assert run() == "{} STANDALONE 0 STANDALONE"
