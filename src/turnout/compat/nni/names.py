"""NNI's tuners and assessors by their names: which sampler or stopper does the same, and what arguments are there.

``optimize_mode`` is a trap: what it is when it is not written differs from tuner to tuner. The tables have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnout.errors import InvalidInput
from turnout.model.likeness import instead_of

MODE = "optimize_mode"
_SEED = "seed"
_GOALS = ("minimize", "maximize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A sampler or stopper with its options. `goal` is which way is better, None = it does not matter to it; `is_said`:
    because it is written. `stopper` comes with a tuner that ends trials itself, which are told a `budget`."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    goal: str | None = None
    is_said: bool = False
    seed: int | None = None
    stopper: Chosen | None = None
    budget: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """`goal`: if none is written. `options`: each argument, and what it is called here; "" = it has no meaning here.
    `fixed` are options that make it what it is in NNI."""

    name: str
    goal: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


_TPE_ARGS = {
    "n_startup_jobs": "n_startup_trials", "n_ei_candidates": "n_ei_candidates", "constant_liar_type": "",
    "linear_forgetting": "", "prior_weight": "", "gamma": "",
}  # fmt: skip
_HYPERBAND = {"R": "", "eta": "", "exec_mode": ""}
_BOHB = dict.fromkeys((
    "min_budget", "max_budget", "eta", "min_points_in_model", "top_n_percent", "num_samples", "random_fraction",
    "bandwidth_factor", "min_bandwidth", "config_space",
), "")  # fmt: skip
TUNERS = {
    "TPE": _Known(name="tpe", goal="minimize", options={"tpe_args": "", **_TPE_ARGS}),
    "TPE_legacy": _Known(name="tpe", goal="minimize", options={"parallel_optimize": "", "constant_liar_type": ""}),
    "Random": _Known(name="random"),
    "GridSearch": _Known(name="grid"),
    "Batch": _Known(name="batch"),
    "Evolution": _Known(name="nsga2", goal="maximize", options={"population_size": "population_size"},
                        fixed={"population_size": 32}),
    "GP": _Known(name="gp", goal="maximize", options={"cold_start_num": "n_startup_trials", **dict.fromkeys((
        "utility", "kappa", "xi", "nu", "alpha", "selection_num_warm_up", "selection_num_starting_points"), "")}),
    "Hyperband": _Known(name="random", goal="maximize", options=_HYPERBAND),
    "BOHB": _Known(name="tpe", goal="maximize", options=_BOHB),
}  # fmt: skip
#: What another tool's user may call them.
_ALIASES = {"BatchTuner": "Batch", "GPTuner": "GP"}
_HPO = "nni.algorithms.hpo"
#: Those that nothing here does the work of: why, what to write instead, and the class, where it can be used as it is.
_OTHERS = {
    "Anneal": ("there is no annealing here", "TPE", f"{_HPO}.hyperopt_tuner.HyperoptTuner"),
    "SMAC": ("its random forests are not here", "TPE or GP", f"{_HPO}.smac_tuner.SMACTuner"),
    "Metis": ("it is NNI's own", "GP", f"{_HPO}.metis_tuner.MetisTuner"),
    "DNGO": ("its networks are not here", "GP", f"{_HPO}.dngo_tuner.DNGOTuner"),
    "PBT": ("trials take over each other's checkpoints in it", "TPE, with the assessor Medianstop", ""),
    "PPO": ("it searches architectures", "TPE or Evolution", ""),
    "NetworkMorphism": ("it searches architectures", "TPE or Evolution", ""),
    "RegularizedEvolutionTuner": ("it searches architectures", "Evolution", ""),
}
ASSESSORS = {
    "Medianstop": _Known(name="median", goal="maximize", options={"start_step": "start"}, fixed={"min_runs": 1}),
    "Curvefitting": _Known(
        name="curve", goal="maximize",
        options={"epoch_num": "epochs", "start_step": "start", "threshold": "threshold", "gap": "gap"},
        fixed={"epochs": 19, "start": 5},
    ),
}  # fmt: skip
#: Counted from 1 in NNI, which counts values; here it is a step, and the first step of a trial is 0.
_COUNTED = ("epoch_num", "start_step")


def tuner(name: str, args: Mapping[str, Any], where: str = "tuner") -> Chosen:
    """InvalidInput for one that is not known, or that nothing here does the work of, with what to write instead."""
    found = _find(name, TUNERS, f"{where}.name", "tuner")
    known = TUNERS[found]
    inner = args.get("tpe_args") or {}
    if not isinstance(inner, Mapping):
        raise InvalidInput(f"{where}.classArgs.tpe_args: it has no keys and values", hint="known: n_startup_jobs, …")
    _check(found, known, {**args, **inner}, where)
    given = {**{key: value for key, value in args.items() if key != "tpe_args"}, **inner}
    chosen = _chosen(found, known, given, where)
    return _with_brackets(chosen, found, given, where) if found in ("Hyperband", "BOHB") else chosen


def assessor(name: str, args: Mapping[str, Any], where: str = "assessor") -> Chosen:
    """InvalidInput as `tuner`."""
    found = _find(name, ASSESSORS, f"{where}.name", "assessor")
    known = ASSESSORS[found]
    _check(found, known, args, where)
    counted = {key: max(0, value - 1) for key, value in args.items() if key in _COUNTED and type(value) is int}
    return _chosen(found, known, {**args, **counted}, where)


def own(path: str, args: Mapping[str, Any], where: str) -> Chosen:
    """A tuner or assessor of somebody's own, by its path: it is used as it is, with its own arguments."""
    goal = _goal(args, where)
    return Chosen(name=path, options=dict(args), goal=goal, is_said=goal is not None)


def _find(name: str, table: Mapping[str, _Known], where: str, kind: str) -> str:
    """The name as the table has it. NNI does not care for case."""
    names = {each.lower(): each for each in (*table, *_OTHERS)} | {key.lower(): _ALIASES[key] for key in _ALIASES}
    found = names.get(name.lower()) or names.get(name.lower().removesuffix("tuner"))
    if found is not None and found in table:
        return found
    if found is None or kind != "tuner":
        raise InvalidInput(f"{where}: NNI has no {kind} {name!r}", hint=instead_of(name, table))
    why, instead, path = _OTHERS[found]
    also = f"; with NNI installed beside turnout, `className: {path}` uses NNI's own" if path else ""
    raise InvalidInput(f"{where}: {found} has no sampler here: {why}", hint=f"write {instead}{also}")


def _check(name: str, known: _Known, args: Mapping[str, Any], where: str) -> None:
    allowed = {MODE, *known.options} | ({_SEED} if known.name in ("tpe", "random") else set())
    for key in args:
        if key not in allowed:
            hint = instead_of(str(key), allowed)
            raise InvalidInput(f"{where}.classArgs.{key}: {name} has no such argument", hint=hint)


def _chosen(name: str, known: _Known, args: Mapping[str, Any], where: str) -> Chosen:
    seed = args.get(_SEED)
    if seed is not None and type(seed) is not int:
        hint = "write a number, or leave it out"
        raise InvalidInput(f"{where}.classArgs.seed: {seed!r} is no whole number", hint=hint)
    said = _goal(args, where)
    given = {known.options[key]: value for key, value in args.items() if known.options.get(key) and value is not None}
    lost = sorted(key for key in args if key in known.options and not known.options[key] and key not in _BUDGETS)
    notes = (f"{where}: {', '.join(lost)} of {name} have no meaning for {known.name} and are left out",) if lost else ()
    return Chosen(
        name=known.name, options={**known.fixed, **given}, goal=said or known.goal, is_said=said is not None, seed=seed,
        notes=notes,
    )  # fmt: skip


#: Arguments that say how long trials go on.
_BUDGETS = ("R", "eta", "exec_mode", "min_budget", "max_budget")


def _with_brackets(chosen: Chosen, name: str, args: Mapping[str, Any], where: str) -> Chosen:
    """Hyperband and BOHB start trials again with a larger budget. Here each has the largest, and is stopped before."""
    top, bottom = ("R", None) if name == "Hyperband" else ("max_budget", "min_budget")
    budget = args.get(top, 60 if name == "Hyperband" else 3)
    options = {"max_resource": budget, "eta": args.get("eta", 3)}
    if bottom is not None:
        options["min_resource"] = args.get(bottom, 1)
    for key, value in options.items():
        if type(value) is not int or not 1 <= value < 1 << 53:
            hint = "write a whole number: the results that a trial reports"
            raise InvalidInput(f"{where}.classArgs: {key.removesuffix('_resource')} {value!r} cannot be", hint=hint)
    note = (
        f"{where}: each trial has the whole budget (TRIAL_BUDGET is {budget}) and is stopped before its end if others "
        f"are better; one result is taken for one of budget"
    )
    stopper = Chosen(name="hyperband", options=options, goal=chosen.goal)
    return Chosen(
        name=chosen.name, options=chosen.options, goal=chosen.goal, is_said=chosen.is_said, seed=chosen.seed,
        stopper=stopper, budget=budget, notes=(*chosen.notes, note),
    )  # fmt: skip


def _goal(args: Mapping[str, Any], where: str) -> str | None:
    goal = args.get(MODE)
    if goal is not None and goal not in _GOALS:
        raise InvalidInput(f"{where}.classArgs.{MODE}: {goal!r} is none", hint="write maximize or minimize")
    return goal
