"""What ``import nni`` finds where NNI is not installed: what trials call, over turnout's own tracking, and the names
that tuners and assessors use.

A trial gets the parameters of its run; outside a run it gets none, and its reports go nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import turnout
from turnout.compat.nni.interface import (
    Assessor,
    AssessResult,
    ClassArgsValidator,
    NoMoreTrialError,
    OptimizeMode,
    Tuner,
    extract_scalar_history,
    extract_scalar_reward,
)
from turnout.wire.nni import OBJECTIVE

__all__ = [
    "AssessResult", "Assessor", "ClassArgsValidator", "NoMoreTrialError", "OptimizeMode", "Tuner",
    "extract_scalar_history", "extract_scalar_reward", "get_current_parameter", "get_experiment_id",
    "get_next_parameter", "get_next_parameters", "get_sequence_id", "get_trial_id", "report_final_result",
    "report_intermediate_result",
]  # fmt: skip

_STANDALONE = "STANDALONE"
_RUN = "TURNOUT_RUN_NAME"
_reported = 0
_is_asked = False
_current: dict[str, Any] | None = None


def get_next_parameter() -> dict[str, Any] | None:
    """A run has one set of them: like NNI's own, it gets None whenever it asks again."""
    global _is_asked, _current
    _current = None if _is_asked and _RUN in os.environ else dict(turnout.params())
    _is_asked = True
    return _current


get_next_parameters = get_next_parameter


def get_current_parameter(tag: str | None = None) -> Any:
    """What `get_next_parameter` gave last, or the one of that name. KeyError when there is none."""
    return _current if tag is None or _current is None else _current[tag]


def get_experiment_id() -> str:
    return os.environ.get("TURNOUT_JOB", _STANDALONE)


def get_trial_id() -> str:
    return os.environ.get(_RUN, _STANDALONE)


def get_sequence_id() -> int:
    """Which trial of its experiment this is, from 0."""
    number = get_trial_id().rpartition(".")[2]
    return int(number) - 1 if number.isdecimal() else 0


def report_intermediate_result(metric: Any) -> None:
    global _reported
    turnout.log(_numbers(metric), step=_reported)
    _reported += 1


def report_final_result(metric: Any) -> None:
    turnout.log(_numbers(metric))


def _numbers(metric: Any) -> dict[str, Any]:
    """A number is the metric that counts; of several, what is no number is left out."""
    named = metric if isinstance(metric, Mapping) else {OBJECTIVE: metric}
    return {str(name): each for name, each in named.items() if hasattr(each, "__float__")}
