"""What tuners and assessors of NNI are made from, for those that are used where NNI itself is not installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from turnout.wire.nni import OBJECTIVE

T = TypeVar("T")


class NoMoreTrialError(Exception):
    """A tuner has nothing to propose; at least not now."""


class AssessResult(Enum):
    Good = True
    Bad = False


class Tuner:
    """A subclass overrides `update_search_space`, `receive_trial_result`, and one of those that generate parameters.
    Each trial has an id, an int."""

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no update_search_space")

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no generate_parameters")

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        """Those of so many trials; fewer when there are no more."""
        found: list[Any] = []
        try:
            for parameter_id in parameter_id_list:
                found.append(self.generate_parameters(parameter_id, **kwargs))
        except NoMoreTrialError:
            pass
        return found

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no receive_trial_result")

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        """A trial is over."""

    def import_data(self, data: list[dict[str, Any]]) -> None:
        """Trials of which this instance knows nothing: each has a ``parameter`` and a ``value``."""

    def load_checkpoint(self) -> None:
        """Nothing is kept."""

    def save_checkpoint(self) -> None:
        """Nothing is kept."""


class Assessor:
    """A subclass overrides `assess_trial`. Each trial has an id, a text."""

    def assess_trial(self, trial_job_id: str, trial_history: Sequence[Any]) -> AssessResult:
        raise NotImplementedError(f"{type(self).__name__} has no assess_trial")

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        """A trial is over."""

    def load_checkpoint(self) -> None:
        """Nothing is kept."""

    def save_checkpoint(self) -> None:
        """Nothing is kept."""


class ClassArgsValidator:
    """The arguments of a class are checked by the class."""

    def validate_class_args(self, **kwargs: Any) -> None:
        """Any are taken."""


class OptimizeMode(Enum):
    Minimize = "minimize"
    Maximize = "maximize"


def extract_scalar_reward(value: Any, scalar_key: str = OBJECTIVE) -> float:
    """The number that counts, of one that a trial reported. TypeError when there is none."""
    found = value.get(scalar_key) if isinstance(value, dict) else value
    if not isinstance(found, (int, float)):
        raise TypeError(f"a trial reported {value!r}: neither a number, nor a dict with a number as {scalar_key!r}")
    return found


def extract_scalar_history(trial_history: Sequence[Any], scalar_key: str = OBJECTIVE) -> list[float]:
    return [extract_scalar_reward(each, scalar_key) for each in trial_history]


def merge_parameter(base_params: T, override_params: Mapping[str, Any] | None) -> T:
    """`base_params`, a dict or what a parser of arguments made, with these values in the place of its own. ValueError,
    with some of them in place, for a name that it does not have, or a value of another type; None takes any."""
    for name, value in (override_params or {}).items():
        if isinstance(base_params, dict) and name in base_params:
            base_params[name] = _fitting(name, value, base_params[name])
        elif not isinstance(base_params, dict) and hasattr(base_params, name):
            setattr(base_params, name, _fitting(name, value, getattr(base_params, name)))
        else:
            raise ValueError(f"{name!r} is none of the base parameters")
    return base_params


def _fitting(name: str, value: Any, base: Any) -> Any:
    if base is None or isinstance(value, type(base)):
        return value
    if isinstance(base, float) and isinstance(value, int):
        return float(value)
    raise ValueError(f"{name!r} is {value!r}, and the base parameters have a {type(base).__name__} there")
