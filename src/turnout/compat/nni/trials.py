"""Trials, as a TrainingService speaks of them: what is asked for, how one is, what one measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from turnout.compat.nni.spelling import read_either, twice_spelled


class TrialJobStatus(StrEnum):
    """The document's example says SUCCEED where NNI's code says SUCCEEDED: both are read, and are one."""

    UNKNOWN = "UNKNOWN"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    SUCCEED = "SUCCEEDED"
    FAILED = "FAILED"
    USER_CANCELED = "USER_CANCELED"
    SYS_CANCELED = "SYS_CANCELED"
    EARLY_STOPPED = "EARLY_STOPPED"

    @property
    def is_final(self) -> bool:
        return self not in (TrialJobStatus.UNKNOWN, TrialJobStatus.WAITING, TrialJobStatus.RUNNING)

    @classmethod
    def _missing_(cls, value: object) -> TrialJobStatus | None:
        """Also a member of somebody else's enumeration, by its value or its name."""
        words = (str(getattr(value, "value", value)), str(getattr(value, "name", "")))
        return next((cls.__members__[each.upper()] for each in words if each.upper() in cls.__members__), None)


@twice_spelled
@dataclass
class HyperParameters:
    """`value` is JSON text: of one object, or of NNI's ``{"parameter_id": …, "parameters": {…}}``. `index` counts the
    sets of parameters of one trial."""

    value: str = "{}"
    index: int = 0

    @property
    def parameters(self) -> dict[str, Any]:
        """By name. ValueError when `value` holds none."""
        found = json.loads(self.value)
        if isinstance(found, dict) and "parameter_id" in found and isinstance(found.get("parameters"), dict):
            found = found["parameters"]
        if not isinstance(found, dict):
            raise ValueError(f"hyper parameters are an object of JSON, not {self.value[:80]!r}")
        return found


@twice_spelled
@dataclass
class JobApplicationForm:
    """`job_type`: ``TRIAL``, the only one there is."""

    job_type: str = "TRIAL"


@twice_spelled
@dataclass
class TrialJobApplicationForm(JobApplicationForm):
    """A trial that is wanted. NNI's form has no more than its parameters; the rest is ours, for services that start a
    trial by what its form says: its `command` for a shell in a copy of `code_directory`, `env` for it besides what is
    there, and a `token` which tells it from every other."""

    hyper_parameters: HyperParameters = field(default_factory=HyperParameters)
    sequence_id: int = 0
    command: str = ""
    code_directory: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, Any], *, index: int = 0, number: int = 0) -> TrialJobApplicationForm:
        """With these parameters, as NNI's manager writes them down."""
        written = {"parameter_id": number, "parameter_source": "algorithm", "parameters": dict(parameters)}
        return cls(hyper_parameters=HyperParameters(json.dumps(written), index), sequence_id=number)


@twice_spelled
@dataclass
class TrialJobDetail:
    """How a trial is. Times are milliseconds since 1970, as NNI's are."""

    id: str
    status: TrialJobStatus = TrialJobStatus.WAITING
    submit_time: float = 0
    working_directory: str = ""
    form: JobApplicationForm = field(default_factory=TrialJobApplicationForm)
    sequence_id: int = 0
    start_time: float | None = None
    end_time: float | None = None
    tags: list[str] = field(default_factory=list)
    url: str | None = None
    is_early_stopped: bool | None = None


@twice_spelled
@dataclass
class TrialJobMetric:
    """`data` is the JSON text that the trial told, as it is."""

    id: str
    data: str


def id_of(answer: object) -> str:
    """ValueError when it tells none."""
    identity = read_either(answer, "id")
    if identity is None:
        raise ValueError(f"a TrialJobDetail was expected, not {answer!r:.100}")
    return str(identity)


def detail_of(answer: object) -> TrialJobDetail:
    """What a service answered, which may be an object of its own, or a mapping, in either spelling. ValueError when it
    tells no id, or a status that is none."""
    return TrialJobDetail(
        id=id_of(answer), status=TrialJobStatus(read_either(answer, "status", TrialJobStatus.UNKNOWN)),
        submit_time=read_either(answer, "submit_time") or 0, start_time=read_either(answer, "start_time"),
        end_time=read_either(answer, "end_time"), tags=list(read_either(answer, "tags") or ()),
        url=read_either(answer, "url"), working_directory=str(read_either(answer, "working_directory") or ""),
        form=read_either(answer, "form") or TrialJobApplicationForm(),
        sequence_id=int(read_either(answer, "sequence_id") or 0),
        is_early_stopped=read_either(answer, "is_early_stopped"),
    )  # fmt: skip
