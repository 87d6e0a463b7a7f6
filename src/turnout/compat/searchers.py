"""Samplers and stoppers by their paths: ours as they are; with ours around them, tuners and assessors of NNI, and XT's
classes for searches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from turnout.compat.nni import assessors, tuners
from turnout.compat.xt import hp_search
from turnout.plugin.provider import Failure
from turnout.plugin.sampler import BadOption, Exhausted, Goal, Objective, Result, Sampler, Task
from turnout.plugin.searching import Adopted, Asked, Ended, Forgotten, Manners, Searcher
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.search.spaces.plain import from_plain


class HostedSearcher:
    """An instance in this process, with the methods of `turnout.plugin.searching`. Each but `introduce` takes how many
    calls came before it; Forgotten when that is not so."""

    def __init__(self, made: Sampler | Stopper) -> None:
        self._made = made
        self._calls = 0

    def introduce(self) -> Manners:
        return Manners(ahead=getattr(self._made, "ahead", 1), every=getattr(self._made, "every", None))

    def ask(self, calls: int, index: int) -> Asked:
        sampler = self._sampler(calls)
        try:
            return Asked(sampler.ask(index))
        except Exhausted:
            return Asked(exhausted=True)

    def tell(self, calls: int, results: Sequence[Result]) -> None:
        sampler = self._sampler(calls)
        for result in results:
            sampler.tell(result)

    def adopt(self, calls: int, adopted: Sequence[Adopted]) -> None:
        sampler = self._sampler(calls)
        for index, proposal in adopted:
            sampler.adopt(index, proposal)

    def judge(self, calls: int, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return self._stopper(calls).judge(run, points, seconds)

    def ended(self, calls: int, ended: Sequence[Ended]) -> None:
        stopper = self._stopper(calls)
        for run, points, outcome in ended:
            stopper.ended(run, points, outcome)

    def _sampler(self, calls: int) -> Sampler:
        self._count(calls)
        assert isinstance(self._made, Sampler)
        return self._made

    def _stopper(self, calls: int) -> Stopper:
        self._count(calls)
        assert isinstance(self._made, Stopper)
        return self._made

    def _count(self, calls: int) -> None:
        if calls != self._calls:
            raise Forgotten
        self._calls += 1


def make(searcher: Searcher) -> HostedSearcher:
    """An instance of its class. Failure (rejected) tells why there is none; what was raised is its cause."""
    found = _load(searcher.path)
    try:
        return HostedSearcher((_make_sampler if searcher.kind == "sampler" else _make_stopper)(found, searcher))
    except Failure:
        raise
    except BadOption as error:
        raise Failure(str(error), kind="rejected") from error
    except Exception as error:
        raise Failure(f"{searcher.path} cannot be made: {type(error).__name__}: {error}", kind="rejected") from error


def _make_sampler(found: Any, searcher: Searcher) -> Sampler:
    task = searcher.task
    made_for = Task(from_plain(task["space"]), _objectives(searcher), task["seed"], task["options"])
    if isinstance(found, type) and issubclass(found, Sampler):
        return found(made_for)
    lacks = hp_search.lacking(found)
    if not lacks:
        return hp_search.HpSearchSampler(made_for, found, searcher.path)
    no_tuner = tuners.lacking(found)
    if len(lacks) < len(hp_search.METHODS) and len(no_tuner) > len(tuners.METHODS):  # it has nothing of a tuner
        what = f"{searcher.path} has not all methods of {hp_search.INTERFACE}: {', '.join(lacks)}"
        raise Failure(what, kind="rejected")
    _check(no_tuner, searcher, "turnout.plugin.sampler.Sampler", "a tuner of NNI")
    return tuners.tuner_sampler(found, made_for)


def _make_stopper(found: Any, searcher: Searcher) -> Stopper:
    watch = Watch(_objectives(searcher)[0], searcher.task["options"])
    if isinstance(found, type) and issubclass(found, Stopper):
        return found(watch)
    _check(assessors.lacking(found), searcher, "turnout.plugin.stopper.Stopper", "an assessor of NNI")
    return assessors.assessor_stopper(found, watch)


def _objectives(searcher: Searcher) -> tuple[Objective, ...]:
    return tuple(Objective(metric, Goal(goal)) for metric, goal in searcher.task["objectives"])


def _check(lacking: Sequence[str], searcher: Searcher, ours: str, theirs: str) -> None:
    if lacking:
        what = f"{searcher.path} is neither a subclass of {ours} nor {theirs}: it has no {', '.join(lacking)}"
        raise Failure(what, kind="rejected")


def _load(path: str) -> Callable[..., Any]:
    """The class of ``[DIRECTORY/]package.module:Class``; the directory is looked for in the current one."""
    place, _, name = path.rpartition(":")
    directory, _, module = place.rpartition("/")
    where = os.path.join(os.getcwd(), directory)
    if where not in sys.path:
        sys.path.insert(0, where)
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except AttributeError as error:
        raise Failure(f"there is no class {name} in {place}", kind="rejected") from error
    except Exception as error:
        raise Failure(f"{place} cannot be imported: {type(error).__name__}: {error}", kind="rejected") from error
    return found
