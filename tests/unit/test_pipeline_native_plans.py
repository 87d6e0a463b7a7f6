"""Pipelines as people write them, and the runs that they come to."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnout.pipeline.native import plan, read
from turnout.pipeline.native.paths import matcher
from turnout.pipeline.plan import Place, Plan, RunPlan, StepPlan


def planned(steps: str, *files: str) -> Plan:
    """`steps` as YAML; `files` are those of the project."""
    content = {"steps": yaml.safe_load(steps)}
    return plan(read(content, "p.yaml"), lambda pattern: [file for file in files if matcher(pattern)(file)])


def step_of(found: Plan, name: str) -> StepPlan:
    (step,) = (each for each in found.steps if each.name == name)
    return step


def run_of(found: Plan, name: str, label: str = "") -> RunPlan:
    (run,) = (each for each in step_of(found, name).runs if each.label == label)
    return run


def shown(found: Plan) -> list[str]:
    """A line for each step, `name <= steps it waits for`, and for each run, `label: command <- runs it waits for`."""
    lines = []
    for step in found.steps:
        needs = f" <= {' '.join(step.needs)}" if step.needs else ""
        lines.append(f"{step.name}{needs}{' late' if step.late else ''}")
        for run in step.runs:
            waits = f" <- {' '.join(f'{step}.{number}' for step, number in run.needs)}" if run.needs else ""
            command = run.argv[-1] if run.argv[0] == "bash" else "|".join(run.argv)
            lines.append(f"  {run.label}: {command}{waits}")
    return lines


PLANS = {
    "one step": (
        "a: {command: echo hello}",
        """
        a
          : echo hello
        """,
    ),
    "an argv": (
        "a: {command: [echo, 1, a b, '{step}', '']}",
        """
        a
          : echo|1|a b|a|
        """,
    ),
    "a matrix is all combinations, the last name fastest": (
        "a: {command: 'run {x} {y}', matrix: {x: [1, 2], y: [true, 0.5, 'a b']}}",
        """
        a
          x=1,y=true: run 1 true
          x=1,y=0.5: run 1 0.5
          x=1,y=a b: run 1 'a b'
          x=2,y=true: run 2 true
          x=2,y=0.5: run 2 0.5
          x=2,y=a b: run 2 'a b'
        """,
    ),
    "rows of a matrix": (
        "a: {command: 'run {x} {y}', matrix: [{x: 1, y: 2}, {x: [3, 4], y: 5}]}",
        """
        a
          x=1,y=2: run 1 2
          x=3,y=5: run 3 5
          x=4,y=5: run 4 5
        """,
    ),
    "dates are values as they are written": (
        "a: {command: 'run {day}', matrix: {day: [2024-05-01]}}",
        """
        a
          day=2024-05-01: run 2024-05-01
        """,
    ),
    "each run of another step": (
        """
        a: {command: 'make {x} > {output}', matrix: {x: [1, 2]}, outputs: 'a/{x}'}
        b: {command: 'use {input} > {output}', each: a, outputs: 'b/{x}'}
        """,
        """
        a
          x=1: make 1 > a/1
          x=2: make 2 > a/2
        b
          x=1: use a/1 > b/1 <- a.0
          x=2: use a/2 > b/2 <- a.1
        """,
    ),
    "its own matrix multiplies what it has from another": (
        """
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'a/{x}'}
        b: {command: 'use {input} {k}', each: a, matrix: {k: [u, v]}}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b
          x=1,k=u: use a/1 u <- a.0
          x=1,k=v: use a/1 v <- a.0
          x=2,k=u: use a/2 u <- a.1
          x=2,k=v: use a/2 v <- a.1
        """,
    ),
    "each of a single run is all of that step": (
        """
        a: {command: 'make > {output}', outputs: a.txt}
        b: {command: 'use {input} {k}', each: a, matrix: {k: [u, v]}}
        """,
        """
        a
          : make > a.txt
        b <= a
          k=u: use a.txt u
          k=v: use a.txt v
        """,
    ),
    "collecting everything": (
        """
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'a/{x}'}
        b: {command: 'make', outputs: [b/1, b/2]}
        c: {command: 'cat {inputs}; ls {inputs.b} {inputs.1}', collect: [a, b]}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b
          : make
        c <= a b
          : cat a/1 a/2 b/1 b/2; ls b/1 b/2 a/2
        """,
    ),
    "collecting by the names that both have": (
        """
        a: {command: 'make {x} {y}', matrix: {x: [1, 2], y: [u, v]}, outputs: 'a/{x}{y}'}
        b: {command: 'cat {inputs}', collect: a, matrix: {y: [u, v]}}
        """,
        """
        a
          x=1,y=u: make 1 u
          x=1,y=v: make 1 v
          x=2,y=u: make 2 u
          x=2,y=v: make 2 v
        b
          y=u: cat a/1u a/2u <- a.0 a.2
          y=v: cat a/1v a/2v <- a.1 a.3
        """,
    ),
    "values agree as text, whatever kind they are": (
        """
        a: {command: 'make {x}', matrix: {x: [1, true]}}
        b: {command: 'use {x}', needs: a, matrix: {x: ['true', '1']}}
        """,
        """
        a
          x=1: make 1
          x=true: make true
        b
          x=true: use true <- a.1
          x=1: use 1 <- a.0
        """,
    ),
    "needs without a name in common are of the whole step": (
        """
        b: {command: 'use {k}', needs: a, matrix: {k: [u, v]}}
        a: {command: 'make {x}', matrix: {x: [1, 2]}}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b <= a
          k=u: use u
          k=v: use v
        """,
    ),
    "inputs of a step with needs alone are what those leave": (
        """
        a: {command: 'make', outputs: [a.txt, a.log]}
        b: {command: 'use {inputs}', needs: a}
        """,
        """
        a
          : make
        b <= a
          : use a.txt a.log
        """,
    ),
    "each and needs: inputs are those of each": (
        """
        index: {command: make, outputs: ref.idx}
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'a/{x}'}
        b: {command: 'align ref.idx {input}', each: a, needs: index}
        """,
        """
        index
          : make
        a
          x=1: make 1
          x=2: make 2
        b <= index
          x=1: align ref.idx a/1 <- a.0
          x=2: align ref.idx a/2 <- a.1
        """,
    ),
    "each, and runs that agree with it": (
        """
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'a/{x}'}
        b: {command: 'other {x}', matrix: {x: [2, 1]}, outputs: 'b/{x}'}
        c: {command: 'join {inputs} {inputs.b}', each: a, collect: b}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b
          x=2: other 2
          x=1: other 1
        c
          x=1: join a/1 b/1 b/1 <- a.0 b.1
          x=2: join a/2 b/2 b/2 <- a.1 b.0
        """,
    ),
    "inputs that another step leaves are needs": (
        """
        b: {command: 'use {inputs.0} {inputs.1}', matrix: {x: [2, 1]}, inputs: ['./a/{x}', all.txt]}
        a: {command: 'make {y}', matrix: {y: [1, 2]}, outputs: 'a/{y}'}
        all: {command: make, outputs: all.txt}
        """,
        """
        a
          y=1: make 1
          y=2: make 2
        all
          : make
        b
          x=2: use a/2 all.txt <- a.1 all.0
          x=1: use a/1 all.txt <- a.0 all.0
        """,
    ),
    "an input in a directory that another step leaves": (
        """
        a: {command: make, outputs: results/}
        b: {command: 'use {input}', inputs: results/deep/x.csv}
        """,
        """
        a
          : make
        b
          : use results/deep/x.csv <- a.0
        """,
    ),
    "an input that the pattern of a run matches": (
        """
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'a/{x}-*'}
        b: {command: 'use {input}', inputs: a/2-log/x.txt}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b
          : use a/2-log/x.txt <- a.1
        """,
    ),
    "a pattern of inputs: outputs of other steps, and files": (
        """
        a: {command: 'make {x}', matrix: {x: [1, 2]}, outputs: 'data/{x}.txt'}
        b: {command: 'use {inputs} > {output}', inputs: 'data/*.txt', outputs: data/b.txt}
        """,
        """
        a
          x=1: make 1
          x=2: make 2
        b
          : use data/1.txt data/2.txt data/here.txt > data/b.txt <- a.0 a.1
        """,
    ),
    "files and inputs by name": (
        """
        b: {command: '{inputs.ref} {inputs.all} {outputs.bam} {outputs.log}', inputs: {ref: here.fa, all: 'data/*.txt'},
            outputs: {bam: x.bam, log: x.log}}
        """,
        """
        b
          : here.fa data/b.txt data/here.txt x.bam x.log
        """,
    ),
    "each file of a pattern": (
        "a: {command: 'wc {file} {input} {name} {stem} {k}', each: 'data/*.txt', matrix: {k: [1, 2]}}",
        """
        a
          b,k=1: wc data/b.txt data/b.txt b.txt b 1
          b,k=2: wc data/b.txt data/b.txt b.txt b 2
          here,k=1: wc data/here.txt data/here.txt here.txt here 1
          here,k=2: wc data/here.txt data/here.txt here.txt here 2
        """,
    ),
    "files whose stems are the same are told apart by their paths": (
        "a: {command: 'wc {stem}', each: '*/b*.txt'}",
        """
        a
          data/b.txt: wc b
          more/b.txt: wc b
        """,
    ),
    "each file, and what is done to it further": (
        """
        a: {command: 'wc {file} > {output}', each: '*/b.txt', outputs: '{file}.count'}
        b: {command: 'sort {input} > {output} # {stem}', each: a, outputs: 'sorted/{file}'}
        c: {command: 'other {file}', each: 'data/*.txt', needs: a}
        """,
        """
        a
          data/b.txt: wc data/b.txt > data/b.txt.count
          more/b.txt: wc more/b.txt > more/b.txt.count
        b
          data/b.txt: sort data/b.txt.count > sorted/data/b.txt # b <- a.0
          more/b.txt: sort more/b.txt.count > sorted/more/b.txt # b <- a.1
        c <= a
          b: other data/b.txt
          here: other data/here.txt
        """,
    ),
    "a pattern of files that are known to be left": (
        """
        a: {command: 'make {x}', matrix: {x: [2, 1]}, outputs: 'data/{x}.txt'}
        b: {command: 'wc {file}', each: 'data/*.txt', needs: a}
        """,
        """
        a
          x=2: make 2
          x=1: make 1
        b <= a
          2: wc data/2.txt
          1: wc data/1.txt
        """,
    ),
    "files of earlier times are not what a step is done to": (
        """
        a: {command: 'wc {file} > {output}', each: 'data/*.txt', outputs: 'data/{stem}.b.txt'}
        b: {command: 'cat {inputs} > {output}', collect: a, outputs: data/here.txt}
        """,
        """
        a
          b: wc data/b.txt > data/b.b.txt
        b <= a
          : cat data/b.b.txt > data/here.txt
        """,
    ),
    "a function": (
        """
        a: {function: 'my.module:make', matrix: {x: [1]}, outputs: {o: a.txt}, inputs: ['data/*.txt', here.fa],
            args: {n: '{x}', many: ['{inputs}', '{inputs.0}'], one: '{inputs.1}', o: '{outputs.o}', t: 'x-{x}',
                   k: null}}
        """,
        """
        a
          x=1: turnout-call|my.module:make|ARGS
        """,
    ),
}  # fmt: skip
ARGS: dict[str, Any] = {
    "n": 1, "many": [["data/b.txt", "data/here.txt", "here.fa"], ["data/b.txt", "data/here.txt"]],
    "one": "here.fa", "o": "a.txt", "t": "x-1", "k": None,
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str) -> None:
    steps, expected = PLANS[name]
    found = planned(steps, "here.fa", "data/here.txt", "data/b.txt", "more/b.txt")
    lines = [line.removeprefix("        ") for line in expected.strip("\n").splitlines() if line.strip()]
    assert shown(found) == [line.replace("ARGS", json.dumps(ARGS)) for line in lines]


def test_what_a_run_is_told_of_besides_its_command() -> None:
    found = planned(
        """
        a: {command: 'make {x} {k}', matrix: {x: [1, 2], k: [u]}, outputs: ['a/{x}', 'logs/{x}-*.log']}
        b: {command: 'use {file}', each: 'data/*', inputs: ['a/1', here.fa, /somewhere/else.fa]}
        """,
        "data/y.txt", "here.fa", "other.txt",
    )  # fmt: skip
    assert run_of(found, "a", "x=2,k=u") == RunPlan(
        label="x=2,k=u", argv=("bash", "-euo", "pipefail", "-c", "make 2 u"), values={"x": 2, "k": "u"},
        outputs=("a/2", "logs/2-*.log"),
    )  # fmt: skip
    assert run_of(found, "b", "y") == RunPlan(
        label="y", argv=("bash", "-euo", "pipefail", "-c", "use data/y.txt"), values={"file": "data/y.txt"},
        inputs=("data/y.txt", "a/1", "here.fa"), needs=(Place("a", 0),),
    )  # fmt: skip
    assert step_of(found, "b").reads == ("data/y.txt", "here.fa")
    assert found.notes == ()


def test_files_of_any_step_that_it_names_can_be_asked_for() -> None:
    """Also of one that is only needed; they are none of its inputs."""
    steps = """
    ref: {command: x, outputs: ref.fa}
    a: {command: x, matrix: {i: [1, 2]}, outputs: 'a{i}'}
    b: {command: x, each: a, outputs: 'b{i}'}
    c: {command: 'go {inputs.ref} {inputs.a} {inputs.b} = {inputs}', collect: b, needs: [a, ref]}
    d: {command: 'go {inputs.own} {inputs.ref}', inputs: {own: here.fa}, needs: ref}
    split: {command: x, outputs: 'p/*'}
    e: {command: 'go {inputs.split} {inputs.b}', collect: b, needs: split}
    """
    found = planned(steps, "here.fa")
    assert run_of(found, "c").argv[-1] == "go ref.fa a1 a2 b1 b2 = b1 b2"
    assert run_of(found, "c").inputs == ("b1", "b2")
    assert run_of(found, "d").argv[-1] == "go here.fa ref.fa"
    assert step_of(found, "e").late is not None, "what split leaves is known later"


def test_steps_stand_as_they_are_written_where_their_needs_allow() -> None:
    steps = "d: {command: x, needs: b}\nc: {command: x}\nb: {command: x, needs: a}\na: {command: x}\ne: {command: x}"
    assert [step.name for step in planned(steps).steps] == ["c", "a", "b", "d", "e"]


def test_a_value_that_looks_like_a_pattern_is_none() -> None:
    found = planned(
        """
        a: {command: 'make > {output}', matrix: {x: ['a[1]', 'b*']}, outputs: 'a/{x}'}
        b: {command: 'use {input}', each: a, outputs: 'b/{x}-*'}
        """
    )
    assert run_of(found, "a", "x=a[1]").argv[-1] == "make > 'a/a[1]'"
    assert run_of(found, "a", "x=b*").outputs == ("a/b[*]",)
    assert run_of(found, "b", "x=b*").inputs == ("a/b*",)
    assert run_of(found, "b", "x=a[1]").outputs == ("b/a[[]1]-*",)


def test_a_step_may_add_to_what_it_waits_for() -> None:
    """By its names, or for what it reads."""
    found = planned("""
    make: {command: x, outputs: d}
    other: {command: x, needs: make}
    add: {command: x, needs: other, outputs: d/a}
    read: {command: x, inputs: d/x, outputs: d/b}
    """)
    assert [run.outputs for step in found.steps for run in step.runs] == [("d",), (), ("d/a",), ("d/b",)]


def test_a_run_may_leave_a_directory_and_say_of_what_is_in_it() -> None:
    found = planned("{a: {command: x, matrix: {k: [d, e]}, outputs: ['{k}', '{k}/f', '{k}/*.txt', '{k}s/f']}}")
    assert run_of(found, "a", "k=d").outputs == ("d", "d/f", "d/*.txt", "ds/f")


def test_what_may_have_been_meant_otherwise_is_noted() -> None:
    found = planned(
        """
        a: {command: 'echo ${x} ${HOME}', matrix: {x: [1]}}
        b: {command: 'wc {file} > {output}', each: '*.txt', outputs: '{stem}.count.txt'}
        """,
        "a.txt", "a.count.txt",
    )  # fmt: skip
    assert found.notes == (
        "steps.a.command: ${x} is a variable of the shell; the value is {x}",
        "steps.b.each: a.count.txt is left out, because b writes it",
    )


def test_only_what_is_asked_for_is_looked_up() -> None:
    """However many runs there are."""
    asked: list[str] = []

    def look(pattern: str) -> list[str]:
        asked.append(pattern)
        return ["ref.fa", *(f"data/{number}.fq" for number in range(100))]

    steps = {"a": {"command": "x", "inputs": ["data/{n}.fq", "ref.fa"], "matrix": {"n": list(range(100))}}}
    (step,) = plan(read({"steps": steps}, ""), look).steps
    assert len(step.runs) == 100 and len(step.reads) == 101
    assert asked == ["data/*.fq"]


def test_with_the_files_of_a_real_directory(tmp_path: Path) -> None:
    for path in ("notes/x.txt", "notes/a b.txt", "ref/deep/r.fa", "[1].txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    content = yaml.safe_load(
        """
        steps:
          a:
            command: wc {file} {inputs}
            each: notes/*.txt
            inputs: [ref, 'ref/**/*.fa', '[[]1].txt', './notes/x.txt']
        """
    )
    (step,) = plan(read(content, ""), lambda pattern: glob.glob(pattern, root_dir=tmp_path, recursive=True)).steps
    assert [run.label for run in step.runs] == ["a b", "x"]
    assert step.runs[0].argv[-1] == "wc 'notes/a b.txt' ref ref/deep/r.fa '[1].txt' notes/x.txt"


def test_many_runs() -> None:
    """A chain of fans; that it is quick is for the benchmark to say."""
    steps: dict[str, object] = {}
    for number in range(5):
        one: dict[str, object] = {"command": "cat {inputs}", "collect": f"fan{number - 1}"}
        steps[f"one{number}"] = {**(one if number else {"command": "true"}), "outputs": f"{number}.txt"}
        steps[f"fan{number}"] = {
            "command": "work {input} {k}", "each": f"one{number}", "matrix": {"k": list(range(999))},
            "outputs": f"fan{number}/{{k}}",
        }  # fmt: skip
    found = plan(read({"steps": steps}, ""), lambda pattern: [])
    assert sum(len(step.runs) for step in found.steps) == 5000
    assert not any(run.needs for step in found.steps for run in step.runs)
    assert found.steps[-1].needs == ("one4",) and len(found.steps[-2].runs[0].inputs) == 999
