"""``when:`` of a step: runs that are left out at once, and those that are decided about when others are over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
import yaml

from turnout.errors import InvalidInput
from turnout.model.pipeline import SKIPPED, Gate
from turnout.pipeline import languages
from turnout.pipeline.native import plan, read
from turnout.pipeline.plan import Left, Plan, Skipped, StepPlan

TRAIN = "train: {command: 'train {lr}', matrix: {lr: [1, 2]}, outputs: 'm/{lr}'}"
ONE = "train: {command: train, outputs: m}"
GOOD = Left(
    label="lr=1", values={"lr": 1}, files=("m/1",), came_to={"acc": 0.9, "metrics.acc": 0.9, "state": "completed"}
)
POOR = Left(
    label="lr=2", values={"lr": 2}, files=("m/2",), came_to={"acc": 0.5, "metrics.acc": 0.5, "state": "completed"}
)


def planned(*steps: str) -> Plan:
    return plan(read({"steps": yaml.safe_load("\n".join(steps))}, "p.yaml"), lambda pattern: [])


def step_of(found: Plan, name: str) -> StepPlan:
    (step,) = (each for each in found.steps if each.name == name)
    return step


def look(step: StepPlan, left: Mapping[str, Sequence[Left]], run: int = 0) -> str:
    """The command of one of its runs, when those are over that it waited for."""
    assert step.late is not None and step.gate
    late = languages.late_from(json.loads(json.dumps(step.late.plain())))
    argv = late.at_gate(left)(step.runs[run].values)
    return (argv or step.runs[run].argv)[-1]


def test_a_filter_on_values_leaves_runs_out_at_once() -> None:
    found = planned("a: {command: 'run {k} {s}', matrix: {k: [1, 5], s: [x, y]}, when: k > 3 and s != x}")
    assert [run.label for run in step_of(found, "a").runs] == ["k=5,s=y"]


def test_what_follows_is_done_to_those_that_are_left() -> None:
    found = planned(
        "a: {command: 'run {k}', matrix: {k: [1, 5]}, outputs: 'a/{k}', when: k > 3}",
        "b: {command: 'cat {input}', each: a}",
    )
    assert [run.argv[-1] for run in step_of(found, "b").runs] == ["cat a/5"]


def test_names_of_files_are_values() -> None:
    steps = {"steps": yaml.safe_load("a: {command: 'wc {file}', each: '*.txt', when: stem like x*}")}
    found = plan(read(steps, "p.yaml"), lambda pattern: ["x1.txt", "y.txt"])
    assert [run.argv[-1] for run in found.steps[0].runs] == ["wc x1.txt"]


def test_success_is_no_condition() -> None:
    found = planned(ONE, "after: {command: x, needs: train, when: success}")
    assert step_of(found, "after").runs and step_of(found, "after").gate is Gate.NONE


def test_what_another_step_came_to() -> None:
    step = step_of(planned(ONE, "after: {command: 'use {input}', inputs: m, when: train.acc > 0.8}"), "after")
    assert (step.needs, step.when, step.gate) == (("train",), "train.acc > 0.8", Gate.IF_WELL)
    assert look(step, {"train": [Left(label="", files=("m",), came_to={"acc": 0.9})]}) == "use m"
    with pytest.raises(Skipped, match=r"train\.acc > 0\.8, does not hold: train\.acc is 0\.5"):
        look(step, {"train": [Left(label="", files=("m",), came_to={"acc": 0.5})]})


def test_each_run_asks_about_the_one_that_it_goes_on_from() -> None:
    step = step_of(
        planned(TRAIN, "test: {command: 'test {input}', each: train, when: train.metrics.acc > 0.8}"), "test"
    )
    assert [run.needs for run in step.runs] == [(("train", 0),), (("train", 1),)]
    assert look(step, {"train": [GOOD]}) == "test m/1"
    with pytest.raises(Skipped):
        look(step, {"train": [POOR]}, run=1)


def test_what_follows_a_step_with_a_condition() -> None:
    """One that waits for a single run is skipped with that; who collects several goes on with the others."""
    found = planned(
        TRAIN,
        "test: {command: 'test {input} > {output}', each: train, outputs: 't/{lr}', when: train.acc > 0.8}",
        "ship: {command: 'ship {input}', each: test}",
        "page: {command: 'page {inputs}', collect: test}",
        "word: {command: 'say {lr}', collect: ship, matrix: {lr: [1, 2]}}",
        "end: {command: 'end', needs: ship}",
    )
    assert [(step.name, step.gate) for step in found.steps[2:]] == [
        ("ship", Gate.NONE), ("page", Gate.IF_WELL), ("word", Gate.IF_WELL), ("end", Gate.NONE),
    ]  # fmt: skip
    assert [run.argv[-1] for run in step_of(found, "ship").runs] == ["ship t/1", "ship t/2"]
    done, skipped = (
        Left(label="lr=1", values={"lr": 1}, files=("t/1",)),
        Left(label="", values={"lr": 2}, state=SKIPPED),
    )
    assert look(step_of(found, "page"), {"test": [done, skipped]}) == "page t/1"
    assert look(step_of(found, "word"), {"ship": [done]}) == "say 1"
    with pytest.raises(Skipped, match="test was skipped"):
        look(step_of(found, "page"), {"test": [skipped]})


@pytest.mark.parametrize(("when", "states", "is_done"), [
    ("failure", ["completed", "failed"], True), ("failure", ["completed"], False), ("failure", ["skipped"], False),
    ("failure", ["cancelled"], True), ("always", ["failed"], True), ("always", ["completed"], True),
    ("not failure", ["skipped", "completed"], True), ("not failure", ["failed"], False),
    ("train.state = failed", ["failed"], True), ("train.exit_code in (3, 4)", ["failed"], True),
])  # fmt: skip
def test_how_others_ended(when: str, states: list[str], is_done: bool) -> None:
    step = step_of(planned(ONE, f"after: {{command: clean, needs: train, when: '{when}'}}"), "after")
    assert step.gate is Gate.ANYHOW
    left = {"train": [Left(label="", state=state, came_to={"state": state, "exit_code": 3}) for state in states]}
    if is_done:
        assert look(step, left) == "clean"
    else:
        with pytest.raises(Skipped):
            look(step, left)


def test_who_bears_failures_reads_what_was_left_all_the_same() -> None:
    step = step_of(planned(TRAIN, "page: {command: 'page {inputs}', collect: train, when: always}"), "page")
    assert look(step, {"train": [GOOD, Left(label="", values={"lr": 2}, state="failed")]}) == "page m/1"


def test_a_metric_that_nobody_logged_is_told() -> None:
    step = step_of(planned(ONE, "after: {command: x, when: train.accuracy > 0.8}"), "after")
    with pytest.raises(InvalidInput, match=r"train\[lr=1\] has no accuracy") as told:
        look(step, {"train": [GOOD]})
    assert told.value.hint == "it has acc, state"


def test_it_may_ask_whether_it_was_logged() -> None:
    step = step_of(planned(ONE, "after: {command: x, when: not train.accuracy exists}"), "after")
    assert look(step, {"train": [GOOD]}) == "x"


def test_one_that_several_runs_could_tell() -> None:
    with pytest.raises(InvalidInput, match="it asks about train, which has 2 runs"):
        planned(TRAIN, "after: {command: x, collect: train, when: train.acc > 0.8}")
    step = step_of(planned(ONE, "after: {command: x, collect: train, when: train.acc > 0.8}"), "after")
    with pytest.raises(InvalidInput, match="it asks about train, which has 2 runs"):
        look(step, {"train": [GOOD, POOR]})


@pytest.mark.parametrize(("steps", "said"), [
    ("{a: {command: x, matrix: {k: [1]}, when: k > 3}}", "steps.a.when: holds for none of its runs"),
    ("{a: {command: x, matrix: {k: [1]}, when: q > 3}}", "steps.a.when: q is no value of it"),
    ("{a: {command: x, matrix: {k: [1]}, when: 'k >'}}", "steps.a.when: "),
    ("{a: {command: x}, b: {command: x, needs: a, when: failur}}", "steps.b.when: "),
    ("{a: {command: x}, b: {command: x, when: c.acc > 1}}", "names with a dot begin with a, b"),
    ("{a: {command: x, when: failure}}", "steps.a.when: failure is told when others are over, and it waits for none"),
    ("{a: {command: x, when: a.acc > 1}}", "they wait for each other: a -> a"),
])  # fmt: skip
def test_what_is_wrong_is_told_before(steps: str, said: str) -> None:
    with pytest.raises(InvalidInput) as told:
        planned(steps)
    assert said in f"{told.value.message}; {told.value.hint}"


@pytest.mark.parametrize(("condition", "hint"), [
    ("sucess", "did you mean `success`?"), ("allways", "did you mean `always`?"),
    ("not failed", "did you mean `not failure`?"),
    ("k", "write one of success, not failure, failure, always, or compare it: `k > 3`"),
    ("true", "leave it out, or write `always`: it is done however the steps before it ended"),
    ("false", "leave the step out, and what needs it"),
])  # fmt: skip
def test_a_word_that_is_no_condition(condition: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(f"a: {{command: x, matrix: {{k: [1, 2]}}, when: {condition}}}")
    assert (caught.value.message, caught.value.hint) == (f"p.yaml: steps.a.when: {condition} is no condition", hint)
