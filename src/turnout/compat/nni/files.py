"""An experiment's file of NNI, as a search of turnout's."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from turnout.compat.nni import names
from turnout.compat.nni.keys import Written, is_nni, read_algorithm, read_experiment
from turnout.compat.nni.names import Chosen
from turnout.compat.nni.places import as_label, gpus_of, places_of
from turnout.errors import InvalidInput
from turnout.wire.nni import OBJECTIVE

__all__ = ["from_nni", "is_nni"]

BUDGET = "TRIAL_BUDGET"
#: What a text that cannot be a path ends in: its name is too long, it has a NUL, or ``~nobody``.
_NO_PATH = (OSError, ValueError, RuntimeError)
#: How many trials NNI makes at most where nothing is said.
_MOST_TRIALS = 99999
_LARGEST_SPACE = 1 << 20
_MOST_POINTS = 1000
#: What has no meaning here, and does no harm.
_IDLE = (
    "nniManagerIp", "debug", "logLevel", "experimentWorkingDirectory", "tunerGpuIndices", "sharedStorage",
    "multiThread", "versionCheck", "logCollection", "nasMode",
)  # fmt: skip
#: Types of parameters that have no end of values.
_CONTINUOUS = frozenset({"uniform", "loguniform", "normal", "lognormal"})


def from_nni(content: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The same as the mapping of a search's file; `directory` is where the experiment's file lies. ``notes`` in it is a
    list of what a person should be told: what was chosen because nothing was written, and what is different here.

    InvalidInput names the key as it is written, and what to write instead."""
    experiment, services = read_experiment(content)
    notes: list[str] = []
    _refuse(experiment)
    code = _code(experiment, services, directory)
    tuner, stopper, goal = _algorithms(experiment, code, directory, notes)
    places = places_of(services, notes)
    runs = experiment.whole("maxTrialNumber")
    space = _with_budget(_space(experiment, directory), tuner)
    search = {
        "space": space, "sampler": {"name": tuner.name, **_sampler_options(tuner, space, runs)}, goal: OBJECTIVE,
        "of": "last", "runs": runs, "max-time": _seconds(experiment, "maxExperimentDuration"), "seed": tuner.seed,
        "stopper": None if stopper is None else {"name": stopper.name, **stopper.options},
    }  # fmt: skip
    found: dict[str, Any] = {
        "command": ["bash", "-c", _command(experiment, services)], "code": str(code),
        "target": ",".join(place.name for place in places),
        "experiment": _label(experiment, notes), "concurrent": _concurrent(experiment),
        **gpus_of(experiment, services, places, notes),
    }  # fmt: skip
    _limit_trials(experiment, found, search, notes)
    _limit_search(search, notes)
    idle = [experiment.where(name) for name in _IDLE if name in experiment]
    if idle:
        notes.append(f"{', '.join(idle)}: this has no meaning here and is left out")
    told = {key: value for key, value in search.items() if value is not None}
    return {**_given(found), "search": {**told, "prefix": None}, "notes": [*tuner.notes, *notes]}


def _given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}


def _refuse(experiment: Written) -> None:
    """What there is no way to do."""
    if experiment.get("experimentType") not in (None, "hpo"):
        raise InvalidInput(f"{experiment.where('experimentType')}: only hpo is done here", hint="write hpo")
    if experiment.flag("multiPhase"):
        hint = "let each trial call nni.get_next_parameter() once, and leave it out"
        raise InvalidInput(f"{experiment.where('multiPhase')}: NNI itself gave it up in version 2", hint=hint)
    if experiment.flag("useAnnotation"):
        hint = "write a searchSpaceFile, and let the trial call nni.get_next_parameter()"
        raise InvalidInput(f"{experiment.where('useAnnotation')}: annotations in code are not read", hint=hint)


# --- what runs, and where ---------------------------------------------------------------------------------------------


def _concurrent(experiment: Written) -> int:
    found = experiment.whole("trialConcurrency")
    if found is None:
        raise InvalidInput("trialConcurrency: it is missing", hint="write how many trials may run at once")
    return found


def _command(experiment: Written, services: list[Written]) -> str:
    for each in (experiment, *services):
        if command := each.text("trialCommand"):
            return command
    where = experiment.where("trialCommand")
    raise InvalidInput(f"{where}: it is missing", hint="write what a trial does: python3 trial.py")


def _code(experiment: Written, services: list[Written], directory: Path) -> Path:
    for each in (experiment, *services):
        if (text := each.text("trialCodeDirectory")) is not None:
            return _directory(text, directory, each.where("trialCodeDirectory"))
    return directory


def _directory(text: str, directory: Path, where: str) -> Path:
    try:
        found = Path(os.path.normpath(directory / Path(text).expanduser()))
        if found.is_dir():
            return found
    except _NO_PATH:
        pass
    raise InvalidInput(f"{where}: there is no directory {text!r:.200}", hint=f"it is looked for from {directory}")


def _label(experiment: Written, notes: list[str]) -> str | None:
    """The experiment's name as a name here."""
    text = experiment.text("experimentName")
    if not text:
        return None
    label = as_label(text)
    if label != text:
        notes.append(f"{experiment.where('experimentName')}: it is called {label or 'default'} here")
    return label or None


# --- who proposes, and who ends trials --------------------------------------------------------------------------------


def _algorithms(
    experiment: Written, code: Path, directory: Path, notes: list[str]
) -> tuple[Chosen, Chosen | None, str]:
    """The sampler, the stopper, and which way is better."""
    tuner = _one(experiment, "tuner", code, directory) or _one(experiment, "advisor", code, directory)
    if tuner is None:
        raise InvalidInput("tuner: it is missing", hint="write `tuner: {name: TPE}`")
    stopper = _one(experiment, "assessor", code, directory)
    if tuner.stopper is not None and stopper is not None:
        hint = "leave the assessor out, or take TPE as the tuner"
        raise InvalidInput("assessor: this tuner ends trials itself", hint=hint)
    goal = _goal(tuner, stopper, notes)
    return tuner, stopper or tuner.stopper, goal


def _one(experiment: Written, kind: str, code: Path, directory: Path) -> Chosen | None:
    written = read_algorithm(experiment, kind)
    if written is None:
        return None
    args = written.mapping("classArgs") or {}
    name = written.text("name")
    if "className" in written:
        return names.own(_class_path(written, code, directory), args, kind)
    if name is None:
        raise InvalidInput(f"{kind}.name: it is missing", hint="write `name: TPE`" if kind != "assessor" else
                           "write `name: Medianstop`")  # fmt: skip
    return names.assessor(name, args, kind) if kind == "assessor" else names.tuner(name, args, kind)


def _class_path(written: Written, code: Path, directory: Path) -> str:
    """``DIRECTORY/package.module:Class``, the directory as it is among the trial's files; without one, an installed
    module."""
    class_name, where = written.text("className") or "", written.where("className")
    module, _, name = class_name.rpartition(".")
    if not all(each.isidentifier() for each in (*module.split("."), name)):
        raise InvalidInput(f"{where}: {class_name!r} is no module and class", hint="write module.Class")
    text = written.text("codeDirectory")
    holds = _directory(text or ".", directory, written.where("codeDirectory"))
    file = holds.joinpath(*module.split("."))
    if not _is_file(file.with_suffix(".py")) and not _is_file(file / "__init__.py"):
        if text is not None:
            raise InvalidInput(f"{where}: there is no module {module} in {holds}", hint="check codeDirectory")
        return f"{module}:{name}"
    if not holds.is_relative_to(code):
        hint = f"put it below {code}, which is what is frozen"
        raise InvalidInput(f"{where}: {holds} is not among the trial's files", hint=hint)
    inside = holds.relative_to(code).as_posix()
    return f"{module}:{name}" if inside == "." else f"{inside}/{module}:{name}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except _NO_PATH:
        return False


def _goal(tuner: Chosen, stopper: Chosen | None, notes: list[str]) -> str:
    """Both have to want the same: here, it belongs to the search."""
    if tuner.goal is None:
        if stopper is not None and stopper.goal is not None:
            return stopper.goal
        notes.append(f"{names.MODE}: it is not written; taken as maximize")
        return "maximize"
    if stopper is not None and stopper.is_said and stopper.goal != tuner.goal:
        hint = f"write `classArgs: {{{names.MODE}: {stopper.goal}}}` for the tuner as well, if that is meant"
        raise InvalidInput(f"assessor.classArgs.{names.MODE}: the tuner would {tuner.goal}", hint=hint)
    if not tuner.is_said:
        notes.append(f"tuner.classArgs.{names.MODE}: it is not written; this tuner takes it as {tuner.goal}")
    return tuner.goal


def _sampler_options(tuner: Chosen, space: Mapping[str, Any], runs: int | None) -> dict[str, Any]:
    """NNI's grid becomes finer for as long as it may go on. Here it is as fine as that from the start."""
    types = [each["_type"] for each in space.values()]
    endless = sum(each in _CONTINUOUS for each in types)
    if tuner.name != "grid" or not endless or runs is None:
        return tuner.options
    listed = math.prod(len(each["_value"]) for each in space.values() if each["_type"] == "choice")
    points = math.ceil((runs / max(1, listed)) ** (1 / endless))
    return {**tuner.options, "points": min(max(2, points), _MOST_POINTS)}


# --- how long ---------------------------------------------------------------------------------------------------------


def _limit_trials(experiment: Written, found: dict[str, Any], search: dict[str, Any], notes: list[str]) -> None:
    """A trial over its time is stopped early, in NNI; with an assessor, that is not to be had here."""
    limit = experiment.seconds("maxTrialDuration")
    if limit is None:
        return
    if search["stopper"] is None:
        search["stopper"] = {"name": "wall_time", "seconds": limit}
        return
    found["time"] = f"{limit}s"
    notes.append(f"{experiment.where('maxTrialDuration')}: with an assessor, a trial over its time fails here")


def _limit_search(search: dict[str, Any], notes: list[str]) -> None:
    sampler = search["sampler"]["name"]
    if search["runs"] is None and sampler == "batch":
        search["runs"] = sum(len(each["_value"]) for each in search["space"].values())
    elif search["runs"] is None and search["max-time"] is None and sampler != "grid":
        search["runs"] = _MOST_TRIALS
        notes.append(f"maxTrialNumber: it is not written; after {_MOST_TRIALS} trials there will be no more")


def _seconds(experiment: Written, name: str) -> str | None:
    found = experiment.seconds(name)
    return None if found is None else f"{found}s"


# --- what varies ------------------------------------------------------------------------------------------------------


def _space(experiment: Written, directory: Path) -> dict[str, Any]:
    file, inline = experiment.text("searchSpaceFile"), experiment.mapping("searchSpace")
    where = experiment.where("searchSpaceFile" if file is not None else "searchSpace")
    if (file is None) == (inline is None):
        hint = "write either searchSpace or searchSpaceFile"
        raise InvalidInput("there are two search spaces" if file else "there is no search space", hint=hint)
    content = inline if file is None else _content(directory, file, where)
    try:
        space = {str(name): _parameter(each, f"{file or where}: {name}") for name, each in (content or {}).items()}
    except RecursionError as error:
        raise InvalidInput(f"{where}: it has no end", hint="write no parameter inside of itself") from error
    if not space:
        raise InvalidInput(f"{where}: no parameter is in it", hint='write "lr": {"_type": "uniform", "_value": [0, 1]}')
    return space


def _content(directory: Path, file: str, where: str) -> Mapping[str, Any]:
    try:
        path = directory / Path(file).expanduser()
        if path.stat().st_size > _LARGEST_SPACE:
            raise InvalidInput(f"{where}: {path} is over 1 MB", hint="this does not look like a search space")
        text = path.read_text(encoding="utf-8-sig")
    except _NO_PATH as error:
        told = "it is not UTF-8 text" if isinstance(error, UnicodeError) else str(error)
        why = getattr(error, "strerror", None) or told
        raise InvalidInput(f"{where}: {file:.200} cannot be read: {why}", hint="check the path") from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = _yaml(text, path)
    if not isinstance(content, Mapping):
        raise InvalidInput(f"{path}: it has no names and values", hint="write JSON or YAML")
    return content


def _yaml(text: str, path: Path) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        why = getattr(error, "problem", None) or "it is neither JSON nor YAML"
        raise InvalidInput(f"{where}: {why}", hint="write JSON or YAML") from error


def _parameter(each: Any, where: str) -> dict[str, Any]:
    given = each if isinstance(each, Mapping) else {}
    if not isinstance(given.get("_type"), str) or not isinstance(given.get("_value"), list):
        hint = 'write {"_type": "choice", "_value": [1, 2]}'
        raise InvalidInput(f"{where}: it has no _type, or no list as _value", hint=hint)
    if each["_type"] == "choice":
        return {**each, "_value": [_choice(value, where) for value in each["_value"]]}
    return {**each, "_value": [_number(value) for value in each["_value"]]}


def _choice(value: Any, where: str) -> Any:
    """A value that brings parameters of its own has a name; those are a space again."""
    if not isinstance(value, Mapping) or "_name" not in value:
        return value
    inner = {name: each for name, each in value.items() if name != "_name"}
    return {"_name": value["_name"], **{key: _parameter(each, f"{where}.{key}") for key, each in inner.items()}}


def _number(value: Any) -> Any:
    """YAML takes ``1e-4`` for a text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _with_budget(space: dict[str, Any], tuner: Chosen) -> dict[str, Any]:
    return space if tuner.budget is None else {**space, BUDGET: {"_type": "choice", "_value": [tuner.budget]}}
