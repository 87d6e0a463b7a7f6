"""``turnout pipeline --resume``: a pipeline goes on from an earlier one, with the files and commands of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_pipelines import left_by, run, runs_of, states, written
from tests.harness import Cli

STEPS = """
a: {command: 'echo a{x} >> $SIDE/log; echo {x} > {output}', matrix: {x: [1, 2, 3]}, outputs: 'a/{x}'}
b: {command: 'echo b{x} >> $SIDE/log; sh b.sh {input} > {output}', each: a, outputs: 'b/{x}'}
all: {command: 'echo all >> $SIDE/log; cat {inputs} > {output}', collect: b, outputs: all.txt}
split: {command: 'echo split >> $SIDE/log; split -l 1 {input} parts/', inputs: all.txt, outputs: 'parts/*'}
turn: {command: 'echo turn >> $SIDE/log; cat {file} > {output}', each: 'parts/*', needs: split, outputs: 't/{name}'}
page: {command: 'echo page >> $SIDE/log; cat {inputs} > {output}', collect: turn, outputs: page.txt}
other: {command: echo other >> $SIDE/log}
"""
EVERYTHING = ["a1", "a2", "a3", "all", "b1", "b2", "b3", "other", "page", "split", "turn", "turn", "turn"]
GOOD, BAD = 'cat "$1"\n', 'test "$(cat "$1")" != 2 && cat "$1"\n'


@pytest.fixture
def side(tmp_path: Path) -> Path:
    return tmp_path


def submit(user: Cli, project: Path, side: Path, script: str, *options: str, code: int = 0, steps: str = STEPS) -> Any:
    (project / "b.sh").write_text(script)
    (side / "log").write_text("")
    return run(user, written(project, steps, env={"SIDE": str(side)}), *options, code=code)


def lines(side: Path) -> list[str]:
    return sorted((side / "log").read_text().split())


def test_after_a_script_was_mended(user: Cli, project: Path, side: Path, tmp_path: Path) -> None:
    first = submit(user, project, side, BAD, code=1)
    view = submit(user, project, side, GOOD, "--resume", first["name"])
    assert lines(side) == ["all", "b2", "page", "split", "turn", "turn", "turn"]
    assert view["state"] == "completed" and states(view)["b"] == {"completed": 3}
    assert left_by(user, view, "page", "page.txt", tmp_path) == "1\n2\n3\n"
    carried = next(each for each in runs_of(user, view, "b") if each["params"] == {"x": 1})
    assert carried["message"].startswith("taken over from run") and carried["attempts"] == 0
    user("extract", carried["name"], str(tmp_path / "carried"))
    assert (tmp_path / "carried" / "after" / "b" / "1").read_text() == "1\n"


def test_all_of_it_again_does_nothing(user: Cli, project: Path, side: Path, tmp_path: Path) -> None:
    """Also what is made later: its runs are those of the earlier one."""
    first = submit(user, project, side, GOOD)
    assert lines(side) == EVERYTHING
    second = submit(user, project, side, GOOD, "--resume", first["name"])
    third = submit(user, project, side, GOOD, "--resume", second["name"])
    assert lines(side) == [] and states(third) == states(first)
    assert left_by(user, third, "page", "page.txt", tmp_path) == "1\n2\n3\n"


def test_what_is_asked_for_otherwise_is_done_and_all_behind_it(user: Cli, project: Path, side: Path) -> None:
    first = submit(user, project, side, GOOD)
    steps = STEPS.replace("split -l 1", "split -l 2")
    view = submit(user, project, side, GOOD, "--resume", first["name"], steps=steps)
    assert lines(side) == ["page", "split", "turn", "turn"] and view["state"] == "completed"


def test_a_condition_asks_what_the_earlier_run_came_to(user: Cli, project: Path, side: Path) -> None:
    (project / "train.py").write_text("import turnout\nturnout.log(acc=0.9)\n")
    steps = """
    train: {command: 'echo train >> $SIDE/log; python train.py'}
    ship: {command: 'echo ship >> $SIDE/log', when: train.acc > 0.8}
    """
    first = submit(user, project, side, GOOD, steps=steps)
    view = submit(user, project, side, GOOD, "--resume", first["name"], steps=steps)
    assert lines(side) == [] and states(view) == {"train": {"completed": 1}, "ship": {"completed": 1}}


def test_what_is_no_pipeline(user: Cli, project: Path) -> None:
    job = user.json("run", "-d", "true")["job"]
    file = written(project, "a: {command: 'true'}")
    before = user.json("list", "jobs", "-n", "1")[0]["name"]
    done = user("pipeline", file, "--resume", job, check=False)
    assert done.returncode == 4 and f"{job} is no pipeline" in done.stderr
    done = user("pipeline", file, "--resume", "job999", check=False)
    assert done.returncode == 3 and "no job 'job999'" in done.stderr
    assert user.json("list", "jobs", "-n", "1")[0]["name"] == before, "what is refused leaves nothing"


def test_from_python(user: Cli, project: Path, side: Path) -> None:
    (project / "p.py").write_text(
        "import turnout\np = turnout.Pipeline()\n"
        f"p.step('a', 'echo a >> {side}/log')\n"
        "first = p.run()\nsecond = p.run(resume=first.name)\nprint(second.state)\n"
    )
    (side / "log").write_text("")
    done = user("exec", "p.py")
    assert done.stdout.strip() == "completed" and lines(side) == ["a"]


def test_how_many_is_said(user: Cli, project: Path, side: Path) -> None:
    first = submit(user, project, side, GOOD)
    (side / "log").write_text("")
    done = user("pipeline", "--json", "-d", "p.yaml", "--resume", first["name"])
    assert json.loads(done.stdout)["carried"] == 9 and "9 runs taken over from" in done.stderr


def test_one_in_another_place_is_not_taken_over(user: Cli, project: Path, side: Path, tmp_path: Path) -> None:
    first = submit(user, project, side, GOOD)
    view = submit(user, project, side, GOOD, "--resume", first["name"], "--shared", str(project))
    assert lines(side) == EVERYTHING and view["state"] == "completed"


def test_a_pipeline_that_is_under_way_is_not_deleted_in_parts(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = f"""
    a: {{command: 'echo > a', outputs: a}}
    slow: {{command: 'while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'}}
    late: {{command: 'cat {{file}}', each: 'a*', needs: [a, slow]}}
    b: {{command: 'cat a', inputs: a, needs: slow}}
    """
    told = user.json("pipeline", "-d", written(project, steps))
    (first,) = told["steps"]["a"]["runs"]
    user("attach", first)
    for words in (("run", first), ("job", told["steps"]["a"]["job"]), ("job", told["steps"]["b"]["job"])):
        done = user("delete", *words, "--yes", check=False)
        assert done.returncode == 4 and "not over" in done.stderr, done.stderr
    (tmp_path / "go").touch()
    assert user.json("attach", told["job"])["state"] == "completed"
    user("delete", "job", told["job"], "--yes")


def test_behind_what_was_skipped_both_times(user: Cli, project: Path) -> None:
    steps = """
    train: {matrix: {k: [1, 2, 3]}, command: 'touch {output}', outputs: 'm/{k}'}
    test: {each: train, when: train.params.k > 1, command: 'cp {input} {output}', outputs: 't/{k}'}
    page: {collect: test, command: 'cat {inputs} > {output}', outputs: page}
    final: {needs: page, command: 'cat page'}
    """
    file = written(project, steps)
    first = run(user, file)
    view = run(user, file, "--resume", first["name"])
    assert states(view) == states(first)
    again = user.json("list", "runs", view["name"], "--filter", "attempts > 0", "--all")
    assert again == [], "all that was done is taken over"
