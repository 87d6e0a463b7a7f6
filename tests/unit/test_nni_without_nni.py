"""A trial of NNI where NNI is not installed: ``import nni`` finds ours, by the import aliases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from turnout.compat.nni.interface import merge_parameter
from turnout.wire import frames

TRIAL = """
from turnout.compat.nni import library as nni

params = nni.get_next_parameter()
nni.report_intermediate_result(params.get("x", 0))
nni.report_intermediate_result({"default": 2, "other": 3.5, "text": "no number"})
nni.report_final_result(4)
print(params, nni.get_trial_id(), nni.get_sequence_id(), nni.get_experiment_id())
"""
#: As it is written for a service that gives a trial several sets.
LOOP = """
from turnout.compat.nni import library as nni

while params := nni.get_next_parameter():
    print(nni.get_current_parameter() == params, nni.get_current_parameter("x"))
print(nni.get_current_parameter(), nni.get_next_parameters())
"""


def run(script: str = TRIAL, **env: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
    done = subprocess.run([sys.executable, "-c", script], env={**kept, **env}, capture_output=True, text=True)
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


def test_a_trial_that_asks_again_gets_none() -> None:
    """As from NNI itself."""
    assert run(LOOP, TURNOUT_RUN_NAME="run1.3", TURNOUT_PARAMS='{"x": 1.5}') == "True 1.5\nNone None"


def test_outside_a_run_it_works_as_well() -> None:
    assert run() == "{} STANDALONE 0 STANDALONE"


@pytest.mark.parametrize("base", [{"lr": 0.5, "name": None, "deep": 3}, SimpleNamespace(lr=0.5, name=None, deep=3)])
def test_parameters_take_the_place_of_parsed_arguments(base: Any) -> None:
    merged = merge_parameter(base, {"lr": 1, "name": "x"})
    assert merged is base and merge_parameter(base, None) is base
    values = base if isinstance(base, dict) else vars(base)
    assert values == {"lr": 1.0, "name": "x", "deep": 3} and type(values["lr"]) is float
    for wrong in ({"rate": 1}, {"deep": 0.5}, {"deep": "3"}):
        with pytest.raises(ValueError, match="base parameters"):
            merge_parameter(base, wrong)


def test_nni_utils_has_it_where_nni_is_not_installed() -> None:
    program = "from nni.utils import merge_parameter\nprint(merge_parameter({'x': 1}, {'x': 2}))"
    assert run(f"from turnout.compat import aliases\naliases.install()\n{program}") == "{'x': 2}"
