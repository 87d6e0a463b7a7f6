"""Pipelines through the command line: looking at one before, running it, what is left, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import components
from tests.harness import Cli, at_terminal, user_environment, wait_until
from tests.slurm import Cluster, running_cluster
from tests.sshd import USER, running_box

EXAMPLE = Path(__file__).parents[2] / "examples" / "reads"
SAMPLES = ("brain", "heart", "kidney", "liver")
#: The second of three fails; what is done to the others goes on.
ONE_FAILS = """
a: {command: 'test {x} != 2 && echo {x} > {output}', matrix: {x: [1, 2, 3]}, outputs: 'a/{x}'}
b: {command: 'cat {input} > {output}', each: a, outputs: 'b/{x}'}
all: {command: 'cat {inputs}', collect: b}
after: {command: 'true', needs: all}
other: {command: echo fine}
"""


def written(project: Path, steps: str, **more: Any) -> str:
    """The name of a file with these steps, which are YAML; `more` stands beside them, for all."""
    (project / "p.yaml").write_text(yaml.safe_dump({**more, "pipeline": {"steps": yaml.safe_load(steps)}}))
    return "p.yaml"


def run(user: Cli, file: str, *options: str, code: int = 0, timeout: float = 60.0) -> dict[str, Any]:
    """The job of a pipeline that is over, if the command ended with this code."""
    done = user("pipeline", "--json", *options, file, check=False, timeout=timeout)
    assert done.returncode == code, done.stderr
    view: dict[str, Any] = json.loads(done.stdout)
    return view


def states(view: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Of each step, how its runs are."""
    return {step["name"]: step["counts"] for step in view["steps"]}


def runs_of(user: Cli, view: dict[str, Any], step: str) -> list[dict[str, Any]]:
    """Those of a step, in their order."""
    (job,) = (each["job"] for each in view["steps"] if each["name"] == step)
    found: list[dict[str, Any]] = user.json("list", "runs", "--filter", f"job = {job}", "--all")
    return found[::-1]


def left_by(user: Cli, view: dict[str, Any], step: str, path: str, folder: Path) -> str:
    """The text of a file that the only run of a step left."""
    (made,) = runs_of(user, view, step)
    name: str = made["name"]
    user("extract", name, str(folder / name))
    return (folder / name / "after" / path).read_text()


def last_job(user: Cli) -> list[str]:
    return [job["name"] for job in user.json("list", "jobs", "-n", "1")]


# --- the example ------------------------------------------------------------------------------------------------------


@pytest.fixture
def example(project: Path) -> Path:
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
    return project


@pytest.mark.parametrize(("file", "last", "name"), [
    ("pipeline.yaml", "report", "report.md"), ("reads.mp", "7", "mp.7.1.output.md"),
])  # fmt: skip
def test_the_example_gives_the_right_report(
    file: str, last: str, name: str, user: Cli, example: Path, tmp_path: Path
) -> None:
    view = run(user, file)
    assert (view["state"], view["counts"]) == ("completed", {"completed": 19})
    assert _tables(left_by(user, view, last, name, tmp_path)) == _right_tables(example)


def _tables(page: str) -> list[list[list[str]]]:
    """The rows of each table, without the line below the heads."""
    blocks = [block.splitlines() for block in page.split("\n\n") if block.startswith("|")]
    return [[line.strip("| ").split(" | ") for line in block if "---" not in line] for block in blocks]


def _right_tables(example: Path) -> list[list[list[str]]]:
    """The same from the samples themselves, by another way."""
    reads = {name: list(_trimmed(example / "samples" / f"{name}.fastq")) for name in SAMPLES}
    bases = {name: "".join(each) for name, each in reads.items()}
    figures = {
        "sample": list(SAMPLES),
        "reads": [str(len(each)) for each in reads.values()],
        "bases": [str(len(each)) for each in bases.values()],
        "mean length": [f"{len(bases[name]) / len(reads[name]):.1f}" for name in SAMPLES],
        "longest": [str(max(map(len, each))) for each in reads.values()],
        "GC %": [f"{100 * (each.count('G') + each.count('C')) / len(each):.2f}" for each in bases.values()],
    }
    return [[[name, *values] for name, values in figures.items()], _frequent(reads, 3), _frequent(reads, 6)]


def _trimmed(file: Path) -> Iterator[str]:
    lines = file.read_text().splitlines()
    for bases, quality in zip(lines[1::4], lines[3::4], strict=True):
        kept = len(quality.rstrip("".join(map(chr, range(33, 33 + 20)))))
        if kept >= 50:
            yield bases[:kept]


def _frequent(reads: dict[str, list[str]], k: int) -> list[list[str]]:
    counts = {
        name: Counter(
            word for read in each for at in range(len(read) - k + 1) if "N" not in (word := read[at : at + k])
        )
        for name, each in reads.items()
    }
    total = sum(counts.values(), Counter())
    words = sorted(total, key=lambda word: (-total[word], word))[:5]
    return [[f"{k}-mer", *SAMPLES], *([word, *(str(counts[name][word]) for name in SAMPLES)] for word in words)]


# --- before it begins -------------------------------------------------------------------------------------------------


def test_a_dry_run_shows_each_command_and_makes_nothing(user: Cli, example: Path) -> None:
    before = last_job(user)
    shown = user("pipeline", "--dry-run", "pipeline.yaml").stdout.splitlines()
    assert [line for line in shown if not line.startswith(" ")] == [
        "trim", "stats  after trim", "count  after trim", "join  after count", "report  after stats, join",
    ]  # fmt: skip
    assert "  heart,k=6  bash count.sh 6 trimmed/heart.fastq.gz > counts/6/heart.tsv" in shown
    told = user.json("pipeline", "--dry-run", "pipeline.yaml")
    assert [(step["step"], len(step["runs"])) for step in told] == [
        ("trim", 4), ("stats", 4), ("count", 8), ("join", 2), ("report", 1),
    ]  # fmt: skip
    assert told[3]["runs"][0]["needs"] == ["count:0", "count:2", "count:4", "count:6"], "those for three letters"
    assert told[3]["runs"][1]["outputs"] == ["joined/6.tsv"]
    assert last_job(user) == before


def test_a_dry_run_shows_commands_of_several_lines_as_they_are(user: Cli, project: Path) -> None:
    text = "echo a\n\nif true; then\n  echo '\x1b[31m'\nfi\n"
    steps = {"a": {"command": text}, "b": {"command": "echo {k}\n# {k}", "matrix": {"k": [1, 2]}}}
    shown = user("pipeline", "--dry-run", written(project, yaml.safe_dump(steps))).stdout
    harmless = "  echo a\n\n  if true; then\n    echo '\N{REPLACEMENT CHARACTER}[31m'\n  fi\n"
    assert shown == f"a\n{harmless}b\n  k=1\n    echo 1\n    # 1\n  k=2\n    echo 2\n    # 2\n"


def test_its_graph_in_every_form(user: Cli, example: Path) -> None:
    before = last_job(user)
    edges = {("trim", "stats"), ("trim", "count"), ("count", "join"), ("stats", "report"), ("join", "report")}
    assert user("pipeline", "--graph", "text", "pipeline.yaml").stdout.splitlines() == [
        "trim    4 runs",
        "stats   4 runs  after trim",
        "count   8 runs  after trim",
        "join    2 runs  after count",
        "report  1 run   after stats, join",
    ]
    dot = user("pipeline", "--graph", "dot", "pipeline.yaml").stdout
    assert set(re.findall(r'"(\w+)" -> "(\w+)"', dot)) == edges and dot.startswith("digraph")
    drawn = ElementTree.fromstring(user("pipeline", "--graph", "svg", "pipeline.yaml").stdout)
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[::2] == ["trim", "stats", "count", "join", "report"] and texts[5] == "8 runs"
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}path"))) == len(edges)
    assert last_job(user) == before


#: steps -> what is said of them, and what to do instead
WRONG = {
    "{a: {command: x, needs: c}, b: {command: x, needs: a}, c: {command: x, needs: b}}": (
        "p.yaml:2: steps: they wait for each other: a -> c -> b -> a", "let one of them begin without the other",
    ),
    "{fetch: {command: x}, b: {command: x, needs: fetsch}}": ("there is no step fetsch", "did you mean fetch?"),
    "{a: {command: 'cat {input}', inputs: gone.txt}}": ("gone.txt is missing, which a reads", "make it"),
    "{a: {command: 'wc {file}', each: 'gone/*.txt'}}": ("no file matches gone/*.txt", "mend the pattern"),
    "{a: {command: x, outputs: o}, b: {command: x, outputs: o}}": ("o is written by a and by b", "another path"),
    "{a: {command: x, matrix: {k: [1, 2]}, outputs: o}}": ("o is written by a[k=1] and by a[k=2]", "{k}"),
    "{a: {command: 'run {smaple}', matrix: {sample: [1]}}}": ("{smaple} is not known here", "did you mean {sample}?"),
    "{a: {comand: x}}": ("steps.a: nothing is called comand", "did you mean `command`?"),
    "{a: {command: 'true', target: nowhere}}": (
        "p.yaml:5: steps.a.target: no target 'nowhere'", "known targets: local",
    ),
    "{a: {command: 'true', setup: none}}": ("p.yaml:5: steps.a.setup: no setup 'none'", "section `setups`"),
    "{a: {command: 'true', experiment: a b}}": ("p.yaml:5: steps.a.experiment: experiment 'a b' is", "letters"),
    "{a: {command: 'true', grace: -1}}": ("p.yaml:5: steps.a.grace: must be at least 0, not -1", "another number"),
    "{a: {command: 'true', env: {X: 'secret:none'}}}": ("p.yaml:5: steps.a.env: no secret 'none'", "secret set none"),
    "{a: {command: 'true', working-dir: gone}}": ("p.yaml:5: steps.a.working-dir: no directory 'gone'", "frozen"),
    "{a: {command: [gone.py]}}": ("p.yaml:4: steps.a.command: no script 'gone.py'", "check the name"),
    "{a: {command: 'true', cpus: many}}": ("p.yaml:5: steps.a.cpus: 'many' is", "cpus: 1"),
    "{a: {command: 'true', search: {of: best}, time: 1 y}, b: {command: 'true', memory: a lot}}": (
        "p.yaml:6: steps.a.search.of: 'best' is none of last, min, max; leave it out for the last value\n"
        "p.yaml:7: steps.a.time: '1 y' is not a time; write 90s, 15m, 2h or 1:30:00\n"
        "p.yaml:10: steps.b.memory: 'a lot' is not a size; write 500M or 4G\n", "mend these",
    ),
    "{a: {command: 'true', target: [local, far]}}": (
        "p.yaml:5: steps.a.target: only a step with a search may have several targets", "write one: `target: NAME`",
    ),
    "{a: {command: 'true', name: b}}": ("p.yaml:3: steps.a: a step is called by its key", "leave `name:` out"),
    "{a: {command: 'true', code: ..}}": ("p.yaml:3: steps.a: code is for all steps alike", "beside `pipeline:`"),
    "{a: {command: 'true'}, b: {command: 'true', needs: a, when: sucess}}": (
        "p.yaml:8: steps.b.when: sucess is no condition", "did you mean `success`?",
    ),
    "{}": ("p.yaml:2: steps: there are none", "write `NAME:` below it"),
}  # fmt: skip
TEXTS = {
    "steps:\n  a: {command: x}\n": ("p.yaml is no pipeline", "write `pipeline:` there"),
    "pipeline:\n  steps: [a\n": ("p.yaml:3", "name: value"),
    "pipeline:\n  steps:\n    a: {command: x}\n    a: {command: y}\n": (
        "p.yaml:4: 'a' is there already, in line 3", "keep one of them",
    ),
    "pipeline:\n  steps: {a: {command: x}}\n  cpus: 4\n": (
        "p.yaml:3: cpus: stands beside `pipeline:`, not in it", "move it up",
    ),
    "pipeline:\n  fail-fast: true\n  steps: {a: {command: x}}\n": (
        "p.yaml:2: fail-fast: nothing is called so", "type --fail-fast",
    ),
    "pipeline: all\n": ("p.yaml:1: pipeline: is no block of names and values", "write `steps:`"),
    "pipeline:\n  shared: ~nobody-here/x\n  steps: {a: {command: x}}\n": (
        "p.yaml:2: shared: there is no directory", "under the same path",
    ),
    f"pipeline:\n  shared: {'a' * 5000}\n  steps: {{a: {{command: x}}}}\n": (
        "p.yaml:2: shared: there is no directory", "under the same path",
    ),
    'pipeline: {steps: {a: {command: x}}}\ncode: "a\\0"\n': ("p.yaml:2: code: there is no directory", "from where"),
    "pipeline: {steps: {a: {command: x}}}\ncode: gone\n": ("p.yaml:2: code: there is no directory", "from where"),
    "pipeline: {steps: {a: {command: x}}}\nname: a b\n": ("p.yaml:2: name: 'a b' is not a valid name", "letters"),
    "[COMMANDS]\ncat {o}\n": ("p.yaml looks like a file of Metapipe's", "let its name end in .mp"),
    f"pipeline:\n  steps:\n    a:\n      command: x\n      cpus: {'9' * 400}\n": (
        "p.yaml:5: steps.a.cpus: is too large", "another number",
    ),
    'pipeline:\n  steps:\n    a: {command: "\\ud800"}\n': ("p.yaml:3: found invalid Unicode", ""),
    "pipeline: {steps: {a: {command: 'true'}}}\ncolour: red\n": ("p.yaml:2: colour: nothing is called colour", "known"),
    "pipeline: {steps: {a: {command: 'true'}}}\ncommand: x\n": (
        "p.yaml:2: command: stands beside pipeline:", "write it into a step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", [*WRONG, *TEXTS])
def test_what_is_wrong_is_told_before_anything_begins(wrong: str, user: Cli, project: Path) -> None:
    said, hint = {**WRONG, **TEXTS}[wrong]
    if wrong in WRONG:
        written(project, wrong)
    else:
        (project / "p.yaml").write_text(wrong)
    _is_refused(user, said, hint, "p.yaml")


def test_a_file_or_a_target_that_is_not_there(user: Cli, project: Path) -> None:
    _is_refused(user, "gone.yaml", "check the path", "gone.yaml")
    _is_refused(user, "- is no file", "write it into one", "-")
    _is_refused(user, "a" * 70, "give a YAML or JSON file", "a" * 300)
    file = written(project, "a: {command: 'true'}")
    _is_refused(user, "no target 'nowhere'", "known targets: local", "--target", "nowhere", file)
    _is_refused(user, "name 'a b' is not a valid name", "letters", "--dry-run", "--name", "a b", file)
    _is_refused(user, "there is no directory", "under the same path", "--shared", "a" * 300, file)


def test_a_pipe_has_no_project_beside_it(user: Cli, project: Path) -> None:
    def typed(text: str, *words: str) -> str:
        done = subprocess.run(
            user.argv("pipeline", "/dev/stdin", "--dry-run", *words), input=text, capture_output=True, text=True,
            cwd=project, env=user_environment(user.home), check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    steps = "pipeline: {steps: {a: {command: 'true'}}}\n"
    assert "stdin is no file" in typed(steps) and "`code: DIRECTORY` says where" in typed(steps)
    assert typed(f"{steps}code: {project}\n") == typed(steps, "--shared", ".") == "a\n  true\n"


def _is_refused(user: Cli, said: str, hint: str, *words: str) -> None:
    before = last_job(user)
    done = user("pipeline", *words, check=False)
    assert done.returncode in (2, 3), done.stderr
    assert said in done.stderr and hint in done.stderr, done.stderr
    assert done.stdout == "" and last_job(user) == before


# --- while it goes on -------------------------------------------------------------------------------------------------


def test_what_is_shown_of_one_that_goes_well(user: Cli, project: Path) -> None:
    done = user(
        "pipeline", written(project, "{a: {command: 'true', matrix: {x: [1, 2]}}, b: {command: 'true', needs: a}}")
    )
    assert [line.split() for line in done.stdout.splitlines()[:2]] == [["a", "2", "completed"], ["b", "1", "completed"]]
    assert re.fullmatch(r"job\d+ completed: 3 completed, in .*", done.stdout.splitlines()[2])


def test_all_its_runs_are_found_by_its_job(user: Cli, project: Path) -> None:
    view = run(user, written(project, "{a: {command: 'true', matrix: {x: [1, 2]}}, b: {command: 'true', needs: a}}"))
    runs = user.json("list", "runs", "--filter", f"job={view['name']}")
    assert [each["label"] for each in runs] == ["b", "a", "a"]
    assert [each["params"] for each in runs] == [{}, {"x": 2}, {"x": 1}]
    jobs = {step["job"] for step in view["steps"]}
    assert {each["job"] for each in runs} == jobs and view["runs"] == 3
    again = user.json("show", runs[0]["job"])
    assert (again["pipeline"], again["step"]) == (view["name"], "b")


def test_tags_are_for_all_runs(user: Cli, project: Path) -> None:
    steps = "{a: {command: 'true', tags: {who: a}}, b: {command: 'true', needs: a}}"
    view = run(user, written(project, steps), "--tag", "why=test")
    tags = {step: [each["tags"] for each in runs_of(user, view, step)] for step in "ab"}
    assert tags == {"a": [{"who": "a", "why": "test"}], "b": [{"why": "test"}]}


def test_what_stands_beside_it_is_also_the_pipelines(user: Cli, project: Path) -> None:
    """Its name is no step's; tags are for all of it, those that are typed win, and a step adds its own."""
    steps = "{a: {command: 'true'}, b: {command: 'true', needs: a, tags: {who: b}}}"
    file = written(project, steps, name="told", tags={"who": "all", "why": "file"})
    view = run(user, file, "--tag", "why=typed")
    assert (view["label"], view["tags"]) == ("told", {"who": "all", "why": "typed"})
    tags = {step: [each["tags"] for each in runs_of(user, view, step)] for step in "ab"}
    assert tags == {"a": [{"who": "all", "why": "typed"}], "b": [{"who": "b", "why": "typed"}]}
    assert {step["job"]: user.json("show", step["job"])["label"] for step in view["steps"]} == {
        step["job"]: step["name"] for step in view["steps"]
    }
    assert run(user, file, "--name", "otherwise")["label"] == "otherwise"


def test_what_is_typed_wins_over_the_file_but_not_over_a_step(user: Cli, project: Path) -> None:
    steps = "{a: {command: 'true'}, b: {command: 'true', target: local, experiment: own}}"
    file = written(project, steps, target="nowhere", experiment="written")
    _is_refused(user, "p.yaml:10: target: no target 'nowhere'", "known targets: local", file)
    _is_refused(user, "step a: no target 'gone'", "known targets: local", "--target", "gone", file)
    view = run(user, file, "--target", "local", "--experiment", "typed")
    found = {step: [each["experiment"] for each in runs_of(user, view, step)] for step in "ab"}
    assert found == {"a": ["typed"], "b": ["own"]}
    own = written(project, "{a: {command: 'true', target: nowhere}}")
    _is_refused(user, "p.yaml:5: steps.a.target: no target 'nowhere'", "", "--target", "local", own)


def test_it_is_told_once_that_it_is_over(user: Cli, project: Path) -> None:
    """Not of each step, unless that asks for it itself."""
    told = user.home.parent / "notices"
    tell = f"cat >> {told}; echo >> {told}; echo $SAID >> {told}"
    steps = f"{{a: {{command: 'true'}}, b: {{command: 'true', needs: a, notify: 'touch {told}.b'}}}}"
    job = user.json("pipeline", "-d", written(project, steps, notify=tell), env={"SAID": "over"})["job"]
    wait_until(lambda: told.exists() and told.read_text().endswith("over\n") and told.with_suffix(".b").exists())
    notice, said = told.read_text().splitlines()
    assert (json.loads(notice)["name"], said) == (job, "over")
    told.unlink()


def test_values_are_what_they_are_in_a_shell(user: Cli, project: Path, tmp_path: Path) -> None:
    odd = ["it's; $(touch oops)", "two words", "*", '"$HOME"', "-n", "ä\\n"]
    steps = {
        "a": {"command": "printf '%s\\n' {x} > {output}", "matrix": {"x": odd}, "outputs": "a/{x}"},
        "b": {"command": "cat {inputs} > {output}; ls", "collect": "a", "outputs": "all.txt"},
    }
    view = run(user, written(project, yaml.safe_dump(steps)))
    assert left_by(user, view, "b", "all.txt", tmp_path).splitlines() == odd


def test_what_is_only_known_later(user: Cli, project: Path, tmp_path: Path) -> None:
    """A step says which files there are, the next is done to each of them."""
    steps = """
    split: {command: 'mkdir -p parts; split -l 2 --additional-suffix=.txt lines.txt parts/', outputs: 'parts/*.txt'}
    turn: {command: 'tac {file} > {output}', each: 'parts/*.txt', needs: split, outputs: 'turned/{stem}'}
    all: {command: 'cat {inputs} > {output}', collect: turn, outputs: all.txt}
    """
    (project / "lines.txt").write_text("1\n2\n3\n4\n5\n")
    view = run(user, written(project, steps))
    assert states(view) == {"split": {"completed": 1}, "turn": {"completed": 3}, "all": {"completed": 1}}
    assert left_by(user, view, "all", "all.txt", tmp_path).split() == ["2", "1", "4", "3", "5"]
    assert [each["params"]["file"] for each in runs_of(user, view, "turn")] == [f"parts/a{x}.txt" for x in "abc"]


def test_a_script_in_a_list_is_one_also_where_it_is_only_known_later(user: Cli, project: Path) -> None:
    (project / "tell.py").write_text("import sys; print(sys.argv[1:])\n")
    (project / "say.sh").write_text("#!/bin/sh\necho $RUN_ARGS$ braces: {file} {{x}}\n")
    view = run(user, written(project, """
    s: {command: touch p/1 p/2, outputs: 'p/*'}
    late: {needs: s, each: 'p/*', command: [tell.py, '{file}', '{{x}}']}
    said: {needs: s, each: 'p/*', command: [say.sh, '{file}']}
    asks: {needs: s, when: s.exit_code = 0, command: [tell.py, asked]}
    find: {needs: s, each: 'p/1', command: [tell.py], search: {space: {x: [1, 2]}, sampler: grid}}
    """))  # fmt: skip
    assert view["state"] == "completed", view
    assert user("logs", "late").stdout == "['p/2', '{x}']\n"
    assert user("logs", "said").stdout == "p/2 braces: {file} {{x}}\n"
    assert user("logs", "asks").stdout == "['asked']\n"
    wrong = written(project, "{s: {command: 'true', outputs: 'p/*'}, l: {needs: s, each: 'p/*', command: [gone.py]}}")
    _is_refused(user, "no script 'gone.py'", "scripts are looked for", wrong)


def test_a_search_that_never_began(user: Cli, project: Path) -> None:
    find = "search: {space: {x: [1, 2]}, sampler: grid, minimize: loss}, command: 'true'"
    view = run(user, written(project, f"""
    s: {{command: touch p/1, outputs: 'p/*'}}
    bad: {{command: exit 3}}
    late: {{needs: [s, bad], each: 'p/*', {find}}}
    known: {{needs: bad, {find}}}
    """), code=1)  # fmt: skip
    for step in ("late", "known"):
        told = user("why", step).stdout
        assert "something it depends on did not complete" in told and "being asked" not in told
        assert "cancelled" in user("show", f"{view['name']}.{step}").stdout
        assert "no run has told its objective" in user("best", step).stdout


def test_a_search_as_a_step(user: Cli, project: Path) -> None:
    (project / "train.py").write_text("import turnout\nturnout.log(loss=turnout.params()['x'])\n")
    steps = """
    before: {command: 'true'}
    find: {command: python train.py, needs: before, search: {space: {x: [1, 2, 3]}, sampler: grid, minimize: loss}}
    then: {command: 'true', needs: find}
    """
    view = run(user, written(project, steps))
    assert states(view) == {"before": {"completed": 1}, "find": {"completed": 3}, "then": {"completed": 1}}


@pytest.fixture
def going(user: Cli, project: Path, tmp_path: Path) -> str:
    """A pipeline whose first two runs wait until there is ``go``; the others wait for them."""
    wait = f"echo begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    steps = {
        "a": {"command": wait, "matrix": {"x": [1, 2]}},
        "b": {"command": f"touch {tmp_path}/b; ls > parts/x", "needs": "a", "outputs": "parts/*"},
        "late": {"command": f"touch {tmp_path}/late", "each": "parts/*", "needs": "b"},
    }
    return written(project, yaml.safe_dump(steps))


def test_it_may_be_left_alone(user: Cli, going: str, tmp_path: Path) -> None:
    told = user.json("pipeline", "-d", going)
    assert list(told["steps"]) == ["a", "b", "late"] and told["steps"]["late"]["runs"] == []
    first, second = told["steps"]["a"]["runs"]
    waiting = user("why", told["steps"]["b"]["runs"][0]).stdout
    assert f"It waits for {first} (a)" in waiting and f"{second} (a)" in waiting
    (tmp_path / "go").touch()
    assert user.json("attach", told["job"])["state"] == "completed" and (tmp_path / "late").exists()


def test_why_tells_what_a_step_waits_for(user: Cli, project: Path) -> None:
    job = user.json("pipeline", "-d", written(project, "{huge: {command: 'true', cpus: 500}}"))["job"]
    wait_until(lambda: "can never start: it needs 500 cpus" in user("why", job).stdout, 20.0)
    user("cancel", "job", job)


def test_ctrl_c_detaches_and_it_goes_on(user: Cli, going: str, tmp_path: Path) -> None:
    shown = at_terminal(user, "", "pipeline", going, interrupt_at=["job"])
    (job,) = set(re.findall(r"(job\d+) goes on", shown))
    assert f"turnout cancel job {job}" in shown
    (tmp_path / "go").touch()
    assert user.json("attach", job)["counts"] == {"completed": 4}


def test_cancel_ends_all_of_it(user: Cli, going: str, tmp_path: Path) -> None:
    told = user.json("pipeline", "-d", going)
    running = told["steps"]["a"]["runs"]
    wait_until(lambda: all(user("logs", name).stdout == "begun\n" for name in running), what="both are under way")
    user("cancel", "job", told["job"])
    view = wait_until(lambda: (now := user.json("show", told["job"]))["state"] == "cancelled" and now)
    assert states(view) == {"a": {"cancelled": 2}, "b": {"cancelled": 1}, "late": {"cancelled": 1}}
    (tmp_path / "go").touch()
    assert user.json("show", told["job"])["live"] == 0
    assert not (tmp_path / "b").exists() and not (tmp_path / "late").exists()


# --- when something fails ---------------------------------------------------------------------------------------------


def test_a_failure_stops_only_what_depends_on_it(user: Cli, project: Path) -> None:
    view = run(user, written(project, ONE_FAILS), code=1)
    assert view["state"] == "failed"
    assert states(view) == {
        "a": {"completed": 2, "failed": 1}, "b": {"completed": 2, "cancelled": 1},
        "all": {"cancelled": 1}, "after": {"cancelled": 1}, "other": {"completed": 1},
    }  # fmt: skip
    failed, stopped = runs_of(user, view, "a")[1], runs_of(user, view, "b")[1]
    assert (failed["reason"], stopped["reason"]) == ("exit_code", "dependency")
    why = user("why", stopped["name"]).stdout
    assert "something it depends on did not complete" in why and f"{failed['name']} failed" in why
    assert failed["name"] in user("why", view["name"]).stdout


def test_the_first_failure_may_end_all(user: Cli, project: Path) -> None:
    """And nobody says that a person did."""
    view = run(
        user, written(project, "{bad: {command: sleep 0.3; exit 3}, long: {command: sleep 60}}"), "--fail-fast", code=1
    )
    assert states(view) == {"bad": {"failed": 1}, "long": {"cancelled": 1}}
    told = user("why", "long").stdout
    assert "another run of its pipeline failed" in told and "person" not in told


def test_what_is_shown_of_one_that_fails(user: Cli, project: Path) -> None:
    done = user("pipeline", written(project, ONE_FAILS), check=False)
    assert done.returncode == 1 and "2 completed, 1 failed" in " ".join(done.stdout.split())
    assert re.search(r"job\d+ failed: 3 cancelled, 5 completed, 1 failed", done.stdout)
    assert re.search(r"not all steps are done\n  \w+\[\S+\] \(run\d+\): exit code 1\n  `turnout why job", done.stderr)


@pytest.mark.parametrize(("outputs", "missing"), [("x.txt", "x.txt"), ("[made, 'parts/*.csv']", "parts/*.csv")])
def test_a_step_that_does_not_leave_what_it_says(outputs: str, missing: str, user: Cli, project: Path) -> None:
    steps = f"{{a: {{command: 'echo > made', outputs: {outputs}}}, b: {{command: 'true', needs: a}}}}"
    view = run(user, written(project, steps), code=1)
    assert states(view) == {"a": {"failed": 1}, "b": {"cancelled": 1}}
    (made,) = runs_of(user, view, "a")
    assert (made["reason"], made["exit_code"]) == ("no_output", 0)
    assert user("why", made["name"]).stdout.splitlines()[1:] == [
        f"  It failed: its command ended well, but it left no {missing}."
    ]


#: Commands of a step that has to leave x.txt, which is there before, and whether it does.
LEAVES = [
    ("true", False), ("cat {output}", False), ("mkdir -p y; touch y/x.txt", False), ("cp x.txt x && mv x x.txt", True),
    ("touch {output}", True), ("echo more >> {output}", True), ("echo of the project > {output}", True),
]  # fmt: skip


@pytest.mark.parametrize(("command", "is_left"), LEAVES)
def test_what_it_was_given_is_not_left_unless_it_is_written_anew(
    command: str, is_left: bool, user: Cli, project: Path
) -> None:
    (project / "x.txt").write_text("of the project\n")
    steps = {"a": {"command": command, "outputs": "x.txt"}, "b": {"command": "cat {input}", "inputs": "x.txt"}}
    view = run(user, written(project, yaml.safe_dump(steps)), code=0 if is_left else 1)
    (made,) = runs_of(user, view, "a")
    assert made["reason"] == (None if is_left else "no_output")


def test_an_output_may_be_called_as_what_a_run_prints_is(user: Cli, project: Path) -> None:
    """A link to that has the name else, in each run."""
    view = run(user, written(project, """
    a: {command: "echo result > {output}; echo printed", outputs: output.txt}
    b: {command: cat output.txt; echo more > more.txt, needs: a, outputs: '*.txt'}
    c: {command: 'ls *.txt; readlink output.txt', needs: b}
    """))  # fmt: skip
    assert view["state"] == "completed", view
    assert [user("logs", step).stdout for step in ("a", "b")] == ["printed\n", "result\n"]
    assert "more.txt\noutput.txt\n../ctl/output\n" in user("logs", "c").stdout


def test_what_other_steps_left_is_not_left_again(user: Cli, project: Path, tmp_path: Path) -> None:
    """Of a pattern, and of a directory, counts what is new."""
    (project / "parts").mkdir()
    (project / "parts" / "old").write_text("of the project")
    (project / "parts" / "link").symlink_to("old")
    steps = """
    a: {command: 'touch parts/a', outputs: 'parts/*'}
    b: {command: 'touch parts/b', needs: a, outputs: '**/b'}
    none: {command: 'ls parts', needs: a, outputs: '**/a'}
    each: {command: 'echo {file}', each: 'parts/*', needs: [a, b]}
    """
    view = run(user, written(project, steps), code=1)
    assert states(view)["none"] == {"failed": 1}
    assert [each["params"]["file"] for each in runs_of(user, view, "each")] == ["parts/a", "parts/b"]
    (made,) = runs_of(user, view, "a")
    user("extract", made["name"], str(tmp_path / "left"))
    assert [each.name for each in (tmp_path / "left" / "after" / "parts").iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("make", "outputs", "found"),
    [
        ("echo there > data.txt; ln -s data.txt a", "a", "a"),
        ("echo there > data.txt; ln -s $PWD/data.txt a", "[a, data.txt]", "a data.txt"),
        ("echo there > data.txt; ln -s ../data.txt parts/a", "parts/*", "parts/a"),
        ("mkdir run3; echo there > run3/data.txt; ln -s run3 latest", "latest", "latest/data.txt"),
        (
            "mkdir run3; echo there > run3/data.txt; ln -s run3 latest",
            "[latest, run3]",
            "latest/data.txt run3/data.txt",
        ),
        ("mkdir run3; ln -s run3 latest; echo there > {output}", "latest/data.txt", "latest/data.txt"),
        ('ln -s "$ELSEWHERE" ref.fa', "ref.fa", "ref.fa"),
        ('ln -s "$ELSEWHERE" refs/a.fa', "refs/*.fa", "refs/a.fa"),
        ("ln -s given.txt a", "a", "a"),
    ],
)
def test_what_a_link_leads_to_is_handed_on(
    make: str, outputs: str, found: str, user: Cli, project: Path, tmp_path: Path
) -> None:
    (project / "given.txt").write_text("there\n")
    (tmp_path / "genome.fa").write_text("there\n")
    files = found.split()
    steps = {
        "make": {
            "command": make.replace("$ELSEWHERE", str(tmp_path / "genome.fa")),
            "outputs": yaml.safe_load(outputs),
        },
        "move": {"command": f"rm -f given.txt; cat {found}", "needs": "make"},
    }
    view = run(user, written(project, yaml.safe_dump(steps)))
    assert user("logs", "move").stdout == "there\n" * len(files), states(view)
    assert left_by(user, view, "make", files[0], tmp_path) == "there\n"


def test_what_is_written_behind_a_link_that_is_handed_on_too(user: Cli, project: Path) -> None:
    """The next step has both: what the link leads to, and what was written there."""
    view = run(user, written(project, """
    make: {command: 'mkdir run3; echo 1 > run3/a; ln -s run3 latest', outputs: [latest, run3]}
    add: {command: 'echo 2 > {output}', needs: make, outputs: latest/b}
    show: {command: 'cat latest/a latest/b; ls run3', needs: [make, add]}
    """))  # fmt: skip
    assert user("logs", "show").stdout == "1\n2\na\n", states(view)


@pytest.mark.parametrize(
    ("make", "outputs", "told"),
    [
        ("ln -s gone.txt a", "a", "it left no a, but a link to gone.txt, which is not there."),
        ("ln -s /gone/far a", "a", "it left no a, but a link to /gone/far, which is not there."),
        ("ln -s gone parts/x", "parts/*", "it left no parts/*, but parts/x is a link to gone, which is not there."),
        ("ln -s a a", "a", "it left no a, but a link to a, which leads round in a circle, or over too many links."),
        ("ln -s /dev/zero a", "a", "it left no a, but a link to /dev/zero, which is neither a file nor a directory."),
        ("ln -s /usr a", "a", "it left no a, but a link to /usr, a directory out of the run's: copy it"),
        ("ln -s /usr a", "b", "it left no b."),
        ("rm -r a; ln -s /usr a", "a/no/such", "it left no a/no/such, but a is a link to /usr, a directory out of"),
    ],
)
def test_a_link_that_leads_to_no_file_is_no_output(
    make: str, outputs: str, told: str, user: Cli, project: Path
) -> None:
    view = run(user, written(project, yaml.safe_dump({"a": {"command": make, "outputs": outputs}})), code=1)
    (made,) = runs_of(user, view, "a")
    assert made["reason"] == "no_output" and told in user("why", made["name"]).stdout, user("why", made["name"]).stdout


def test_a_late_step_with_nothing_to_do(user: Cli, project: Path) -> None:
    """It cannot be known before: there are files, but none of those that it is done to."""
    steps = """
    split: {command: 'mkdir -p parts; touch parts/a.txt', outputs: 'parts/*'}
    each: {command: 'wc {file}', each: 'parts/*.csv', needs: split}
    """
    view = run(user, written(project, steps), code=1)
    assert states(view) == {"split": {"completed": 1}, "each": {"failed": 1}}
    why = user("why", runs_of(user, view, "each")[0]["name"]).stdout
    assert "no file matches parts/*.csv that split left; mend the pattern, or what they leave" in why


# --- on several targets -----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    components.slurm()
    with running_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


def test_metapipe_files_read_what_lies_elsewhere(user: Cli, project: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("b.gz", "a.gz", "c.txt"):
        (tmp_path / "data" / name).write_text(f"{name}\n")
    text = f"[COMMANDS]\ncat {{1}} {{{tmp_path}/data/*.gz||}} > {{o}}\ncat {{1.*}}\n[FILES]\n1. {tmp_path}/data/c.txt\n"
    (project / "p.mp").write_text(text)
    view = run(user, "p.mp")
    assert states(view) == {"1": {"completed": 2}, "2": {"completed": 1}}
    assert user("logs", "2.1").stdout == "c.txt\na.gz\nc.txt\nb.gz\n"
    (project / "bad.mp").write_text("[COMMANDS]\ncat {../x.gz} {/nowhere/*.gz}\n")
    _is_refused(user, "bad.mp:2:6: there is no file ../x.gz", "give its absolute path", "bad.mp")


def test_how_one_stands(cli: Cli) -> None:
    """By its number, or by a name of its own; with a line for each step."""
    run(cli, written(cli.cwd, "a: {command: 'true'}\nb: {command: 'false', needs: a}"), "--name", "mine", code=1)
    first, *table = cli("status", "mine").stdout.splitlines()
    assert first == "job1  failed  1 completed, 1 failed"
    assert [line.split()[:4] for line in table if line.startswith(("a ", "b "))] == [
        ["a", "job2", "local", "completed"], ["b", "job3", "local", "failed"],
    ]  # fmt: skip
    assert cli("status", "job1").stdout == cli("status", "mine").stdout
    assert cli.json("status", "mine")["steps"] == cli.json("status", "job1")["steps"] != []
    assert cli("status", "job1.b").stdout == "job3  failed  1 failed\n"


def test_a_run_is_told_of_which_job_it_is(cli: Cli) -> None:
    """Also where steps differ in nothing but their commands."""
    told = "echo $TURNOUT_JOB $XT_JOB_ID $TURNOUT_RUN_NAME"
    view = run(cli, written(cli.cwd, f"a: {{command: '{told}'}}\nb: {{command: '{told};', needs: a}}"))
    for step in view["steps"]:
        (made,) = runs_of(cli, view, step["name"])
        assert cli("logs", made["name"]).stdout.split() == [step["job"], step["job"], made["name"]]


def test_a_target_that_gives_each_job_nodes_of_its_own(cli: Cli, tmp_path: Path) -> None:
    """Steps take what nodes there are: whoever waits for a run waits for that one, and not for who makes it."""
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text("compute-targets: {many: {service: local, nodes: 2}}\n")
    steps = """
    a: {command: 'echo {n} > {output}', matrix: {n: [1, 2, 3]}, outputs: 'a/{n}'}
    b: {command: 'cat {input} {input} > {output}', each: a, outputs: 'b/{n}'}
    c: {command: 'cat {inputs} > {output}', collect: b, outputs: c}
    """
    view = run(cli, written(cli.cwd, steps), "--target", "many")
    assert states(view) == {"a": {"completed": 3}, "b": {"completed": 3}, "c": {"completed": 1}}
    assert left_by(cli, view, "c", "c", tmp_path) == "1\n1\n2\n2\n3\n3\n"


@pytest.mark.xdist_group("slurm")
@pytest.mark.timeout(200)
def test_steps_on_several_targets(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    """One on a cluster, the next on a box of a user who can read nothing of ours, the last here. What each leaves goes
    to the next through the hub."""
    shutil.copytree(EXAMPLE, cli.cwd, dirs_exist_ok=True)
    content = yaml.safe_load((cli.cwd / "pipeline.yaml").read_text())
    for step, target in {"trim": "cluster", "stats": "far", "count": "far"}.items():
        content["pipeline"]["steps"][step]["target"] = target
        content["pipeline"]["steps"][step]["command"] += "; id -un"
    (cli.cwd / "pipeline.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    with running_box(components.sshd()) as box:
        told = {"service": "slurm", "partition": "p", "directory": str(cli.home.parent / "shared")}
        cli.home.mkdir(parents=True, exist_ok=True)
        settings = f"compute-targets: {json.dumps({'cluster': told})}\nboxes:\n  far: {box.entry()}\n"
        (cli.home / "config.yaml").write_text(settings)
        view = run(cli, "pipeline.yaml", timeout=150.0)
        places: Sequence[tuple[str, str]] = [(step["name"], step["target"]) for step in view["steps"]]
        assert places == [
            ("trim", "cluster"), ("stats", "far"), ("count", "far"), ("join", "local"), ("report", "local"),
        ]  # fmt: skip
        assert {cli("logs", each["name"]).stdout for each in runs_of(cli, view, "count")} == {f"{USER}\n"}
        assert cluster.all_jobs(), "there was an allocation"
        assert _tables(left_by(cli, view, "report", "report.md", tmp_path)) == _right_tables(cli.cwd)
        cli("hub", "stop")
    cluster("scancel", "--me")
    wait_until(lambda: not cluster.jobs(), 30.0)


@pytest.mark.xdist_group("slurm")
@pytest.mark.timeout(200)
def test_steps_on_several_targets_in_one_directory(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    """The file system that a cluster shares with this machine: a step there, the next here, and nothing is copied."""
    told = {"service": "slurm", "partition": "p", "directory": str(cli.home.parent / "shared")}
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"compute-targets: {json.dumps({'cluster': told})}\n")
    (tmp_path / "lines.txt").write_text("1\n2\n3\n")
    steps = """
    split: {command: 'split -l 1 lines.txt parts/', target: cluster, outputs: 'parts/*'}
    all: {command: 'cat {inputs} > {output}', inputs: 'parts/*', outputs: all.txt}
    """
    view = run(cli, written(cli.cwd, steps), "--shared", str(tmp_path), timeout=150.0)
    assert [step["target"] for step in view["steps"]] == ["cluster", "local"]
    assert (tmp_path / "all.txt").read_text() == "1\n2\n3\n"
    assert cluster.all_jobs(), "there was an allocation"
    cli("hub", "stop")
    cluster("scancel", "--me")
    wait_until(lambda: not cluster.jobs(), 30.0)


def test_a_run_that_is_done_to_one_file_has_that_and_not_the_others(user: Cli, project: Path) -> None:
    """Unless it says that it reads them."""
    view = run(user, written(project, """
    s: {command: 'touch p/1 p/2 all.txt', outputs: ['p/*', all.txt]}
    t: {command: 'touch q/{i}', matrix: {i: [1, 2]}, outputs: 'q/{i}'}
    one: {needs: s, each: 'p/*', command: 'echo p/* a*.txt'}
    known: {needs: t, each: 'q/*', command: 'echo q/*'}
    many: {needs: s, each: 'p/*', inputs: 'p/*', command: 'echo p/*'}
    """))  # fmt: skip
    said = {
        step: [user("logs", each["name"]).stdout.strip() for each in runs_of(user, view, step)]
        for step in ("one", "known", "many")
    }
    assert said == {
        "one": ["p/1 all.txt", "p/2 all.txt"], "known": ["q/1", "q/2"], "many": ["p/1 p/2"] * 2,
    }  # fmt: skip


def test_the_others_are_there_where_the_command_names_them(user: Cli, project: Path) -> None:
    """By the name of the step that left them, or because they are collected; or a link leads to one."""
    view = run(user, written(project, """
    s: {command: 'for i in 1 2; do echo $i > p/$i.txt; done; ln -s 1.txt p/3.txt', outputs: 'p/*'}
    named: {needs: s, each: 'p/*', command: 'cat {file} {inputs.s}'}
    all: {each: 'p/*', collect: s, needs: s, command: 'cat {file} {inputs}'}
    own: {needs: s, each: 'p/*', command: 'cat {file}'}
    """))  # fmt: skip
    assert states(view) == {
        "s": {"completed": 1}, "named": {"completed": 3}, "all": {"completed": 3}, "own": {"completed": 3},
    }  # fmt: skip
    said = [user("logs", each["name"]).stdout for each in runs_of(user, view, "own")]
    assert said == ["1\n", "2\n", "1\n"]


def test_values_that_are_there_twice_where_the_runs_are_known_later(user: Cli, project: Path) -> None:
    steps = "{s: {command: 'touch p/1', outputs: 'p/*'}, t: {needs: s, each: 'p/*', matrix: {k: [1, 1]}, command: x}}"
    done = user("pipeline", "--dry-run", written(project, steps), check=False)
    assert done.returncode == 2 and "steps.t.matrix: k=1 is there twice" in done.stderr
