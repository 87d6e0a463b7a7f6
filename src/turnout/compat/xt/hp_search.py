"""A class that was written for XT's ``HpSearchInterface`` as a sampler.

As in XT, an instance is made for each run that is about to be made, and told of all that are over, if it wants to be.
There is no store of XT's, and of its context what a search has: ``primary_metric``, ``maximize_metric`` and
``search_type``. Runs are called ``run.1``, ``run.2`` and so on: which of them becomes ``run7.1`` is known when a node
takes it.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

from turnout.compat.xt.calling import call
from turnout.compat.xt.hp_records import Record, to_records
from turnout.plugin.sampler import BadOption, Goal, Outcome, Proposal, Result, Sampler, Task

INTERFACE = "XT's HpSearchInterface"
METHODS = ("need_runs", "search")
#: How runs end whose metrics XT would hand over.
_OVER = (Outcome.COMPLETED, Outcome.STOPPED)


def lacking(found: object) -> list[str]:
    """The methods that a class lacks."""
    return [name for name in METHODS if not callable(getattr(found, name, None))]


class HpSearchSampler(Sampler):
    """`made` makes an instance, `path` is what it is called."""

    name = "xt"

    def __init__(self, task: Task, made: Callable[[], Any], path: str) -> None:
        super().__init__(task)
        if task.options:
            raise BadOption(f"{path} takes no options: XT has none for it", next(iter(task.options)))
        if len(task.objectives) > 1:
            raise BadOption(f"{path} takes one objective, not {len(task.objectives)}: XT has one metric")
        made()  # what it says against that is told before anything runs
        self._made, self._path = made, path
        self._records = to_records(task.space)
        self._runs: list[Record] = []
        self._open: dict[int, Proposal] = {}

    def ask(self, index: int) -> Proposal:
        if index not in self._open:
            self._seed(index)
            instance = self._made()
            runs = [dict(run) for run in self._runs] if instance.need_runs() else None
            self._open[index] = Proposal(self._read(self._search(instance, index, runs)))
        return self._open[index]

    def tell(self, result: Result) -> None:
        if result.index is not None:
            self._open.pop(result.index, None)
        if result.outcome in _OVER:
            number = len(self._runs) + 1
            name = f"run.{result.index}" if result.index is not None else f"imported.{number}"
            self._runs.append({"run_name": name, "end_id": number, "hparams": dict(result.proposal.params)})
            told = zip(self.task.objectives, result.values, strict=False)
            if metrics := {objective.metric: value for objective, value in told if value is not None}:
                self._runs[-1]["metrics"] = metrics

    def adopt(self, index: int, proposal: Proposal) -> None:
        self._open[index] = proposal

    # --- within -------------------------------------------------------------------------------------------------------

    def _search(self, instance: Any, index: int, runs: list[Record] | None) -> Any:
        """Under the names that XT's code has for arguments, or its document."""
        records = [dict(record) for record in self._records]
        given = {
            "run_name": f"run.{index}", "store": Store(), "context": Context(self.task, self._path),
            "hp_records": records, "runs": runs,
        }  # fmt: skip
        others = {"records": records, "cmd_parts": [], "config_text": _file_text(records)}
        taken = inspect.signature(instance.search).parameters
        return call(instance.search, given | {name: each for name, each in others.items() if name in taken})

    def _read(self, found: Any) -> dict[str, object]:
        if not isinstance(found, dict):
            raise TypeError(f"search gave {type(found).__name__}, not a dict of parameters")
        return {str(name): value.item() if hasattr(value, "item") else value for name, value in found.items()}

    def _seed(self, index: int) -> None:
        """The same search proposes the same, as far as its class takes its chances from Python or numpy."""
        random.seed(f"{self.task.seed}/{index}")
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(random.getrandbits(32))


class Context:
    """What of XT's context there is."""

    def __init__(self, task: Task, search_type: str) -> None:
        self.primary_metric = task.objectives[0].metric if task.objectives else None
        self.maximize_metric = bool(task.objectives) and task.objectives[0].goal is Goal.MAXIMIZE
        self.search_type = search_type

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"context.{name} is XT's own; here it has {', '.join(vars(self))}")


class Store:
    """In the place of XT's."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"store.{name}: there is no store of XT's here; `runs` has what the runs told")


def _file_text(records: list[Record]) -> str:
    """As an HP file would have it."""
    lines = [f"  {each['name']}: {_written(each['value'])}\n" for each in records]
    return "".join(["hyperparameter-distributions:\n", *lines])


def _written(value: str) -> str:
    return value if value.startswith("$") else f"[{value}]"
