"""The keys of an experiment's file of NNI, in the form of version 2 and of version 1, as one set of values.

Nothing is imported here but what any part of turnout may import: an experiment's file is read where it is submitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from turnout.errors import InvalidInput
from turnout.model.likeness import instead_of

_EXPERIMENT = (
    "experimentName", "experimentType", "searchSpaceFile", "searchSpace", "trialCommand", "trialCodeDirectory",
    "trialConcurrency", "trialGpuNumber", "maxExperimentDuration", "maxTrialNumber", "maxTrialDuration", "nniManagerIp",
    "useAnnotation", "debug", "logLevel", "experimentWorkingDirectory", "tunerGpuIndices", "tuner", "assessor",
    "advisor", "trainingService", "sharedStorage",
)  # fmt: skip
_SERVICE = (
    "platform", "trialCommand", "trialCodeDirectory", "trialGpuNumber", "nniManagerIp", "useActiveGpu",
    "maxTrialNumberPerGpu", "gpuIndices", "reuseMode", "machineList",
)  # fmt: skip
_MACHINE = (
    "host", "port", "user", "password", "sshKeyFile", "sshPassphrase", "useActiveGpu", "maxTrialNumberPerGpu",
    "gpuIndices", "pythonPath",
)  # fmt: skip
_ALGORITHM = ("name", "className", "codeDirectory", "classArgs")

#: Version 1: its keys, and what they are called in version 2.
_EXPERIMENT_1 = {
    **{name: name for name in (
        "experimentName", "authorName", "description", "trialConcurrency", "multiPhase", "multiThread", "nniManagerIp",
        "debug", "versionCheck", "logLevel", "logCollection", "useAnnotation", "tuner", "assessor", "advisor", "trial",
        "localConfig", "remoteConfig", "machineList", "sharedStorage",
    )},
    "maxExecDuration": "maxExperimentDuration", "maxTrialNum": "maxTrialNumber", "searchSpacePath": "searchSpaceFile",
    "trainingServicePlatform": "platform", "logDir": "experimentWorkingDirectory",
    "maxTrialDuration": "maxTrialDuration",
}  # fmt: skip
_TRIAL_1 = {
    "command": "trialCommand",
    "codeDir": "trialCodeDirectory",
    "gpuNum": "trialGpuNumber",
    "nasMode": "nasMode",
}
_SERVICE_1 = {
    "gpuIndices": "gpuIndices", "maxTrialNumPerGpu": "maxTrialNumberPerGpu", "useActiveGpu": "useActiveGpu",
    "reuse": "reuseMode",
}  # fmt: skip
_MACHINE_1 = {
    "ip": "host", "port": "port", "username": "user", "passwd": "password", "sshKeyPath": "sshKeyFile",
    "passphrase": "sshPassphrase", "gpuIndices": "gpuIndices", "maxTrialNumPerGpu": "maxTrialNumberPerGpu",
    "useActiveGpu": "useActiveGpu", "pythonPath": "pythonPath",
}  # fmt: skip
_ALGORITHM_1 = {
    "builtinTunerName": "name", "builtinAssessorName": "name", "builtinAdvisorName": "name", "codeDir": "codeDirectory",
    "classFileName": "classFileName", "className": "className", "classArgs": "classArgs", "gpuIndices": "gpuIndices",
    "includeIntermediateResults": "includeIntermediateResults",
}  # fmt: skip

#: What tells an experiment's file from others, and one of version 1 from one of version 2; as `_folded` has them.
_SIGNS = frozenset(
    {"trialcommand", "trialconcurrency", "trainingservice", "searchspacefile", "trainingserviceplatform"}
)
_SIGNS_1 = frozenset({"trial", "searchspacepath", "trainingserviceplatform"})
PLATFORMS = ("local", "remote")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([smhd])", re.ASCII | re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: Beyond these no number or span is meant, and not every program can reckon with it.
_MOST = (1 << 53) - 1
_LONGEST = (1 << 40) - 1
_SHOWN = 80


def is_nni(content: Mapping[str, Any]) -> bool:
    """Whether that is an experiment's file of NNI, rather than a search as turnout writes it."""
    keys = {_folded(key) for key in content}
    return bool(keys & (_SIGNS | _SIGNS_1)) and "search" not in keys


class Written:
    """The values of one mapping by the names of version 2, whichever it is written in; what is null is not there. Each
    getter raises InvalidInput with the key as it is written."""

    def __init__(self, values: Mapping[str, tuple[Any, str]]) -> None:
        self._values = {name: each for name, each in values.items() if each[0] is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> Any:
        return self._values[name][0] if name in self._values else None

    def where(self, name: str) -> str:
        """The key as it is written; as it would be, if it is not there."""
        return self._values[name][1] if name in self._values else name

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "text")
        return value

    def whole(self, name: str, least: int = 1) -> int | None:
        value = self.get(name)
        if value is not None and (type(value) is not int or not least <= value <= _MOST):
            raise self.wrong(name, f"a whole number of at least {least}, and at most {_MOST}")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def seconds(self, name: str) -> int | None:
        """A span of time as NNI writes it: ``10m``, ``0.5h``, or a number of seconds."""
        value = self.get(name)
        if value is None:
            return None
        seconds = value if type(value) in (int, float) else 0
        if isinstance(value, str) and (found := _SPAN.fullmatch(value.strip())):
            seconds = float(found[1]) * _SECONDS[found[2].lower()]
        if not 0 < seconds <= _LONGEST:
            raise self.wrong(name, f"a time above zero, and below {_LONGEST} seconds: 90s, 10m, 0.5h, 2d")
        return math.ceil(seconds)

    def indices(self, name: str) -> list[int] | None:
        """Numbers of GPUs: a list, one, or a text with commas."""
        value = self.get(name)
        given = value.split(",") if isinstance(value, str) else [value] if type(value) is int else value
        if given is None:
            return None
        try:
            found = [int(each) for each in given]
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(name, "numbers of GPUs: [0, 1]") from None
        if not found or min(found) < 0 or max(found) > _MOST or len(set(found)) < len(found):
            raise self.wrong(name, "different numbers of GPUs: [0, 1]")
        return found

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        value = self.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(name, "keys and values")
        return value

    def wrong(self, name: str, expected: str) -> InvalidInput:
        shown = _shown(self.get(name))
        return InvalidInput(f"{self.where(name)}: {shown} is none of what it may be", hint=f"write {expected}")


def read_experiment(content: Mapping[str, Any]) -> tuple[Written, list[Written]]:
    """All of the experiment but its training services, and those; each of these has a ``platform``. InvalidInput for a
    key that NNI does not have there."""
    if _SIGNS_1 & {_folded(key) for key in content}:
        return _experiment_1(content)
    values = _values(content, dict.fromkeys(_EXPERIMENT), "")
    services = values.pop("trainingService", (None, ""))[0]
    if services is None or services == []:
        raise InvalidInput("trainingService: it is missing", hint="write `trainingService: {platform: local}`")
    named = _each(services, "trainingService")
    for each, where in named:
        _check_platform(each, "platform", where)
    return Written(values), [Written(_values(each, dict.fromkeys(_SERVICE), where)) for each, where in named]


def read_machines(service: Written) -> list[Written]:
    where = service.where("machineList")
    is_old = "." not in where
    known = _MACHINE_1 if is_old else dict.fromkeys(_MACHINE)
    listed = service.get("machineList")
    if not isinstance(listed, list) or not listed:
        raise InvalidInput(f"{where}: there is no machine in it", hint="write `- {host: HOST, user: USER}`")
    return [Written(_values(each, known, place)) for each, place in _each(listed, where)]


def read_algorithm(experiment: Written, name: str) -> Written | None:
    """The tuner, assessor or advisor; None = there is none. Its class is one name, as version 2 writes it."""
    content = experiment.mapping(name)
    if not content:
        return None
    is_old = bool({_folded(key) for key in content} & {"builtintunername", "builtinassessorname", "builtinadvisorname",
                                                       "classfilename", "codedir"})  # fmt: skip
    values = _values(content, _ALGORITHM_1 if is_old else dict.fromkeys(_ALGORITHM), name)
    file = values.pop("classFileName", None)
    if file is not None and "className" in values:
        class_name, where = values["className"]
        values["className"] = (f"{str(file[0]).removesuffix('.py')}.{class_name}", where)
    return Written(values)


def _experiment_1(content: Mapping[str, Any]) -> tuple[Written, list[Written]]:
    _check_platform(content, "trainingServicePlatform", "")
    values = _values(content, _EXPERIMENT_1, "")
    service: dict[str, tuple[Any, str]] = {
        name: values.pop(name) for name in ("platform", "machineList") if name in values
    }
    for name, known in (("trial", _TRIAL_1), ("localConfig", _SERVICE_1), ("remoteConfig", _SERVICE_1)):
        inner, where = values.pop(name, (None, name))
        if inner is not None:
            into = values if name == "trial" else service
            into.update(_values(inner, known, where))
    return Written(values), [Written(service)]


def _check_platform(content: Any, key: str, above: str) -> None:
    """Before other keys are looked at: those of a platform that is not served are not known here."""
    given = {_folded(each): value for each, value in content.items()} if isinstance(content, Mapping) else {}
    platform = given.get(_folded(key))
    if platform not in PLATFORMS:
        what = "it is missing" if platform is None else f"{_shown(platform)} is not served here"
        where = f"{above}.{key}" if above else key
        hint = f"write `{key}: local`; `turnout search FILE --target NAME` then sends it where you like"
        raise InvalidInput(f"{where}: {what}", hint=hint)


def _values(content: Any, known: Mapping[str, str | None], above: str) -> dict[str, tuple[Any, str]]:
    """What is written, by the names of version 2. Case and ``_`` of keys do not count, as in NNI."""
    if not isinstance(content, Mapping):
        raise InvalidInput(f"{above}: it has no keys and values", hint=f"known: {', '.join(known)}")
    names = {_folded(each): each for each in known}
    found: dict[str, tuple[Any, str]] = {}
    for key, value in content.items():
        where = f"{above}.{key}" if above else str(key)
        name = names.get(_folded(key))
        if name is None:
            raise InvalidInput(f"{where}: NNI has no such key", hint=instead_of(str(key), known))
        found[known[name] or name] = (value, where)
    return found


def _each(content: Any, where: str) -> list[tuple[Any, str]]:
    if isinstance(content, list):
        return [(each, f"{where}[{place}]") for place, each in enumerate(content)]
    return [(content, where)]


def _shown(value: object) -> str:
    """Not all of it, if it is long; of a number with thousands of digits Python writes none."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of that length"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _folded(key: object) -> str:
    return str(key).lower().replace("_", "")
