"""Pipelines from files and from Python: the same steps."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from turnout.errors import InvalidInput
from turnout.pipeline.native import Builder, Step, plan, read

TEXT = """
steps:
  fetch:
    command: ./fetch.sh {sample} > {output}
    matrix: {sample: [a, b], k: [0, 1, 2]}
    outputs: raw/{sample}-{k}.fq
    target: cluster
    gpu-memory: 16G
  trim:
    each: fetch
    command: [./trim, "{input}", 4, "{output}"]
    outputs: ["trimmed/{sample}-{k}.fq"]
    retry: 2
  model:
    function: json:dumps
    args: {obj: "{inputs}"}
    matrix: [{k: 0}, {k: [1, 2]}]
    collect: trim
    outputs: {weights: "{k}.bin"}
  report:
    needs: [fetch, model]
    collect: [trim]
    command: cat {inputs.0} > {output}
    inputs: raw/a-0.fq
    outputs: report.txt
    when: not failure
"""


def built() -> Builder:
    p = Builder()
    fetch = p.step(
        "fetch", "./fetch.sh {sample} > {output}", matrix={"sample": ["a", "b"], "k": range(3)},
        outputs="raw/{sample}-{k}.fq", target="cluster", gpu_memory="16G",
    )  # fmt: skip
    trim = p.step("trim", ["./trim", "{input}", 4, "{output}"], each=fetch, outputs="trimmed/{sample}-{k}.fq", retry=2)
    model = p.step(
        "model", function=json.dumps, args={"obj": "{inputs}"}, matrix=[{"k": 0}, {"k": (1, 2)}], collect="trim",
        outputs={"weights": "{k}.bin"},
    )  # fmt: skip
    p.step(
        "report", "cat {inputs.0} > {output}", needs=["fetch", model], collect=[trim], inputs="raw/a-0.fq",
        outputs=["report.txt"], when="not failure",
    )  # fmt: skip
    return p


def test_both_forms_are_the_same() -> None:
    written = read(yaml.safe_load(TEXT), "")
    assert built().pipeline() == written
    assert plan(built().pipeline(), lambda pattern: []) == plan(written, lambda pattern: [])


def test_a_step_has_all_that_was_written() -> None:
    fetch, trim, model, report = read(yaml.safe_load(TEXT), "p.yaml").steps
    assert fetch.matrix == ({"sample": ("a", "b"), "k": (0, 1, 2)},)
    assert fetch.job == {"target": "cluster", "gpu-memory": "16G"}
    assert (trim.command, trim.each, trim.job) == (("./trim", "{input}", "4", "{output}"), "fetch", {"retry": 2})
    assert (model.function, model.args) == ("json:dumps", {"obj": "{inputs}"})
    assert model.matrix == ({"k": (0,)}, {"k": (1, 2)}) and model.outputs == {"weights": "{k}.bin"}
    assert report == Step(
        name="report", command="cat {inputs.0} > {output}", needs=("fetch", "model"), collect=("trim",),
        inputs=("raw/a-0.fq",), outputs=("report.txt",), when="not failure",
    )  # fmt: skip


def test_numbers_of_numpy_and_paths_are_what_they_are() -> None:
    p = Builder()
    matrix = {
        "k": np.arange(2), "x": [np.float32(0.5), np.int8(3)], "one": np.array(7), "on": [np.bool_(True)],
        "path": map(Path, ("a.txt", "b/c.txt")), "word": np.str_("n"), "half": Fraction(1, 2),
    }  # fmt: skip
    args = {"grid": np.eye(2), "where": Path("x/y"), "more": [np.int64(1), {"deep": np.float64(2)}], "on": np.True_}
    step = p.step(
        "a", json.dumps, args=args, matrix=matrix,
        inputs=[Path("a.txt")], outputs={"all": Path("out") / "{k}"}, cpus=np.int64(2), env={"HERE": Path("z")},
    )  # fmt: skip
    assert step.matrix == ({
        "k": (0, 1), "x": (0.5, 3), "one": (7,), "on": (True,), "path": ("a.txt", "b/c.txt"), "word": ("n",),
        "half": (0.5,),
    },)  # fmt: skip
    assert {type(each) for values in step.matrix[0].values() for each in values} == {int, float, bool, str}
    assert json.dumps(step.args) == (
        '{"grid": [[1.0, 0.0], [0.0, 1.0]], "where": "x/y", "more": [1, {"deep": 2.0}], "on": true}'
    )
    assert (step.inputs, step.outputs) == (("a.txt",), {"all": "out/{k}"})
    assert json.dumps(step.job) == '{"cpus": 2, "env": {"HERE": "z"}}'
    words = p.step("b", [Path("./b.sh"), np.int16(4), "{file}"], each=Path("in/*.txt"))
    assert (words.command, words.each) == (("b.sh", "4", "{file}"), "in/*.txt")


@pytest.mark.parametrize("value", [b"ab", {"k": 1}, np.eye(2), [np.nan], [None], [object()]])
def test_what_is_no_value_is_said(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^steps\.a\.matrix\.k: .* is no value"):
        Builder().step("a", "x", matrix={"k": value})


def test_what_is_wrong_with_a_step_is_said_where_it_is_added() -> None:
    p = Builder()
    p.step("a", "x")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "a", "command": "x"}, "steps: there are two of the name a"),
        ({"name": "b c", "command": "x"}, "steps: 'b c' is no name of a step"),
        ({"name": "b"}, "steps.b: there is nothing to do"),
        ({"name": "c", "command": "x", "ouputs": "y"}, "steps.c: nothing is called ouputs"),
        ({"name": "d", "command": "x", "matrix": {"file": [1]}}, "steps.d.matrix.file: is a name that is taken"),
        ({"name": "e", "function": lambda: 0}, "cannot be imported from where it is defined"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidInput) as caught:
            p.step(**given)
        assert message in caught.value.message and caught.value.hint
    assert [step.name for step in p.pipeline().steps] == ["a"]


def test_what_is_wrong_with_all_is_said_by_the_plan() -> None:
    p = Builder()
    p.step("a", "x", needs="b")
    with pytest.raises(InvalidInput, match=r"^steps\.a\.needs: there is no step b$"):
        plan(p.pipeline(), lambda pattern: [])
    with pytest.raises(InvalidInput, match="a pipeline without steps"):
        Builder().pipeline()


@pytest.mark.parametrize("matrix", [[1, 2], "x", [{"k": 1}, None], 3])
def test_a_matrix_that_is_none(matrix: Any) -> None:
    with pytest.raises(InvalidInput, match="matrix: is no block of names and values"):
        Builder().step("a", "x {k}", matrix=matrix)
