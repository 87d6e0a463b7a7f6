"""Steps whose runs are known only when others are over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turnout.errors import InvalidInput
from turnout.pipeline import languages
from turnout.pipeline.native import LateStep, Step, late_from, plan, read
from turnout.pipeline.native.paths import matcher
from turnout.pipeline.plan import Left, Plan, RunPlan, StepPlan

NOTES = ("notes/x.txt", "notes/y.txt", "ref/a.fa", "ref/b.fa", "extra.txt")
SPLIT = "split: {command: 'split {file} parts/{stem}-', each: 'notes/*.txt', outputs: 'parts/{stem}-*'}"
STATS = "stats: {command: 'wc {file} > {output}', needs: split, each: 'parts/*', outputs: 'stats/{name}'}"
PARTS = {
    "split": [
        Left(label="x", values={"file": "notes/x.txt"}, files=("parts/x-1", "parts/x-2")),
        Left(label="y", values={"file": "notes/y.txt"}, files=("parts/y-1",)),
    ]
}


def planned(*steps: str) -> Plan:
    content = {"steps": yaml.safe_load("\n".join(steps))}
    return plan(read(content, "p.yaml"), lambda pattern: [file for file in NOTES if matcher(pattern)(file)])


def step_of(found: Plan, name: str) -> StepPlan:
    (step,) = (each for each in found.steps if each.name == name)
    return step


def expand(found: Plan, name: str, left: Mapping[str, Sequence[Left]]) -> tuple[RunPlan, ...]:
    """As who makes the runs then: from what was written down. Nothing but what the step waits for is known."""
    step = step_of(found, name)
    assert step.late is not None and step.runs == () and set(left) == set(step.needs)
    return languages.late_from(json.loads(json.dumps(step.late.plain()))).expand(left)


def commands(runs: Sequence[RunPlan]) -> list[str]:
    assert not any(run.needs for run in runs)
    return [f"{run.label}: {run.argv[-1]}" for run in runs]


def left_by(runs: Sequence[RunPlan]) -> list[Left]:
    return [Left(label=run.label, values=run.values, files=run.outputs) for run in runs]


def test_files_that_others_leave() -> None:
    found = planned(SPLIT, STATS)
    runs = expand(found, "stats", PARTS)
    assert runs[0] == RunPlan(
        label="x-1", argv=("bash", "-euo", "pipefail", "-c", "wc parts/x-1 > stats/x-1"),
        values={"file": "parts/x-1"}, inputs=("parts/x-1",), outputs=("stats/x-1",),
    )  # fmt: skip
    assert [run.label for run in runs] == ["x-1", "x-2", "y-1"]
    assert step_of(found, "split").late is None


def test_what_comes_after_a_late_step_is_late() -> None:
    found = planned(
        SPLIT,
        STATS,
        "other: {command: 'x {k}', matrix: {k: [1, 2]}, outputs: 'other/{k}'}",
        "more: {command: 'sort {input} {file} > {output}', each: stats, outputs: 'more/{stem}'}",
        "all: {command: 'cat {inputs} {inputs.other} > {output}', collect: [other, more], outputs: all.txt}",
        "end: {command: 'x {input}', inputs: all.txt}",
        "last: {command: x, needs: more}",
    )
    stats = expand(found, "stats", PARTS)
    more = expand(found, "more", {"stats": left_by(stats)})
    assert commands(more)[2] == "y-1: sort stats/y-1 parts/y-1 > more/y-1"
    assert more[2].inputs == ("parts/y-1", "stats/y-1") and more[2].values == {"file": "parts/y-1"}
    other = left_by(step_of(found, "other").runs)
    assert commands(expand(found, "all", {"other": other, "more": left_by(more)})) == [
        ": cat other/1 other/2 more/x-1 more/x-2 more/y-1 other/1 other/2 > all.txt"
    ]
    end, last = step_of(found, "end"), step_of(found, "last")
    assert (end.needs, commands(end.runs), last.needs, commands(last.runs)) == (
        ("all",), [": x all.txt"], ("more",), [": x"],
    )  # fmt: skip


def test_a_step_of_which_only_the_files_are_not_known() -> None:
    """It has a run for each run before it, as soon as these are over, if it asks for what they leave; else at once."""
    found = planned(
        SPLIT,
        "size: {command: 'du {inputs} # {stem} {k}', each: split, matrix: {k: [1, 2]}}",
        "count: {command: 'ls parts/{stem}-* | wc -l', each: split}",
        "after: {command: 'ls {inputs}', needs: split}",
    )
    assert commands(expand(found, "size", PARTS)) == [
        "x,k=1: du parts/x-1 parts/x-2 # x 1", "x,k=2: du parts/x-1 parts/x-2 # x 2",
        "y,k=1: du parts/y-1 # y 1", "y,k=2: du parts/y-1 # y 2",
    ]  # fmt: skip
    assert [run.needs for run in step_of(found, "count").runs] == [(("split", 0),), (("split", 1),)]
    assert commands(expand(found, "after", PARTS)) == [": ls parts/x-1 parts/x-2 parts/y-1"]


def test_runs_are_joined_by_the_values_that_both_have() -> None:
    found = planned(
        "a: {command: 'x {k} {j}', matrix: {k: [1, 2], j: [u, v]}, outputs: 'a/{k}{j}-*'}",
        "b: {command: 'cat {inputs} > {output}', collect: a, matrix: {j: [u, v]}, outputs: 'b/{j}'}",
    )
    left = [
        Left(label="", values={"k": k, "j": j}, files=(f"a/{k}{j}-x", f"a/{k}{j}-y"))
        for k in (1, 2)
        for j in ("u", "v")
    ]
    assert commands(expand(found, "b", {"a": left})) == [
        "j=u: cat a/1u-x a/1u-y a/2u-x a/2u-y > b/u",
        "j=v: cat a/1v-x a/1v-y a/2v-x a/2v-y > b/v",
    ]


def test_patterns_of_inputs_that_others_may_leave() -> None:
    found = planned(
        SPLIT,
        "tool: {command: x, outputs: results}",
        "a: {command: 'cat {inputs}', each: 'ref/*.fa', inputs: ['parts/*-1', '*.txt', 'ref/{name}', results/x.csv]}",
        "b: {command: 'cat {inputs}', inputs: 'results/*.csv'}",
        "c: {command: 'cat {file}', each: 'results/*.csv', needs: tool}",
    )
    tool = [Left(label="", files=("results/x.csv", "results/y.csv"))]
    assert commands(expand(found, "a", {"split": PARTS["split"], "tool": tool})) == [
        "a: cat parts/x-1 parts/y-1 extra.txt ref/a.fa results/x.csv",
        "b: cat parts/x-1 parts/y-1 extra.txt ref/b.fa results/x.csv",
    ]
    assert step_of(found, "a").reads == ("ref/a.fa", "ref/b.fa", "extra.txt")
    assert commands(expand(found, "b", {"tool": tool})) == [": cat results/x.csv results/y.csv"]
    assert commands(expand(found, "c", {"tool": tool})) == ["x: cat results/x.csv", "y: cat results/y.csv"]


def test_an_input_that_some_run_of_a_late_step_leaves() -> None:
    found = planned(SPLIT, STATS, "a: {command: 'x {input}', inputs: stats/x-1}")
    assert (step_of(found, "a").needs, commands(step_of(found, "a").runs)) == (("stats",), [": x stats/x-1"])


REFUSALS = {
    "stats: {command: x, needs: split, each: 'parts/x-z*'}": (
        "steps.stats.each: no file matches parts/x-z* that split left", "mend the pattern, or what they leave",
    ),
    "stats: {command: x, needs: split, each: 'parts/*', inputs: ['ref/a.fa', 'ref/{name}.fa']}": (
        "steps.stats.inputs: ref/x-1.fa is missing, which stats[x-1] reads: it is no file of the project, and no step "
        "leaves it", None,
    ),
    "stats: {command: x, needs: split, each: 'parts/*', outputs: o}": (
        "steps.stats.outputs: o is written by stats[x-1] and by stats[x-2]", "give one of them another path",
    ),
    "stats: {command: x, needs: split, each: 'parts/*', outputs: '{file}'}": (
        "steps.stats.outputs: parts/x-1 is written by split[x] and by stats[x-1]", "give one of them another path",
    ),
    "stats: {command: 'x {input}', needs: split}": (
        "steps.stats.command: {input} is one file, and stats has 3", "write {inputs} for all there are",
    ),
}  # fmt: skip


@pytest.mark.parametrize("step", REFUSALS)
def test_what_does_not_make_sense_in_the_end(step: str) -> None:
    found = planned(SPLIT, step)
    with pytest.raises(InvalidInput) as caught:
        expand(found, "stats", PARTS)
    what, instead = REFUSALS[step]
    line = caught.value.message.splitlines()[0]
    assert line.startswith(f"p.yaml: {what}")
    assert instead is None or instead in f"{line}; {caught.value.hint}"


def test_a_million_runs_are_the_most() -> None:
    found = planned(SPLIT, "a: {command: x, needs: split, each: 'parts/*', matrix: {k: [1, 2], j: [1, 2]}}")
    files = tuple(f"parts/{number}" for number in range(250_001))
    with pytest.raises(InvalidInput, match=r"steps\.a: there would be more than 1,000,000 runs"):
        expand(found, "a", {"split": [Left(label="", files=files)]})


texts = st.text(max_size=5)
values = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
files = st.lists(texts, max_size=2).map(tuple) | st.dictionaries(texts, texts, max_size=2)
tuples = st.lists(texts, max_size=2).map(tuple)
steps = st.builds(
    Step, name=texts, command=texts | tuples | st.none(), function=st.none() | texts,
    args=st.dictionaries(texts, values | st.lists(values, max_size=2), max_size=2), needs=tuples,
    matrix=st.lists(st.dictionaries(texts, st.lists(values).map(tuple), max_size=2), max_size=2).map(tuple),
    each=st.none() | texts, collect=tuples, inputs=files, outputs=files, when=st.none(), job=st.just({}),
)  # fmt: skip


@given(
    st.builds(
        LateStep, step=steps, where=texts, names=tuples, joins=st.dictionaries(texts, tuples, max_size=2), files=tuples,
        fan=st.none() | tuples,
    )
)  # fmt: skip
def test_a_late_step_travels(late: LateStep) -> None:
    assert late_from(late.plain()) == late
    assert late_from(json.loads(json.dumps(late.plain()))) == late
