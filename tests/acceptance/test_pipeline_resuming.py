"""``turnout resume`` of a pipeline: what is missing is done, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.test_pipelines import run, runs_of, states, written
from tests.harness import Cli, wait_until

#: Each run leaves a line in a file beside the project, and the second fails until there is ``mended`` there.
STEPS = """
a: {command: 'echo a{x} >> $SIDE/log; test {x} != 2 -o -e $SIDE/mended; echo {x} > {output}', matrix: {x: [1, 2, 3]}, outputs: 'a/{x}'}
b: {command: 'echo b{x} >> $SIDE/log; cat {input} > {output}', each: a, outputs: 'b/{x}'}
all: {command: 'echo all >> $SIDE/log; cat {inputs} > {output}', collect: b, outputs: all.txt}
split: {command: 'echo split >> $SIDE/log; mkdir -p parts; split -l 1 {input} parts/', inputs: all.txt, outputs: 'parts/*'}
turn: {command: 'echo turn >> $SIDE/log; rev {file} > {output}', each: 'parts/*', needs: split, outputs: 'turned/{name}'}
other: {command: echo other >> $SIDE/log}
"""  # noqa: E501


def resumed(user: Cli, job: str, *options: str, code: int = 0) -> dict[str, Any]:
    done = user("resume", job, "--json", *options, check=False)
    assert done.returncode == code, done.stderr
    return dict(yaml.safe_load(done.stdout))


@pytest.fixture
def failed(user: Cli, project: Path, tmp_path: Path) -> dict[str, Any]:
    return run(user, written(project, STEPS, env={"SIDE": str(tmp_path)}), code=1)


def lines(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "log").read_text().split())


def test_what_completed_is_not_done_again(failed: dict[str, Any], user: Cli, tmp_path: Path) -> None:
    assert lines(tmp_path) == ["a1", "a2", "a3", "b1", "b3", "other"]
    (tmp_path / "log").unlink()
    (tmp_path / "mended").touch()
    view = resumed(user, failed["name"])
    assert (view["name"], view["state"]) == (failed["name"], "completed")
    assert lines(tmp_path) == ["a2", "all", "b2", "split", "turn", "turn", "turn"]
    assert states(view) == {
        "a": {"completed": 3}, "b": {"completed": 3}, "all": {"completed": 1}, "split": {"completed": 1},
        "turn": {"completed": 3}, "other": {"completed": 1},
    }  # fmt: skip
    user("extract", runs_of(user, view, "split")[-1]["name"], str(tmp_path / "left"))
    assert (tmp_path / "left" / "after" / "parts" / "ab").read_text() == "2\n"
    runs = user.json("list", "runs", "--filter", f"job={view['name']} and label=a", "--all")
    assert [each["state"] for each in runs] == ["completed", "completed", "failed", "completed"], "how it was is kept"


def test_nothing_to_do(failed: dict[str, Any], user: Cli, tmp_path: Path) -> None:
    (tmp_path / "mended").touch()
    resumed(user, failed["name"])
    (tmp_path / "log").unlink()
    assert resumed(user, failed["name"]) == {"job": failed["name"], "steps": {}, "later": []}
    assert "nothing is missing: 12 completed" in user("resume", failed["name"]).stdout
    assert not (tmp_path / "log").exists()


def test_it_may_fail_again(failed: dict[str, Any], user: Cli, tmp_path: Path) -> None:
    view = resumed(user, failed["name"], code=1)
    assert view["state"] == "failed" and states(view) == states(failed)
    assert lines(tmp_path) == ["a1", "a2", "a2", "a3", "b1", "b3", "other"]
    (tmp_path / "mended").touch()
    assert resumed(user, failed["name"])["state"] == "completed"


def test_after_a_cancel(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = {
        "a": {"command": f"echo begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"},
        "b": {"command": "touch parts/x", "needs": "a", "outputs": "parts/*"},
        "late": {"command": f"touch {tmp_path}/late", "each": "parts/*", "needs": "b"},
    }
    told = user.json("pipeline", "-d", written(project, yaml.safe_dump(steps)))
    wait_until(lambda: user("logs", told["steps"]["a"]["runs"][0]).stdout == "begun\n", what="it is under way")
    user("cancel", "job", told["job"])
    wait_until(lambda: user.json("show", told["job"])["state"] == "cancelled")
    (tmp_path / "go").touch()
    answer = user.json("resume", "-d", told["job"])
    assert list(answer["steps"]) == ["a", "b", "late"] and answer["steps"]["late"] == []
    assert user.json("attach", told["job"])["state"] == "completed" and (tmp_path / "late").exists()


def test_while_it_goes_on(user: Cli, project: Path, tmp_path: Path) -> None:
    """What failed is done again at once, though other steps are under way."""
    steps = {
        "a": {"command": f"test -e {tmp_path}/mended"},
        "b": {"command": f"touch {tmp_path}/b", "needs": ["a", "slow"]},
        "slow": {"command": f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"},
    }
    told = user.json("pipeline", "-d", written(project, yaml.safe_dump(steps)))
    wait_until(lambda: user.json("show", told["job"])["counts"].get("failed"), what="the first has failed")
    (tmp_path / "mended").touch()
    answer = user.json("resume", "-d", told["job"])
    assert list(answer["steps"]) == ["a", "b"]
    user("attach", answer["steps"]["a"][0])
    assert user.json("show", answer["steps"]["b"][0])["state"] == "created"
    (tmp_path / "go").touch()
    assert user.json("attach", told["job"])["state"] == "completed" and (tmp_path / "b").exists()


def test_what_is_collected_has_its_order(user: Cli, project: Path, tmp_path: Path) -> None:
    """That of an undisturbed pipeline, whichever run was done again."""
    view = run(user, written(project, f"""
    s: {{command: touch p/1 p/2 p/3, outputs: 'p/*'}}
    f:
      needs: s
      each: p/*
      command: test {{name}} != 2 || test -e {tmp_path}/mended; touch {{output}}
      outputs: f/{{name}}
    j: {{collect: f, command: 'echo {{inputs}}'}}
    """), code=1)  # fmt: skip
    (tmp_path / "mended").touch()
    resumed(user, view["name"])
    assert user("logs", "j").stdout == "f/1 f/2 f/3\n"
    assert f"`turnout resume {view['name']}`" not in user("why", "j").stdout


def test_a_step_that_something_under_way_needs_stays_until_that_is_over(
    user: Cli, project: Path, tmp_path: Path
) -> None:
    """And is then done again with all that was made of it: it tells of what is so no more."""
    steps = f"""
    a: {{command: 'test -e {tmp_path}/mended'}}
    told: {{command: 'test -e {tmp_path}/mended && echo well > told || echo bad > told', needs: a, when: always,
            outputs: told}}
    page: {{command: 'until test -e {tmp_path}/go; do sleep 0.1; done; cat told', needs: told}}
    """
    job = user.json("pipeline", "-d", written(project, steps))["job"]
    wait_until(lambda: states(user.json("show", job))["page"] == {"running": 1}, 30.0)
    (tmp_path / "mended").touch()
    done = user("resume", "-d", job)
    assert "1 run again, of a" in done.stdout
    assert (
        f"told stays as it is, for something that is under way needs it; when that is over, type `turnout resume {job}`"
        in done.stderr
    )
    (tmp_path / "go").touch()
    assert user.json("attach", job)["state"] == "completed"
    assert user("logs", "page").stdout == "bad\n"
    view = resumed(user, job)
    assert states(view) == {name: {"completed": 1} for name in ("a", "told", "page")}
    assert user("logs", "page").stdout == "well\n"
    assert "nothing is missing" in user("resume", job).stdout


def test_what_still_waits_reads_what_is_made_anew(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = f"""
    a: {{command: 'test -e {tmp_path}/mended'}}
    told: {{command: 'test -e {tmp_path}/mended && echo well > told || echo bad > told', needs: a, when: always,
            outputs: told}}
    slow: {{command: 'until test -e {tmp_path}/go; do sleep 0.1; done'}}
    page: {{command: cat told, needs: [told, slow]}}
    """
    job = user.json("pipeline", "-d", written(project, steps))["job"]
    wait_until(lambda: states(user.json("show", job))["told"] == {"completed": 1}, 30.0)
    (tmp_path / "mended").touch()
    done = user("resume", "-d", job)
    assert "2 runs again, of a, told" in done.stdout and not done.stderr
    (tmp_path / "go").touch()
    assert user.json("attach", job)["state"] == "completed"
    assert user("logs", "page").stdout == "well\n"
    assert "nothing is missing" in user("resume", job).stdout


def test_a_search_that_was_given_up(user: Cli, project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("import turnout\nturnout.log(loss=turnout.params()['x'])\n")
    steps = f"""
    before: {{command: 'test -e {tmp_path}/mended'}}
    find:
      command: python train.py
      needs: before
      search: {{space: {{x: [1, 2, 3]}}, sampler: grid, minimize: loss}}
    then: {{command: 'true', needs: find}}
    """
    view = run(user, written(project, steps), code=1)
    (tmp_path / "mended").touch()
    view = resumed(user, view["name"])
    assert states(view) == {"before": {"completed": 1}, "find": {"completed": 3}, "then": {"completed": 1}}


def test_a_step_is_named_by_its_job(failed: dict[str, Any], user: Cli) -> None:
    name = f"{failed['name']}.a"
    assert user.json("show", name)["step"] == "a"
    assert "1 failed, 2" not in user("why", name).stdout and "failed with exit code 1" in user("why", name).stdout
    assert len(user.json("list", "runs", name)) == 3
    assert user.json("why", "b")["job"] == next(each["job"] for each in failed["steps"] if each["name"] == "b")
    missing = user("show", f"{failed['name']}.gone", check=False)
    assert missing.returncode == 3 and f"turnout show {failed['name']}" in missing.stderr


def test_why_of_a_pipeline_says_what_to_do(failed: dict[str, Any], user: Cli) -> None:
    told = user("why", failed["name"]).stdout
    assert "Not well: a, b, all, split, turn" in told and f"turnout resume {failed['name']}" in told
    (a,) = [each for each in runs_of(user, failed, "a") if each["state"] == "failed"]
    assert a["name"] in told


def test_a_run_that_reads_what_others_left_is_not_done_alone(user: Cli, project: Path) -> None:
    """It would fail for want of that."""
    steps = "{a: {command: 'echo x > {output}', outputs: x}, b: {needs: a, command: cat x; exit 3}}"
    view = run(user, written(project, steps), code=1)
    refused = user("rerun", "b", check=False)
    assert refused.returncode != 0 and f"turnout resume {view['name']}" in refused.stderr
    assert f"`turnout resume {view['name']}` does it once more" not in user("why", "a").stdout
    assert user("rerun", "--wait", "a").returncode == 0


def test_what_is_no_pipeline(user: Cli, project: Path) -> None:
    told = user.json("run", "-d", "true")
    done = user("resume", told["job"], check=False)
    assert done.returncode != 0 and "is no search" in done.stderr


def test_a_step_is_resumed_with_its_pipeline(failed: dict[str, Any], user: Cli) -> None:
    (job,) = [step["job"] for step in failed["steps"] if step["name"] == "a"]
    for name in (job, f"{failed['name']}.a"):
        done = user("resume", name, check=False)
        assert done.returncode == 4 and f"{name} is the step a of {failed['name']}" in done.stderr
        assert f"`turnout resume {failed['name']}`" in done.stderr


@pytest.mark.parametrize(("command", "hint"), [
    ("rerun", "`turnout resume {job}`"), ("logs", "`turnout attach {step}`"),
    ("metrics", "`turnout list runs {step}`"),
])  # fmt: skip
def test_a_job_where_a_run_is_wanted(command: str, hint: str, failed: dict[str, Any], user: Cli) -> None:
    job = failed["name"]
    (step,) = [step["job"] for step in failed["steps"] if step["name"] == "a"]
    done = user(command, f"{job}.a", check=False)
    assert done.returncode == 3 and f"{job}.a is a job, and no run" in done.stderr
    assert hint.format(job=job, step=step) in done.stderr


@pytest.mark.parametrize("command", ["run", "search"])
def test_a_pipeline_where_a_job_is_wanted(command: str, user: Cli, project: Path) -> None:
    done = user(command, written(project, "a: {command: 'true'}"), check=False)
    assert done.returncode == 2 and "p.yaml is a pipeline" in done.stderr
    assert "`turnout pipeline p.yaml` runs it" in done.stderr


def test_cancel_all_ends_also_what_is_not_made_yet(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = f"""
    a: {{command: 'while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'}}
    last: {{command: 'touch {tmp_path}/last', needs: a, when: always}}
    """
    told = user.json("pipeline", "-d", written(project, steps))
    user("cancel", "all")
    wait_until(lambda: user.json("show", told["job"])["state"] == "cancelled")
    assert not (tmp_path / "last").exists()


def test_the_outputs_of_a_static_search_are_asked_for(user: Cli, project: Path) -> None:
    search = "{space: {x: [1, 2]}, sampler: grid, minimize: loss, static: true}"
    (project / "train.py").write_text("import turnout\nturnout.log(loss=1)\n")
    view = run(user, written(project, f"find: {{command: python train.py, search: {search}, outputs: m}}"), code=1)
    assert states(view) == {"find": {"failed": 2}}
    assert {each["reason"] for each in runs_of(user, view, "find") if each["parent"]} == {"no_output"}


def test_what_is_done_again_keeps_its_place_among_those_that_are_collected(
    user: Cli, project: Path, tmp_path: Path
) -> None:
    """Also where only some are, and which files they leave is not known before."""
    steps = f"""
    a: {{matrix: {{k: [x, y], i: [1, 2]}}, command: 'test {{i}} = 2 -o -e {tmp_path}/mended; touch a/{{k}}{{i}}-f',
        outputs: 'a/{{k}}{{i}}-*'}}
    b: {{collect: a, matrix: {{k: [x, y]}}, command: 'echo {{inputs}}'}}
    """
    view = run(user, written(project, steps), code=1)
    assert states(view) == {"a": {"completed": 2, "failed": 2}, "b": {"cancelled": 2}}
    (tmp_path / "mended").touch()
    view = resumed(user, view["name"])
    said = [user("logs", each["name"]).stdout for each in runs_of(user, view, "b") if each["state"] == "completed"]
    assert said == ["a/x1-f a/x2-f\n", "a/y1-f a/y2-f\n"]


def test_what_is_extracted_of_a_step_is_what_counts(user: Cli, project: Path, tmp_path: Path) -> None:
    """Not what was made of it before it was done again."""
    steps = f"""
    a: {{command: 'test -e {tmp_path}/mended && echo well > a.txt', outputs: a.txt}}
    told: {{needs: a, when: always, command: 'cat a.txt > told || echo bad > told', outputs: told}}
    """
    view = run(user, written(project, steps), code=1)
    (tmp_path / "mended").touch()
    resumed(user, view["name"])
    for number, name in enumerate((f"{view['name']}.told", "told")):
        user("extract", name, str(tmp_path / f"out{number}"))
        assert (tmp_path / f"out{number}" / "after" / "told").read_text() == "well\n"
