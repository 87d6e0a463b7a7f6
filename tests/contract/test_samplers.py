"""Every sampler keeps every promise of the contract."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import ClassVar

import pytest

from turnout.plugin.sampler import Goal, Objective, Sampler, Task
from turnout.plugin.space import Range, Space
from turnout.search.samplers.dgd import DgdSampler
from turnout.search.samplers.grid import GridSampler
from turnout.search.samplers.optuna_samplers import CmaEsSampler, GpSampler, Nsga2Sampler, TpeSampler
from turnout.search.samplers.qmc import QmcSampler
from turnout.search.samplers.random import RandomSampler
from turnout.testing.sampling import DISCRETE, SamplerContract

SEVERAL = (Objective("loss"), Objective("accuracy", Goal.MAXIMIZE))


class Contract(SamplerContract):
    kind: ClassVar[type[Sampler]]

    def make_sampler(self, task: Task) -> Sampler:
        return self.kind(task)


class TestRandom(Contract):
    kind = RandomSampler


class TestGrid(Contract):
    kind = GridSampler
    bad_options: ClassVar[Mapping[str, object]] = {"points": 0}


class TestGridShuffled(Contract):
    kind = GridSampler
    space = DISCRETE
    options: ClassVar[Mapping[str, object]] = {"shuffle": True, "points": 3}


class TestDgd(Contract):
    kind = DgdSampler
    space = DISCRETE


class TestTpe(Contract):
    kind = TpeSampler
    bad_options: ClassVar[Mapping[str, object]] = {"n_startup_trials": "many"}


class TestTpeOfSeveralObjectives(Contract):
    kind = TpeSampler
    objectives = SEVERAL


class TestTpeWithoutLies(Contract):
    kind = TpeSampler
    options: ClassVar[Mapping[str, object]] = {"constant_liar": False, "n_startup_trials": 3}


class TestCmaEs(Contract):
    kind = CmaEsSampler
    options: ClassVar[Mapping[str, object]] = {"popsize": 4}


class TestNsga2(Contract):
    kind = Nsga2Sampler
    objectives = SEVERAL
    options: ClassVar[Mapping[str, object]] = {"population_size": 6}
    repeats = "Optuna has the parents of a generation in another order when it meets them again"


class TestQmc(Contract):
    kind = QmcSampler


@pytest.mark.slow
class TestGp(Contract):
    kind = GpSampler
    space: ClassVar[Space] = {"x": Range(0, 1), "n": Range(1, 9, whole=True)}  # it takes its time for more
    options: ClassVar[Mapping[str, object]] = {"n_startup_trials": 2}
    runs = 4
    most = 4
    repeats = "it begins with what it found the last time"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def torch(cls) -> None:
        """Where `CI` is set nothing may be left out."""
        if find_spec("torch") is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)("torch is not installed (pip install torch)")
