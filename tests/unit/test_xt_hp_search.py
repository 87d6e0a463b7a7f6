"""Classes of XT's for searches: what they are told of parameters and runs, and what there is not."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnout.compat.xt.hp_records import to_records
from turnout.compat.xt.hp_search import HpSearchSampler, lacking
from turnout.compat.xt.stochastic import sample
from turnout.plugin.sampler import BadOption, Goal, Objective, Outcome, Proposal, Result, Task
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range, Space
from turnout.search.spaces.containing import objection
from turnout.search.spaces.functions import ANY_SEED
from turnout.testing import SamplerContract
from turnout.testing.sampling import SPACE as SPACE_OF_ALL

SPACE: Space = {"x": Choice((0.25, 0.5, 1.0)), "n": Range(1, 8, whole=True)}
GAIN = (Objective("gain", Goal.MAXIMIZE),)


class Noting:
    """Keeps what it is told, and proposes what it is told to."""

    seen: list[dict[str, Any]]
    answer: Any
    needs: bool

    def need_runs(self) -> bool:
        return self.needs

    def search(self, run_name: str, store: Any, context: Any, hp_records: Any, runs: Any) -> Any:
        self.seen.append(
            {"run_name": run_name, "store": store, "context": context, "hp_records": hp_records, "runs": runs}
        )
        return self.answer


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    for name, value in (("seen", seen), ("answer", {"x": 0.5}), ("needs", True)):
        monkeypatch.setattr(Noting, name, value, raising=False)
    return seen


def sampler(made: Callable[[], Any] = Noting, **task: Any) -> HpSearchSampler:
    return HpSearchSampler(Task(**{"space": SPACE, "objectives": GAIN, **task}), made, "mine.search:Noting")


def result(index: int | None, outcome: Outcome = Outcome.COMPLETED, value: float | None = 1.0) -> Result:
    return Result(index, Proposal({"x": 0.5, "n": 3}), outcome, (value,))


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (Choice((0.01, 0.03)), "0.01, 0.03"),
        (Choice((" adam", "sgd", True, None)), "adam, sgd, True, None"),
        (Choice((20,)), "20"),
        (ANY_SEED, "$randint()"),
        (Range(0, 9, whole=True), "$randint(10)"),
        (Range(1, 8, whole=True), "$randint(1, 9)"),
        (Range(0.5, 2.0), "$uniform(0.5, 2.0)"),
        (Range(0.5, 2.0, step=0.5), "$quniform(0.5, 2.0, 0.5)"),
        (Range(1.0, 1.0, log=True), "$loguniform(0.0, 0.0)"),
        (Range(1.0, 1.0, log=True, step=0.5), "$qloguniform(0.0, 0.0, 0.5)"),
        (Range(1, 1, log=True, whole=True), "$qloguniform(0.0, 0.0, 1)"),
        (Normal(0, 2), "$normal(0, 2)"),
        (Normal(0, 2, log=True), "$lognormal(0, 2)"),
        (Normal(0, 2, step=1), "$qnormal(0, 2, 1)"),
        (Normal(0, 2, log=True, step=1), "$qlognormal(0, 2, 1)"),
    ],
)
def test_parameters_as_an_hp_file_has_them(parameter: Parameter, text: str) -> None:
    (record,) = to_records({"p": parameter})
    assert (record["name"], record["value"]) == ("p", text)


def test_parameters_within_a_choice_are_refused() -> None:
    with pytest.raises(BadOption, match="no parameters within a choice, as 'head' has"):
        to_records({"head": Choice(("a", Branch("b")))})


def test_a_space_function_can_be_drawn_from() -> None:
    random.seed(3)
    drawn = [sample(record["space_func"]) for record in to_records(SPACE) for _ in range(20)]
    assert all(objection({"x": SPACE["x"]}, {"x": value}) is None for value in drawn[:20])
    assert all(objection({"n": SPACE["n"]}, {"n": value}) is None for value in drawn[20:])
    random.seed(3)
    assert [sample(record["space_func"]) for record in to_records(SPACE) for _ in range(20)] == drawn


def test_an_instance_is_made_for_each_run_and_told_of_those_that_are_over(told: list[dict[str, Any]]) -> None:
    made = sampler()
    assert made.ask(1) == made.ask(1) == Proposal({"x": 0.5}) and len(told) == 1
    for number, outcome, value in (
        (1, Outcome.COMPLETED, 0.5), (2, Outcome.FAILED, 0.7), (3, Outcome.STOPPED, 0.9), (4, Outcome.COMPLETED, None),
        (None, Outcome.COMPLETED, 2.0), (5, Outcome.CANCELLED, None),
    ):  # fmt: skip
        made.tell(result(number, outcome, value))
    made.ask(6)
    assert told[0]["runs"] == [] and told[1]["run_name"] == "run.6"
    hparams = {"x": 0.5, "n": 3}
    assert told[1]["runs"] == [
        {"run_name": "run.1", "end_id": 1, "hparams": hparams, "metrics": {"gain": 0.5}},
        {"run_name": "run.3", "end_id": 2, "hparams": hparams, "metrics": {"gain": 0.9}},
        {"run_name": "run.4", "end_id": 3, "hparams": hparams},
        {"run_name": "imported.4", "end_id": 4, "hparams": hparams, "metrics": {"gain": 2.0}},
    ]


def test_who_needs_no_runs_gets_none(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noting, "needs", False)
    made = sampler()
    made.tell(result(1))
    made.ask(2)
    assert told[0]["runs"] is None


def test_of_the_context_there_is_what_a_search_has_and_no_store(told: list[dict[str, Any]]) -> None:
    sampler().ask(1)
    sampler(objectives=()).ask(1)
    context = told[0]["context"]
    assert (context.primary_metric, context.maximize_metric) == ("gain", True)
    assert context.search_type == "mine.search:Noting"
    assert (told[1]["context"].primary_metric, told[1]["context"].maximize_metric) == (None, False)
    with pytest.raises(AttributeError, match=r"context.mongo_conn_str is XT's own; here it has primary_metric"):
        context.mongo_conn_str  # noqa: B018
    with pytest.raises(AttributeError, match=r"store.get_all_runs: there is no store of XT's here"):
        told[0]["store"].get_all_runs()


class AsDocumented:
    """The arguments that XT's document has, and its code has not."""

    def need_runs(self) -> bool:
        return False

    def search(
        self, run_name: str, cmd_parts: Any, store: Any, context: Any, records: Any, runs: Any, config_text: str
    ) -> dict[str, Any]:
        assert [each["name"] for each in records] == ["x", "n"] and cmd_parts == []
        return {"text": config_text}


def test_the_arguments_of_its_document_are_given_too() -> None:
    text = "hyperparameter-distributions:\n  x: [0.25, 0.5, 1.0]\n  n: $randint(1, 9)\n"
    assert sampler(AsDocumented).ask(1).params == {"text": text}


def test_numbers_of_numpy_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy

    monkeypatch.setattr(Noting, "answer", {"x": numpy.float64(0.5), "n": numpy.int64(3)})
    assert {type(value) for value in sampler().ask(1).params.values()} == {float, int}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"options": {"a": 1}}, "mine.search:Noting takes no options"),
        ({"objectives": (Objective("a"), Objective("b"))}, "takes one objective, not 2"),
    ],
)
def test_what_it_cannot_do_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        sampler(**task)


def test_an_answer_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noting, "answer", [1])
    with pytest.raises(TypeError, match="search gave list, not a dict of parameters"):
        sampler().ask(1)


def test_which_methods_a_class_lacks() -> None:
    assert lacking(Noting) == [] and lacking(object) == ["need_runs", "search"]


class Drawing:
    def need_runs(self) -> bool:
        return True

    def search(self, run_name: str, store: Any, context: Any, hp_records: Any, runs: Any) -> dict[str, Any]:
        return {each["name"]: sample(each["space_func"]) for each in hp_records}


class TestContract(SamplerContract):
    """What any sampler has to do, as far as XT's classes know the space."""

    space = {name: each for name, each in SPACE_OF_ALL.items() if name != "layer"}

    def make_sampler(self, task: Task) -> HpSearchSampler:
        return HpSearchSampler(task, Drawing, "mine:Drawing")


def test_the_alias_gives_way_to_the_real_hyperopt(tmp_path: Path) -> None:
    code = (
        "from turnout.compat import aliases; aliases.install(); import hyperopt.pyll.stochastic as s; print(s.sample)"
    )
    ours = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "function sample" in ours.stdout
    (tmp_path / "hyperopt" / "pyll").mkdir(parents=True)
    for name in ("hyperopt/__init__.py", "hyperopt/pyll/__init__.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "hyperopt" / "pyll" / "stochastic.py").write_text("sample = 'the real one'\n")
    real = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert real.stdout == "the real one\n"
