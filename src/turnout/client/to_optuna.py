"""The results of a search as a study of Optuna, in a storage that its own tools can open."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnout.client.studied import Studied, Tried
from turnout.errors import Conflict, InvalidInput
from turnout.model.state import TERMINAL
from turnout.plugin.space import Choice, Normal, Parameter, Range
from turnout.search.spaces.containing import objection

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

#: What tells in a study of whom it is, and in a trial which run it was.
_JOB, _RUN = "turnout_job", "turnout_run"
_JOURNALS = (".log", ".journal")
_FARTHEST = 8.0  # deviations of a normal distribution, which Optuna does not have
_NEAR = 1e-9


def write(
    study: Studied, url: str, name: str | None = None, told: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """What is over and not in the study yet. InvalidInput for a storage that cannot be opened, Conflict for a study
    that is somebody else's. Broken off, it can be called again. `told` hears of trials done and in all."""
    study.objective(None)
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lists among choices, and what is called experimental
        try:
            return _write(study, _open(study, url, name or study.job), told)
        finally:
            optuna.logging.set_verbosity(verbosity)


def _write(study: Studied, theirs: optuna.Study, told: Callable[[int, int], None] | None) -> dict[str, Any]:
    known = {trial.user_attrs.get(_RUN) for trial in theirs.get_trials(deepcopy=False)}
    over = [each for each in study.tried if each.state in TERMINAL or each.state == "imported"]
    distributions = {
        name: _distribution(parameter, [each.flat[name] for each in study.tried if name in each.flat])
        for name, parameter in study.parameters.items()
    }
    new = [each for each in over if _identity(each) not in known]
    for number, each in enumerate(new, 1):
        theirs.add_trial(_trial(study, each, distributions))
        if told is not None:
            told(number, len(new))
    return {"job": study.job, "study": theirs.study_name, "added": len(new), "known": len(over) - len(new)}


def _open(study: Studied, url: str, name: str) -> optuna.Study:
    import optuna

    directions = [optuna.study.StudyDirection[aim.goal.upper()] for aim in study.aims]
    try:
        storage = _storage(url)
        theirs = optuna.create_study(storage=storage, study_name=name, directions=directions, load_if_exists=True)
    except InvalidInput:
        raise
    except Exception as error:  # Optuna lets through whatever the driver of a database raises
        why = str(error).partition("\n")[0]
        raise InvalidInput(f"Optuna cannot open {_harmless(url)}: {why}", hint="write sqlite:///study.db") from error
    mine = {"job": study.job, "space": hashlib.sha256(json.dumps(study.view["space"]).encode()).hexdigest()}
    if not theirs.get_trials(deepcopy=False) and _JOB not in theirs.user_attrs:
        theirs.set_user_attr(_JOB, mine)
    if theirs.user_attrs.get(_JOB) != mine or list(theirs.directions) != directions:
        raise Conflict(f"study {name!r} is there, and it is not of {study.job}", hint="choose a name: --study NAME")
    return theirs


def _storage(url: str) -> Any:
    """``sqlite:///FILE`` and other databases; ``journal:///FILE``, or a file that ends so."""
    parts = urlsplit(url)
    if parts.scheme == "journal" or (not parts.scheme and Path(url).suffix in _JOURNALS):
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        file = Path(parts.path.removeprefix("/") if parts.scheme else url)
        _check_folder(file)
        return JournalStorage(JournalFileBackend(str(file)))
    if not parts.scheme or "://" not in url:
        hint = "write sqlite:///study.db, postgresql://…, or journal:///study.log"
        raise InvalidInput(f"{url!r} is no storage of Optuna", hint=hint)
    if parts.scheme.startswith("sqlite"):
        _check_folder(Path(parts.path.removeprefix("/")))
    return url


def _check_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise InvalidInput(f"there is no directory {str(file.parent)!r}", hint="make it first, or choose another")


def _harmless(url: str) -> str:
    """Without a password."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":…@") if parts.password else url


def _trial(study: Studied, each: Tried, distributions: dict[str, BaseDistribution]) -> optuna.trial.FrozenTrial:
    from optuna.trial import FrozenTrial, TrialState

    values = [value for value in each.values if value is not None]
    state = TrialState.FAIL
    if each.state in ("completed", "stopped", "imported") and len(values) == len(study.aims):
        state = TrialState.PRUNED if each.state == "stopped" and len(values) == 1 else TrialState.COMPLETE
    is_within = objection(study.space, each.params) is None
    attributes = {_RUN: _identity(each), "state": each.state, "target": each.target}
    ended = _local(each.ended) or datetime.now()
    return FrozenTrial(
        number=-1, trial_id=-1, state=state, value=None, values=values if state is TrialState.COMPLETE else None,
        datetime_start=_local(each.started) or ended, datetime_complete=ended,
        params=each.flat if is_within else {},
        distributions={name: distributions[name] for name in each.flat} if is_within else {},
        user_attrs=attributes if is_within else {**attributes, "params": each.params}, system_attrs={},
        intermediate_values={0: values[0]} if state is TrialState.PRUNED else {},
    )  # fmt: skip


def _identity(each: Tried) -> str:
    """The same for the same run, or for the same result that was brought in."""
    if each.run is not None:
        return f"{each.run} {each.started}"
    return hashlib.sha256(json.dumps([each.params, each.values], sort_keys=True).encode()).hexdigest()


def _local(text: str | None) -> datetime | None:
    """As Optuna has times: of this place, and without saying so."""
    return None if text is None else datetime.fromisoformat(text).astimezone().replace(tzinfo=None)


def _distribution(parameter: Parameter, seen: Sequence[Any]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Choice):
        return CategoricalDistribution(parameter.values)  # type: ignore[arg-type]
    if isinstance(parameter, Normal):
        return FloatDistribution(*_bounds(parameter, seen), log=parameter.log and all(each > 0 for each in seen))
    if parameter.whole:
        return IntDistribution(
            int(parameter.low), int(parameter.high), log=parameter.log, step=int(_step(parameter) or 1)
        )
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=_step(parameter))


def _bounds(parameter: Normal, seen: Sequence[float]) -> tuple[float, float]:
    from math import exp

    reach = _FARTHEST * parameter.deviation
    low, high = parameter.mean - reach, parameter.mean + reach
    if parameter.log:
        low, high = exp(max(low, -700.0)), exp(min(high, 700.0))
    return min([low, *seen]), max([high, *seen])


def _step(parameter: Range) -> float | None:
    """Where it means the same to Optuna: multiples of it that begin at the lower bound."""
    step = parameter.step
    if step is None or parameter.log or (parameter.whole and step != int(step)):
        return None
    is_even = all(abs(bound / step - round(bound / step)) < _NEAR for bound in (parameter.low, parameter.high))
    return step if is_even else None
