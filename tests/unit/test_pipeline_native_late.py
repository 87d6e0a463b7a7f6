"""Steps whose runs, or whose files, are known only when others are over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turnout.errors import InvalidInput
from turnout.model.pipeline import Gate
from turnout.pipeline import languages
from turnout.pipeline.native import LateStep, Step, late_from, plan, read
from turnout.pipeline.native.paths import matcher
from turnout.pipeline.plan import Late, Left, Plan, RunPlan, StepPlan

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


def written_down(step: StepPlan) -> Late:
    """As who decides then has it."""
    assert step.late is not None
    return languages.late_from(json.loads(json.dumps(step.late.plain())))


def make(found: Plan, name: str, left: Mapping[str, Sequence[Left]]) -> StepPlan:
    """Nothing is known but of what the step waits for."""
    step = step_of(found, name)
    assert step.runs == () and set(left) == {*step.needs, *step.follows}
    return written_down(step).make(left)


def look(step: StepPlan, left: Mapping[str, Sequence[Left]]) -> list[str]:
    """The commands of all its runs, each with what it waited for itself."""
    late = written_down(step)
    assert step.gate and late.fills and all(run.argv == () for run in step.runs)
    return [late.at_gate(_for(run, step, left))(run.values)[-1] for run in step.runs]


def _for(run: RunPlan, step: StepPlan, left: Mapping[str, Sequence[Left]]) -> dict[str, list[Left]]:
    singly: dict[str, list[Left]] = {}
    for place in run.needs:
        singly.setdefault(place.step, []).append(left[place.step][place.run])
    return {**{name: list(left[name]) for name in step.needs}, **singly}


def commands(runs: Sequence[RunPlan]) -> list[str]:
    return [f"{run.label}: {run.argv[-1]}" for run in runs]


def left_by(runs: Sequence[RunPlan]) -> list[Left]:
    return [Left(label=run.label, values=run.values, files=run.outputs) for run in runs]


def test_files_that_others_leave() -> None:
    found = planned(SPLIT, STATS)
    made = make(found, "stats", PARTS)
    assert made.runs[0] == RunPlan(
        label="x-1", argv=("bash", "-euo", "pipefail", "-c", "wc parts/x-1 > stats/x-1"),
        values={"file": "parts/x-1"}, inputs=("parts/x-1",), outputs=("stats/x-1",),
    )  # fmt: skip
    assert [run.label for run in made.runs] == ["x-1", "x-2", "y-1"] and made.needs == ("split",)
    stats = step_of(found, "stats")
    assert (stats.needs, stats.follows, stats.gate) == (("split",), (), Gate.NONE)
    assert step_of(found, "split").late is None


def test_what_is_done_for_each_run_of_a_late_step_is_known_when_those_are_made() -> None:
    found = planned(
        SPLIT,
        STATS,
        "other: {command: 'x {k}', matrix: {k: [1, 2]}, outputs: 'other/{k}'}",
        "more: {command: 'sort {input} {file} > {output}', each: stats, outputs: 'more/{stem}'}",
        "both: {command: 'x {inputs}', each: stats, inputs: ['stats/{name}', 'more/{stem}', 'other/1']}",
        "all: {command: 'cat {inputs} {inputs.other} > {output}', collect: [other, more], outputs: all.txt}",
        "end: {command: 'x {input}', inputs: all.txt}",
        "last: {command: x, needs: more}",
    )
    stats = make(found, "stats", PARTS)
    more = make(found, "more", {"stats": left_by(stats.runs)})
    assert commands(more.runs)[2] == "y-1: sort stats/y-1 parts/y-1 > more/y-1"
    assert more.runs[2].inputs == ("parts/y-1", "stats/y-1") and more.runs[2].values == {"file": "parts/y-1"}
    assert [run.needs for run in more.runs] == [(("stats", number),) for number in range(3)] and more.needs == ()
    other = left_by(step_of(found, "other").runs)
    before = {"other": other, "stats": left_by(stats.runs), "more": left_by(more.runs)}
    both = make(found, "both", before)
    assert commands(both.runs)[1] == "x-2: x stats/x-2 more/x-2 other/1"
    assert both.runs[1].needs == (("stats", 1), ("more", 1), ("other", 0))
    everything = step_of(found, "all")
    assert (everything.needs, everything.gate) == (("other", "more"), Gate.IF_WELL)
    assert look(everything, before) == ["cat other/1 other/2 more/x-1 more/x-2 more/y-1 other/1 other/2 > all.txt"]
    end, last = step_of(found, "end"), step_of(found, "last")
    assert (end.needs, end.runs[0].needs, commands(end.runs)) == ((), (("all", 0),), [": x all.txt"])
    assert (last.needs, last.gate, commands(last.runs)) == (("more",), Gate.NONE, [": x"])


def test_a_step_of_which_only_the_files_are_not_known() -> None:
    """It has a run for each run before it, which is looked at if it asks for what that leaves."""
    found = planned(
        SPLIT,
        "size: {command: 'du {inputs} # {stem} {k}', each: split, matrix: {k: [1, 2]}}",
        "count: {command: 'ls parts/{stem}-* | wc -l', each: split}",
        "after: {command: 'ls {inputs}', needs: split}",
    )
    size, count = step_of(found, "size"), step_of(found, "count")
    assert look(size, PARTS) == [
        "du parts/x-1 parts/x-2 # x 1", "du parts/x-1 parts/x-2 # x 2", "du parts/y-1 # y 1", "du parts/y-1 # y 2",
    ]  # fmt: skip
    assert [run.needs for run in size.runs] == [(("split", 0),)] * 2 + [(("split", 1),)] * 2
    assert [run.needs for run in count.runs] == [(("split", 0),), (("split", 1),)] and count.gate is Gate.NONE
    assert look(step_of(found, "after"), PARTS) == ["ls parts/x-1 parts/x-2 parts/y-1"]


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
    assert look(step_of(found, "b"), {"a": left}) == [
        "cat a/1u-x a/1u-y a/2u-x a/2u-y > b/u", "cat a/1v-x a/1v-y a/2v-x a/2v-y > b/v",
    ]  # fmt: skip


def test_patterns_of_inputs_that_others_may_leave() -> None:
    found = planned(
        SPLIT,
        "tool: {command: x, outputs: results}",
        "a: {command: 'cat {inputs}', each: 'ref/*.fa', inputs: ['parts/*-1', '*.txt', 'ref/{name}', results/x.csv]}",
        "b: {command: 'cat {inputs}', inputs: 'results/*.csv'}",
        "c: {command: 'cat {file}', each: 'results/*.csv', needs: tool}",
    )
    tool = [Left(label="", files=("results/x.csv", "results/y.csv"))]
    assert look(step_of(found, "a"), {"split": PARTS["split"], "tool": tool}) == [
        "cat parts/x-1 parts/y-1 extra.txt ref/a.fa results/x.csv",
        "cat parts/x-1 parts/y-1 extra.txt ref/b.fa results/x.csv",
    ]
    assert set(step_of(found, "a").reads) == {"ref/a.fa", "ref/b.fa", "extra.txt"}
    assert look(step_of(found, "b"), {"tool": tool}) == ["cat results/x.csv results/y.csv"]
    assert commands(make(found, "c", {"tool": tool}).runs) == ["x: cat results/x.csv", "y: cat results/y.csv"]


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
}  # fmt: skip


@pytest.mark.parametrize("step", REFUSALS)
def test_what_does_not_make_sense_in_the_end(step: str) -> None:
    found = planned(SPLIT, step)
    with pytest.raises(InvalidInput) as caught:
        make(found, "stats", PARTS)
    what, instead = REFUSALS[step]
    line = caught.value.message.splitlines()[0]
    assert line.startswith(f"p.yaml: {what}")
    assert instead is None or instead in f"{line}; {caught.value.hint}"


def test_several_files_where_there_is_to_be_one() -> None:
    found = planned(SPLIT, "stats: {command: 'x {input}', needs: split}")
    with pytest.raises(InvalidInput, match=r"steps\.stats\.command: \{input\} is one file, and stats has 3") as caught:
        look(step_of(found, "stats"), PARTS)
    assert caught.value.hint == "write {inputs} for all there are"


def test_a_million_runs_are_the_most() -> None:
    found = planned(SPLIT, "a: {command: x, needs: split, each: 'parts/*', matrix: {k: [1, 2], j: [1, 2]}}")
    files = tuple(f"parts/{number}" for number in range(250_001))
    with pytest.raises(InvalidInput, match=r"steps\.a: there would be more than 1,000,000 runs"):
        make(found, "a", {"split": [Left(label="", files=files)]})


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
        fan=st.none() | tuples, fills=st.booleans(), instead=st.none() | tuples,
    )
)  # fmt: skip
def test_a_late_step_travels(late: LateStep) -> None:
    assert late_from(late.plain()) == late
    assert late_from(json.loads(json.dumps(late.plain()))) == late
