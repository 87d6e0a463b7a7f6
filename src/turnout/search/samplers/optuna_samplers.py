"""The samplers of Optuna, which is imported when one of them is made.

A study of Optuna, in memory, has a trial for each run: of those whose results were told, and of those under way, so
that proposals at the same time differ. Chance begins anew with each proposal, from the seed and the run's number.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from turnout.plugin.sampler import BadOption, Goal, Outcome, Proposal, Result, Sampler, Task
from turnout.search.options import Options
from turnout.search.samplers.libraries import need
from turnout.search.samplers.optuna_space import Outside, Raw, Tree

if TYPE_CHECKING:
    import optuna
    from optuna.trial import TrialState

_MANY = 100_000
_STEP = 1  # of the one value that a stopped run is known by
_KEPT, _ATTRIBUTES = "raw", "optuna"

#: Reads the option of that name; None where it is not given.
Read = Callable[[Options, str], object]


def _whole(least: int) -> Read:
    return lambda options, name: options.some_whole(name, least=least, most=_MANY)


def _flag(options: Options, name: str) -> object:
    return options.some_flag(name)


def _share(options: Options, name: str) -> object:
    return options.some_number(name, least=0.0, most=1.0)


class OptunaSampler(Sampler):
    """What they share. `needs` are libraries, by the names under which pip and Python know them; `options` go to
    Optuna's own sampler as they are; `keeps` are the beginnings of the names under which it leaves word for itself in a
    trial, which a later instance has to find there."""

    needs: ClassVar[tuple[str, ...]] = ("optuna",)
    options: ClassVar[Mapping[str, Read]] = {}
    keeps: ClassVar[tuple[str, ...]] = ()
    is_for_several: ClassVar[bool] = False
    """whether it can have several objectives"""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        given = Options(f"sampler {self.name}", task.options)
        read = {name: read(given, name) for name, read in self.options.items()}
        given.finish()
        self._check_objectives(task)
        need(self.name, self.needs)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._tree = Tree(task.space)
        self._storage = optuna.storages.InMemoryStorage()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some arguments are called experimental
            try:
                self._sampler = self.make({name: value for name, value in read.items() if value is not None})
            except (TypeError, ValueError) as error:
                raise BadOption(f"{self.name}: {error}") from error
        ways = {
            Goal.MINIMIZE: optuna.study.StudyDirection.MINIMIZE,
            Goal.MAXIMIZE: optuna.study.StudyDirection.MAXIMIZE,
        }
        directions = [ways[objective.goal] for objective in task.objectives]
        self._study = optuna.create_study(storage=self._storage, sampler=self._sampler, directions=directions)
        self._study_id = self._storage.get_study_id_from_name(self._study.study_name)
        self._count = 0
        """trials of the study; they are numbered from 0"""
        self._open: dict[int, tuple[int, Proposal]] = {}

    @abstractmethod
    def make(self, options: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
        """Optuna's own."""

    def ask(self, index: int) -> Proposal:
        if index not in self._open:
            random = Random(f"{self.task.seed}/{index}")
            _reseed(self._sampler, random.getrandbits(32))
            trial = self._study.ask()
            self._count += 1
            kept: dict[str, Any] = {}
            params = self._tree.suggest(trial, random, kept)
            self._open[index] = trial.number, Proposal(params, self._memo(trial.number, kept))
        return self._open[index][1]

    def tell(self, result: Result) -> None:
        from optuna.trial import TrialState

        opened = self._open.pop(result.index, None) if result.index is not None else None
        state, values = self._verdict(result)
        if opened is None:
            self._add(result.proposal, state, values)
            return
        if state is TrialState.PRUNED:
            self._storage.set_trial_intermediate_value(self._trial_id(opened[0]), _STEP, values[0])
        self._study.tell(opened[0], values if state is TrialState.COMPLETE else None, state)

    def adopt(self, index: int, proposal: Proposal) -> None:
        from optuna.trial import TrialState

        if index not in self._open and self._add(proposal, TrialState.RUNNING, []):
            self._open[index] = self._count - 1, proposal

    # --- within -------------------------------------------------------------------------------------------------------

    def _check_objectives(self, task: Task) -> None:
        if not task.objectives:
            raise BadOption(f"{self.name} needs an objective: say --minimize METRIC or --maximize METRIC")
        if len(task.objectives) > 1 and not self.is_for_several:
            raise BadOption(f"{self.name} takes one objective, not {len(task.objectives)}; use tpe or nsga2")

    def _verdict(self, result: Result) -> tuple[TrialState, list[float]]:
        """What a result is for Optuna, and the values that count."""
        from optuna.trial import TrialState

        values = [value for value in result.values if value is not None and not math.isnan(value)]
        is_over = result.outcome in (Outcome.COMPLETED, Outcome.STOPPED)
        if not is_over or len(values) != len(self.task.objectives):
            return TrialState.FAIL, []
        # With several objectives, Optuna knows of no trials that were ended early.
        is_pruned = result.outcome is Outcome.STOPPED and len(values) == 1
        return (TrialState.PRUNED if is_pruned else TrialState.COMPLETE), values

    def _add(self, proposal: Proposal, state: TrialState, values: list[float]) -> bool:
        """A trial that this instance did not make. False = it has no place in the space."""
        import optuna

        raw = Raw()
        memo = proposal.memo
        kept, attributes = memo.get(_KEPT, {}), memo.get(_ATTRIBUTES, {})
        try:
            self._tree.read(proposal.params, kept if isinstance(kept, Mapping) else {}, raw)
            trial = optuna.trial.create_trial(
                state=state, params=raw.params, distributions=raw.distributions,
                values=values if state is optuna.trial.TrialState.COMPLETE else None,
                value=values[0] if state is optuna.trial.TrialState.PRUNED else None,
                intermediate_values={_STEP: values[0]} if state is optuna.trial.TrialState.PRUNED else None,
                system_attrs=dict(attributes) if isinstance(attributes, Mapping) else {},
            )  # fmt: skip
        except (Outside, ValueError):
            return False
        self._study.add_trial(trial)
        self._count += 1
        return True

    def _memo(self, trial: int, kept: dict[str, Any]) -> dict[str, object]:
        memo: dict[str, object] = {_KEPT: kept} if kept else {}
        if self.keeps:
            attributes = self._storage.get_trial(self._trial_id(trial)).system_attrs
            if mine := {name: value for name, value in attributes.items() if name.startswith(self.keeps)}:
                memo[_ATTRIBUTES] = mine
        return memo

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)


class TpeSampler(OptunaSampler):
    """The tree-structured Parzen estimator: what the good runs have in common, and the others do not."""

    name = "tpe"
    is_for_several = True
    options = {
        "n_startup_trials": _whole(0), "n_ei_candidates": _whole(1), "multivariate": _flag, "group": _flag,
        "constant_liar": _flag,
    }  # fmt: skip

    def make(self, options: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
        import optuna

        return optuna.samplers.TPESampler(**{"constant_liar": True, **options}, seed=0)


class CmaEsSampler(OptunaSampler):
    """CMA-ES: a cloud of points that moves and changes its shape. For numbers; other values are drawn."""

    name = "cmaes"
    needs = ("optuna", "cmaes")
    keeps = ("cma", "sepcma", "x_for_tell")
    options = {
        "n_startup_trials": _whole(0), "popsize": _whole(2), "with_margin": _flag, "lr_adapt": _flag,
        "use_separable_cma": _flag,
    }  # fmt: skip

    def make(self, options: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
        import optuna

        return optuna.samplers.CmaEsSampler(**options, warn_independent_sampling=False, seed=0)


class GpSampler(OptunaSampler):
    """A Gaussian process, for few and costly runs."""

    name = "gp"
    needs = ("optuna", "scipy", "torch")
    is_for_several = True
    options = {"n_startup_trials": _whole(0), "deterministic_objective": _flag}

    def make(self, options: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
        import optuna

        return optuna.samplers.GPSampler(**options, warn_independent_sampling=False, seed=0)


class Nsga2Sampler(OptunaSampler):
    """NSGA-II: generations of parameters, for several objectives and many runs."""

    name = "nsga2"
    keeps = ("NSGAIISampler:", "nsga2:")
    is_for_several = True
    options = {
        "population_size": _whole(2), "mutation_prob": _share, "crossover_prob": _share,
        "swapping_prob": _share,
    }  # fmt: skip

    def make(self, options: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
        import optuna

        return optuna.samplers.NSGAIISampler(**options, seed=0)


def _reseed(sampler: Any, seed: int) -> None:
    """All chance of one of Optuna's samplers begins anew; those that it uses belong to it."""
    import numpy

    for part in vars(sampler).values():
        if isinstance(getattr(part, "rng", None), numpy.random.RandomState):
            part.rng.seed(seed)
        elif hasattr(part, "sample_independent"):
            _reseed(part, seed)
