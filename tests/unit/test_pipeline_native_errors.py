"""What is said of a pipeline that cannot be: before anything begins, all of it, and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from turnout.errors import InvalidInput
from turnout.model.pipeline import MOST_STEPS
from turnout.pipeline.native import plan, read
from turnout.pipeline.native.paths import matcher
from turnout.pipeline.plan import Plan, StepPlan

FILES = ("notes/x.txt", "notes/y.txt", "here.fa")


def attempt(content: Any, job_keys: tuple[str, ...] | None) -> None:
    plan(read(content, "p.yaml", job_keys), lambda pattern: [file for file in FILES if matcher(pattern)(file)])


def refusal(content: Any, job_keys: tuple[str, ...] | None = None) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        attempt(content, job_keys)
    return caught.value


#: steps -> the only problem, and what to write instead
SHAPES = {
    "[]": ("steps: there are none", "write `NAME:` below it, and `command: …` below that"),
    "[{command: x}]": (
        "steps: are no block of names and values",
        "write `NAME:` below it, and `command: …` below that",
    ),
    "a b: {command: x}": ("steps: 'a b' is no name of a step", "use letters, digits, `_` and `-`"),
    "yes: {command: x}": ("steps: true is no name of a step", "use letters, digits, `_` and `-`"),
    "{1: {command: x}, '1': {command: x}}": ("steps: there are two of the name 1", "give each its own"),
    "a: x": ("steps.a: is no block of names and values", "write `command: …` below it"),
    "a: {comand: x, command: x}": ("steps.a: nothing is called comand", "did you mean `command`?"),
    "a: {output: x, command: x}": ("steps.a: nothing is called output", "did you mean `outputs`?"),
    "a: {cpus: 4}": ("steps.a: there is nothing to do", "write `command: …` or `function: module:name`"),
    "a: {command: x, function: 'm:f'}": ("steps.a: there are a command and a function", "make two steps of it"),
    "a: {command: ''}": ("steps.a.command: is empty", "leave it out, or write something"),
    "a: {command: []}": ("steps.a.command: is empty", "write the program, and its arguments after it"),
    "a: {command: true}": ("steps.a.command: true is no text", "put it in quotes"),
    "a: {command: [ls, null]}": ("steps.a.command: null is no text", "put it in quotes"),
    "a: {command: {x: y}}": ("steps.a.command: {'x': 'y'} is no text", "write `command: TEXT`"),
    "a: {function: my.module}": ("steps.a.function: 'my.module' is no function of a module", "write `module:name`"),
    "a: {command: x, args: {n: 1}}": (
        "steps.a.args: are for a function", "write what the command gets into the command",
    ),
    "a: {function: 'm:f', args: [1]}": ("steps.a.args: are no names and values", "write `NAME: VALUE` below it"),
    "a: {function: 'm:f', args: {day: 2024-05-01}}": (
        "steps.a.args: have something that JSON cannot hold", "use numbers, texts, lists; put dates in quotes",
    ),
    "a: {command: x, matrix: [a, b]}": (
        "steps.a.matrix: is no block of names and values",
        "write `NAME: [VALUE, VALUE]` below it, or a list of such rows",
    ),
    "a: {command: x, matrix: {k: []}}": ("steps.a.matrix.k: has no values", "write at least one"),
    "a: {command: x, matrix: {k: [null]}}": ("steps.a.matrix.k: null is no value", "put it in quotes"),
    "a: {command: x, matrix: {k: [[1]]}}": (
        "steps.a.matrix.k: [1] is no value", "write texts, numbers, true or false",
    ),
    "a: {command: x, matrix: {k: [.nan]}}": ("steps.a.matrix.k: nan is no value", "put it in quotes"),
    "a: {command: x, matrix: {a b: [1]}}": (
        "steps.a.matrix: 'a b' is no name",
        "use 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or '_'",
    ),
    "a: {command: x, matrix: {file: [1]}}": (
        "steps.a.matrix.file: is a name that is taken",
        "call it otherwise; input, inputs, output, outputs, file, name, stem, step are places of their own",
    ),
    "a: {command: x, matrix: {inputs.ref: [1]}}": (
        "steps.a.matrix.inputs.ref: is a name that is taken",
        "call it otherwise; input, inputs, output, outputs, file, name, stem, step are places of their own",
    ),
    "a: {command: x, matrix: [{k: 1}, {k: 1, j: 2}]}": (
        "steps.a.matrix: row 2 has other names than the first: j", "give all rows the same",
    ),
    "a: {command: x, outputs: {0: x}}": (
        "steps.a.outputs: 0 is no name",
        "use 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or '_'",
    ),
    "a: {command: x, needs: [true]}": ("steps.a.needs: true is no text", "put it in quotes"),
}  # fmt: skip

PLACES = {
    "a: {command: 'run {smaple}', matrix: {sample: [1]}}": (
        "steps.a.command: {smaple} is not known here", "did you mean {sample}? If it is text, write {{smaple}}",
    ),
    "a: {command: \"awk '{print}'\"}": (
        "steps.a.command: {print} is not known here", "known: {step}. If it is text, write {{print}}",
    ),
    "a: {command: [run, '{a-b.c}']}": (
        "steps.a.command: {a-b.c} is not known here", "known: {step}. If it is text, write {{a-b.c}}",
    ),
    "a: {function: 'm:f', args: {x: ['{y}']}}": (
        "steps.a.args: {y} is not known here", "known: {step}. If it is text, write {{y}}",
    ),
    "a: {command: 'cat {input}'}": (
        "steps.a.command: there is nothing for {input}", "write `inputs: PATH`, or `each: STEP`",
    ),
    "a: {command: 'x > {output}'}": ("steps.a.command: there is nothing for {output}", "write `outputs: PATH`"),
    "a: {command: 'x {stem}'}": (
        "steps.a.command: there is nothing for {stem}", "write `each:` with a pattern of files",
    ),
    "a: {command: x, outputs: '{input}.gz', inputs: here.fa}": (
        "steps.a.outputs: {input} is not known here", "known: {step}. If it is text, write {{input}}",
    ),
    "a: {command: 'x {inputs.rev}', inputs: {ref: here.fa}}": (
        "steps.a.command: {inputs.rev} is not known here",
        "did you mean {inputs.ref}? If it is text, write {{inputs.rev}}",
    ),
    "a: {command: 'x {inputs.1}', inputs: [here.fa]}": (
        "steps.a.command: {inputs.1} is not known here",
        "did you mean {inputs.0}? If it is text, write {{inputs.1}}",
    ),
    "a: {command: 'x {output}', outputs: [o, p]}": (
        "steps.a.command: {output} is one file, and there are 2", "write {outputs}, or {outputs.0}",
    ),
    "a: {command: 'x {output}', outputs: 'o/*'}": (
        "steps.a.command: {output} is a pattern, and no file", "write into the command which files it makes",
    ),
    "a: {command: 'x {input}', inputs: 'notes/*'}": (
        "steps.a.command: {input} is one file, and a has 2", "write {inputs} for all there are",
    ),
    "{a: {command: x}, b: {command: 'cat {inputs}', needs: a}}": (
        "steps.b.command: there is nothing for {inputs} of b", "write what they leave into `outputs:` of a",
    ),
    "{a: {command: x, outputs: o}, b: {command: 'cat {inputs.1}', needs: a}}": (
        "steps.b.command: there is nothing for {inputs.1} of b", "write what they leave into `outputs:` of a",
    ),
    r"a: {command: 'echo \{x}', matrix: {x: [1]}}": (
        "steps.a.command: a backslash stands before {x}", "leave it out, or write {{x}} if it is text",
    ),
}  # fmt: skip

GRAPHS = {
    "{fetch: {command: x}, b: {command: x, needs: fetsch}}": (
        "steps.b.needs: there is no step fetsch", "did you mean fetch?",
    ),
    "{a: {command: x}, b: {command: x, collect: [a, zzz]}}": (
        "steps.b.collect: there is no step zzz", "there are a, b",
    ),
    "{fetch: {command: x}, b: {command: x, each: fetsch}}": (
        "steps.b.each: fetsch is no step, and no pattern of files", "did you mean fetch?",
    ),
    "{a: {command: x, each: 'notes/{k}*'}}": (
        "steps.a.each: {k} is not filled in here", "write a pattern of files as it is, and use `matrix:` for values",
    ),
    "{a: {command: x, each: '../*.txt'}}": (
        "steps.a.each: ../*.txt leads out of the directory of the pipeline", "move the files into it",
    ),
    "{a: {command: x, needs: a}}": (
        "steps: they wait for each other: a -> a", "let one of them begin without the other",
    ),
    "{z: {command: x, needs: b}, a: {command: x, needs: c}, b: {command: x, each: a}, c: {command: x, collect: b}}": (
        "steps: they wait for each other: a -> c -> b -> a", "let one of them begin without the other",
    ),
    "{a: {command: x, inputs: b.txt, outputs: a.txt}, b: {command: x, inputs: [a.txt], outputs: b.txt}}": (
        "steps: they wait for each other: a -> b -> a", "let one of them begin without the other",
    ),
    "{a: {command: x, inputs: here.fa, outputs: here.fa}}": (
        "steps: they wait for each other: a -> a", "let one of them begin without the other",
    ),
    "{a: {command: x, each: 'notes/*', outputs: '{file}'}}": (
        "steps: they wait for each other: a -> a", "let one of them begin without the other",
    ),
    "{a: {command: x, matrix: {k: [1]}}, b: {command: x, each: a, matrix: {k: [2]}}}": (
        "steps.b.matrix.k: comes from a already", "leave it out of one of them, or call it otherwise",
    ),
    "{a: {command: x, matrix: {k: [1]}}, b: {command: x, needs: a, matrix: {k: [1, 2]}}}": (
        "steps.b: no run of a has k=2, as b[k=2] has", "give both steps the same values, or call them otherwise",
    ),
}  # fmt: skip

RUNS = {
    "{a: {command: x, matrix: {k: [1, '1']}}}": ("steps.a.matrix: k=1 is there twice", "leave one out"),
    "{a: {command: x, each: 'nots/*.txt'}}": (
        "steps.a.each: no file matches nots/*.txt",
        "mend the pattern, which is relative to the directory of the pipeline",
    ),
    "{a: {command: x, each: 'parts/*'}, b: {command: x, matrix: {k: [1]}, outputs: 'parts/{k}'}}": (
        "steps.a.each: no file matches parts/*", "b may leave such files: then write `needs: b`",
    ),
    "{a: {command: x, each: 'parts/*', needs: b}, b: {command: x}}": (
        "steps.a.each: no file matches parts/*", "mend it, or say in `outputs:` of b that such files are left",
    ),
    "{a: {command: x, each: 'notes/*'}, b: {command: x, outputs: ['notes/x.txt', 'notes/y*']}}": (
        "steps.a.each: only files match notes/* that b writes", "write `needs: b` for those, or mend the pattern",
    ),
    "{a: {command: x, inputs: hero.fb}, b: {command: x, outputs: hero.fq}}": (
        "steps.a.inputs: hero.fb is missing, which a reads: it is no file of the project, and no step leaves it",
        "did you mean hero.fq?",
    ),
    "{a: {command: x, matrix: {k: [u]}, inputs: 'z/{k}.fa'}}": (
        "steps.a.inputs: z/u.fa is missing, which a[k=u] reads: it is no file of the project, and no step leaves it",
        "make it, or write it as the step does that leaves it",
    ),
    "{a: {command: x, inputs: 'z/*.fa'}}": (
        "steps.a.inputs: nothing matches z/*.fa, which a reads",
        "make it, or write it as the step does that leaves it",
    ),
    "{a: {command: x, inputs: ../here.fa}}": (
        "steps.a.inputs: ../here.fa leads out of the directory of the run, and a reads it",
        "bring it into the directory of the pipeline, or give its absolute path",
    ),
    "{a: {command: x, outputs: d}, b: {command: x, matrix: {k: [1]}, outputs: './d/{k}'}}": (
        "steps.b.outputs: d/1 of b[k=1] lies in d, which a writes", "give one of them another path",
    ),
    "{a: {command: x, outputs: 'd/e/*.txt'}, b: {command: x, outputs: d}}": (
        "steps.a.outputs: d/e/*.txt of a lies in d, which b writes", "give one of them another path",
    ),
    "{a: {command: x, outputs: d/f}, b: {command: x, needs: a, outputs: d}}": (
        "steps.a.outputs: d/f of a lies in d, which b writes", "give one of them another path",
    ),
    "{a: {command: x, matrix: {k: [d, d/e/f]}, outputs: '{k}'}}": (
        "steps.a.outputs: d/e/f of a[k=d/e/f] lies in d, which a[k=d] writes",
        "put what tells the runs apart into the path: {k}",
    ),
    "{a: {command: x, outputs: o}, b: {command: x, matrix: {k: [1]}, outputs: ./o}}": (
        "steps.b.outputs: o is written by a and by b[k=1]", "give one of them another path",
    ),
    "{a: {command: x, matrix: {k: [1, 2]}, outputs: o}}": (
        "steps.a.outputs: o is written by a[k=1] and by a[k=2]",
        "put what tells the runs apart into the path: {k}",
    ),
    "{a: {command: x, each: 'notes/*', outputs: 'o/*'}}": (
        "steps.a.outputs: o/* is written by a[x] and by a[y]",
        "put what tells the runs apart into the path: {file}",
    ),
    "{a: {command: x, outputs: /o}}": (
        "steps.a.outputs: /o is absolute", "write a path below the directory of the run",
    ),
    "{a: {command: x, matrix: {k: ['../..']}, outputs: 'o/{k}'}}": (
        "steps.a.outputs: .. leads out of the directory of the run", "write a path below the directory of the run",
    ),
    "{a: {command: x, outputs: o/..}}": (
        "steps.a.outputs: . names no file", "write a path below the directory of the run",
    ),
    "{a: {command: x, outputs: \"o\\0\"}}": (
        "steps.a.outputs: o\0 cannot be a path", "write a path below the directory of the run",
    ),
    "{a: {command: x, each: 'p/*', needs: b, outputs: '/{name}'}, b: {command: x, outputs: 'p/*'}}": (
        "steps.a.outputs: /* is absolute", "write a path below the directory of the run",
    ),
    "{a: {command: x, each: 'p/*', needs: b, inputs: 'z/{name}'}, b: {command: x, outputs: 'p/*'}}": (
        "steps.a.inputs: z/{name} is missing: it is no file of the project, and no step leaves it",
        "make it, or write it as the step does that leaves it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("steps", [*SHAPES, *PLACES, *GRAPHS, *RUNS])
def test_the_only_problem(steps: str) -> None:
    what, instead = {**SHAPES, **PLACES, **GRAPHS, **RUNS}[steps]
    error = refusal({"steps": yaml.safe_load(steps)})
    assert (error.message, error.hint) == (f"p.yaml: {what}", instead)


def test_all_problems_of_a_file_are_told_at_once() -> None:
    error = refusal(yaml.safe_load("{stps: 1, steps: {a: {command: true, matrix: {k: []}}, b: {}, 'c c': {}}}"))
    assert error.message.splitlines() == [
        "p.yaml: stps: nothing is called so; write `steps:`, and the steps below it",
        "p.yaml: steps.a.command: true is no text; put it in quotes",
        "p.yaml: steps.a.matrix.k: has no values; write at least one",
        "p.yaml: steps.b: there is nothing to do; write `command: …` or `function: module:name`",
        "p.yaml: steps: 'c c' is no name of a step; use letters, digits, `_` and `-`",
    ]


def test_all_problems_of_a_graph_are_told_at_once() -> None:
    steps = yaml.safe_load(
        """
        one: {command: x, needs: two}
        two: {command: x, needs: one}
        three: {command: x, needs: tree}
        after: {command: 'cat {inputs}', each: three}
        wrong: {command: 'run {kk}', matrix: {k: [1]}, outputs: 'w/{k}'}
        empty: {command: x, each: 'no/*.txt'}
        missing: {command: x, inputs: [no.txt, w/1]}
        twice: {command: x, matrix: {k: [1, 2]}, outputs: o}
        out: {command: x, outputs: ../o}
        """
    )
    assert refusal({"steps": steps}).message.splitlines() == [
        "p.yaml: steps.three.needs: there is no step tree; did you mean three?",
        "p.yaml: steps: they wait for each other: one -> two -> one; let one of them begin without the other",
        "p.yaml: steps.wrong.command: {kk} is not known here; did you mean {k}? If it is text, write {{kk}}",
        "p.yaml: steps.empty.each: no file matches no/*.txt; mend the pattern, which is relative to the directory of "
        "the pipeline",
        "p.yaml: steps.twice.outputs: o is written by twice[k=1] and by twice[k=2]; put what tells the runs apart into "
        "the path: {k}",
        "p.yaml: steps.out.outputs: ../o leads out of the directory of the run; write a path below the directory of "
        "the run",
        "p.yaml: steps.missing.inputs: no.txt is missing, which missing reads: it is no file of the project, and no "
        "step leaves it; make it, or write it as the step does that leaves it",
    ]


def test_the_same_problem_of_many_runs_is_told_for_some() -> None:
    steps = {"a": {"command": "x", "matrix": {"k": list(range(1000))}, "inputs": "no/{k}"}, "b": {"command": "{y}"}}
    lines = refusal({"steps": steps}).message.splitlines()
    assert [line.partition(": it is")[0] for line in lines] == [
        "p.yaml: steps.b.command: {y} is not known here; known: {step}. If it is text, write {{y}}",
        *(f"p.yaml: steps.a.inputs: no/{k} is missing, which a[k={k}] reads" for k in range(3)),
        "p.yaml: … and more",
    ]


def test_too_many_steps_are_told_by_whoever_plans() -> None:
    with pytest.raises(InvalidInput, match="there are 100,001 steps, and a pipeline has up to 100,000"):
        Plan(steps=(StepPlan(name="a"),) * (MOST_STEPS + 1))


def test_too_many_runs_are_not_even_made() -> None:
    values = list(range(1000))
    steps = {"a": {"command": "x", "matrix": dict.fromkeys("pqrstuvw", values)}, "b": {"command": "x", "each": "a"}}
    error = refusal({"steps": steps})
    assert error.message == "p.yaml: steps: there would be more than 1,000,000 runs"
    assert error.hint == "do more in each of them; a is where it became too many"


def test_names_of_what_a_job_may_have_are_checked_if_they_are_known() -> None:
    content = yaml.safe_load("steps: {a: {command: x, cpu: 4, memory: 1G, xyzzy: 1}}")
    error = refusal(content, job_keys=("cpus", "memory"))
    assert "steps.a: nothing is called cpu; did you mean `cpus`?" in error.message
    assert "steps.a: nothing is called xyzzy; known: command, function" in error.message
    assert read(content, "p.yaml").steps[0].job == {"cpu": 4, "memory": "1G", "xyzzy": 1}


def test_what_is_known_is_told_once_without_what_no_step_has() -> None:
    error = refusal({"steps": {"a": {"command": "x", "xyzzy": 1}}}, job_keys=("command", "name", "code", "cpus"))
    assert error.hint == ("known: command, function, args, needs, matrix, each, collect, inputs, outputs, when, cpus")


@pytest.mark.parametrize(("key", "said", "instead"), [
    ("name", "a step is called by its key", "leave `name:` out"),
    ("code", "code is for all steps alike", "say it for the pipeline: beside `pipeline:`, or to Pipeline(…)"),
])  # fmt: skip
def test_what_is_the_pipelines_is_no_key_of_a_step(key: str, said: str, instead: str) -> None:
    error = refusal({"steps": {"a": {"command": "x", key: "y"}}}, job_keys=("name", "code"))
    assert (error.message, error.hint) == (f"p.yaml: steps.a: {said}", instead)
