"""``when:`` of a step, and what a search hands on."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.acceptance.test_pipelines import left_by, run, runs_of, states, written
from tests.harness import Cli, wait_until

TRAIN = "import sys, turnout\nturnout.log(acc=float(sys.argv[1]))\nopen(sys.argv[2], 'w').write(sys.argv[1])\n"


def test_only_what_is_good_goes_on(user: Cli, project: Path) -> None:
    (project / "train.py").write_text(TRAIN)
    steps = """
    train: {command: 'python train.py {acc} {output}', matrix: {acc: [0.5, 0.9, 0.7]}, outputs: 'm/{acc}'}
    test: {command: 'cat {input} > {output}', each: train, when: train.acc > 0.6, outputs: 't/{acc}'}
    page: {command: 'cat {inputs}', collect: test}
    """
    view = run(user, written(project, steps))
    assert states(view) == {
        "train": {"completed": 3}, "test": {"completed": 2, "skipped": 1}, "page": {"completed": 1},
    }  # fmt: skip
    told = [(each["params"]["acc"], each["reason"]) for each in runs_of(user, view, "test")]
    assert told == [(0.5, "condition"), (0.9, None), (0.7, None)]
    (page,) = runs_of(user, view, "page")
    assert user("logs", page["name"]).stdout == "0.90.7"


def test_what_is_skipped_is_no_failure(user: Cli, project: Path) -> None:
    (project / "train.py").write_text(TRAIN)
    steps = """
    train: {command: 'python train.py 0.5 {output}', outputs: m}
    ship: {command: 'ship {input}', inputs: m, when: train.acc > 0.6}
    tell: {command: 'echo told', needs: ship}
    done: {command: 'echo done', needs: ship, when: not failure}
    """
    view = run(user, written(project, steps))
    assert view["state"] == "completed"
    assert states(view) == {
        "train": {"completed": 1}, "ship": {"skipped": 1}, "tell": {"skipped": 1}, "done": {"completed": 1},
    }  # fmt: skip
    why = user("why", f"{view['name']}.ship").stdout
    (ship,) = runs_of(user, view, "ship")
    assert (ship["state"], ship["reason"]) == ("cancelled", "condition")
    (told,) = user("why", ship["name"]).stdout.splitlines()[1:]
    assert told == "  It was skipped: its condition, train.acc > 0.6, does not hold: train.acc is 0.5.", why


def test_after_a_failure(user: Cli, project: Path) -> None:
    steps = """
    a: {command: 'exit 3', matrix: {x: [1, 2]}}
    b: {command: 'true', needs: a}
    clean: {command: 'echo cleaned', needs: b, when: failure}
    fine: {command: 'true', needs: b, when: not failure}
    last: {command: 'echo last', needs: [clean, fine], when: always}
    """
    view = run(user, written(project, steps), code=1)
    assert view["state"] == "failed"
    assert states(view) == {
        "a": {"failed": 2}, "b": {"cancelled": 1}, "clean": {"completed": 1}, "fine": {"skipped": 1},
        "last": {"completed": 1},
    }  # fmt: skip


def test_each_run_is_asked_about_the_one_before_it(user: Cli, project: Path) -> None:
    """Not about its siblings."""
    view = run(user, written(project, """
    a: {matrix: {i: [1, 2, 3]}, command: 'test {i} != 2; touch {output}', outputs: 'a{i}'}
    mend: {each: a, when: failure, command: 'echo mend {i} [{inputs}]'}
    go: {each: a, when: not failure, command: 'echo on {i}'}
    tell: {collect: a, when: always, command: 'echo tell [{inputs}]'}
    """), code=1)  # fmt: skip
    assert states(view) == {
        "a": {"completed": 2, "failed": 1}, "mend": {"completed": 1, "skipped": 2},
        "go": {"completed": 2, "skipped": 1}, "tell": {"completed": 1},
    }  # fmt: skip
    (mend,) = (each for each in runs_of(user, view, "mend") if each["state"] == "completed")
    assert user("logs", mend["name"]).stdout == "mend 2 []\n", "what left nothing has no files"
    assert user("logs", "tell").stdout == "tell [a1 a3]\n"


def test_behind_what_was_skipped(user: Cli, project: Path) -> None:
    view = run(user, written(project, """
    a: {matrix: {i: [1, 2]}, command: 'true'}
    b: {each: a, when: a.state = failed, command: 'echo {i}', outputs: 'b{i}'}
    c: {collect: b, matrix: {i: [1, 2]}, when: not failure, command: 'echo {i} [{inputs}]'}
    d: {each: b, when: always, command: 'echo {i}'}
    e: {each: b, command: 'echo {i}'}
    f: {collect: b, command: 'echo {inputs}'}
    """))  # fmt: skip
    assert states(view) == {
        "a": {"completed": 2}, "b": {"skipped": 2}, "c": {"completed": 2}, "d": {"completed": 2},
        "e": {"skipped": 2}, "f": {"skipped": 1},
    }  # fmt: skip


def test_behind_what_never_had_runs(user: Cli, project: Path) -> None:
    """One that stands for those has no values, and there is nothing to be done to it."""
    view = run(user, written(project, """
    a: {command: 'exit 3', outputs: 'parts/*'}
    b: {needs: a, each: 'parts/*', command: 'echo {name} > {output}', outputs: 'b/{name}'}
    c: {each: b, when: always, command: 'echo {name}'}
    d: {collect: b, when: always, command: 'echo [{inputs}]'}
    """), code=1)  # fmt: skip
    assert states(view) == {
        "a": {"failed": 1}, "b": {"cancelled": 1}, "c": {"skipped": 1}, "d": {"completed": 1},
    }  # fmt: skip
    assert "b has no runs" in user("why", "c").stdout


def test_a_resumed_pipeline_asks_again(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = f"""
    a: {{command: 'test -e {tmp_path}/mended'}}
    clean: {{command: 'echo cleaned', needs: a, when: failure}}
    ship: {{command: 'echo shipped', needs: a}}
    """
    view = run(user, written(project, steps), code=1)
    assert states(view) == {"a": {"failed": 1}, "clean": {"completed": 1}, "ship": {"cancelled": 1}}
    (tmp_path / "mended").touch()
    user("resume", view["name"])
    view = user.json("show", view["name"])
    assert view["state"] == "completed"
    assert states(view) == {"a": {"completed": 1}, "clean": {"skipped": 1}, "ship": {"completed": 1}}


def test_cancel_also_ends_what_always_comes(user: Cli, project: Path, tmp_path: Path) -> None:
    steps = f"""
    a: {{command: 'while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'}}
    last: {{command: 'touch {tmp_path}/last', needs: a, when: always}}
    """
    told = user.json("pipeline", "-d", written(project, steps))
    user("cancel", "job", told["job"])
    wait_until(lambda: user.json("show", told["job"])["state"] == "cancelled")
    assert not (tmp_path / "last").exists()


def test_the_best_run_of_a_search_hands_on_what_it_left(user: Cli, project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text(
        "import turnout\nx = turnout.params()['x']\nturnout.log(loss=(x - 2) ** 2)\nopen('model', 'w').write(str(x))\n"
    )
    search = {"space": {"x": [1, 2, 3]}, "sampler": "grid", "minimize": "loss"}
    steps = {
        "find": {"command": "python train.py", "search": search, "outputs": "model"},
        "use": {"command": "cat {input} > {output}", "inputs": "model", "outputs": "used"},
        "good": {"command": "cp model good", "needs": "find", "when": "find.loss < 1 and find.params.x = 2",
                 "outputs": "good"},
        "poor": {"command": "true", "when": "find.loss > 1"},
    }  # fmt: skip
    view = run(user, written(project, yaml.safe_dump(steps)))
    assert states(view)["poor"] == {"skipped": 1}
    assert left_by(user, view, "use", "used", tmp_path) == "2"
    assert left_by(user, view, "good", "good", tmp_path) == "2"


def test_a_step_with_a_condition_reads_what_the_best_run_left(user: Cli, project: Path, tmp_path: Path) -> None:
    """Also where all nodes see it. A step that is done to what was left is given it, too."""
    fit = "import turnout\nx = turnout.params()['x']\nturnout.log(loss=(x - 2) ** 2)\n"
    fit += "open('model.txt', 'w').write(str(x))"
    (project / "fit.py").write_text(fit)
    search = {"space": {"x": [1, 2, 3]}, "sampler": "grid", "minimize": "loss"}
    steps = {
        "find": {"command": ["python", "fit.py"], "search": search, "outputs": "model.txt"},
        "ship": {"inputs": "model.txt", "when": "find.loss < 0.5", "command": "cat {input} > {output}",
                 "outputs": "shipped.txt"},
        "each": {"needs": "find", "each": "model.*", "command": "cat {file} > {output}", "outputs": "turned/{name}"},
    }  # fmt: skip
    file = written(project, yaml.safe_dump(steps))
    view = run(user, file)
    assert states(view) == {"find": {"completed": 3}, "ship": {"completed": 1}, "each": {"completed": 1}}
    assert left_by(user, view, "ship", "shipped.txt", tmp_path) == "2"
    assert left_by(user, view, "each", "turned/model.txt", tmp_path) == "2"
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "fit.py").write_text(fit)
    assert states(run(user, file, "--shared", str(tmp_path / "shared"))) == states(view)


def test_a_condition_on_what_nobody_logged(user: Cli, project: Path) -> None:
    """The steps behind it are given up, and the pipeline has failed; it may be tried again."""
    (project / "a.py").write_text("import turnout\nturnout.log(acc=1, loss=2)\n")
    steps = """
    a: {command: python a.py}
    b: {command: 'true', when: a.accuracy > 1}
    c: {command: 'true', needs: b}
    """
    view = run(user, written(project, steps), code=1)
    assert view["state"] == "failed"
    assert states(view) == {"a": {"completed": 1}, "b": {"failed": 1}, "c": {"cancelled": 1}}
    (b,), (c,) = runs_of(user, view, "b"), runs_of(user, view, "c")
    assert (b["reason"], c["reason"]) == ("unmade", "dependency")
    why = user("why", b["name"]).stdout
    assert "it could not be made of what was left before it" in why and "did not complete" not in why
    assert "steps.b.when: a has no accuracy; it has acc, exit_code, loss, state" in why
    assert f"{b['name']} failed" in user("why", c["name"]).stdout
    assert "could not be made of what was left before" in user("why", view["name"]).stdout
    again = user("resume", view["name"], check=False)
    assert again.returncode == 1 and user.json("show", view["name"])["state"] == "failed"
    assert [each["state"] for each in runs_of(user, view, "b")] == ["failed", "failed"], "it was asked again"


def test_what_would_run_is_said_with_its_condition(user: Cli, project: Path) -> None:
    steps = "{a: {command: 'true'}, b: {command: 'echo {k}', matrix: {k: [1, 2]}, needs: a, when: a.acc > 1}}"
    shown = user("pipeline", "--dry-run", written(project, steps)).stdout
    assert "when a.acc > 1" in shown


def test_a_search_with_a_condition(user: Cli, project: Path) -> None:
    (project / "prep.py").write_text("import turnout\nturnout.log(good=1)\n")
    (project / "train.py").write_text("import turnout\nturnout.log(loss=turnout.params()['x'])\n")
    search = {"space": {"x": [1, 2, 3]}, "sampler": "grid", "minimize": "loss"}
    steps = {
        "prep": {"command": "python prep.py"},
        "find": {"command": "python train.py", "when": "prep.good > 0", "search": search},
        "never": {"command": "python train.py", "when": "prep.good > 5", "search": search},
        "then": {"command": "true", "needs": "find"},
    }
    view = run(user, written(project, yaml.safe_dump(steps)))
    assert states(view) == {
        "prep": {"completed": 1}, "find": {"completed": 3}, "never": {"skipped": 1}, "then": {"completed": 1},
    }  # fmt: skip
    assert user.json("best", f"{view['name']}.find")[0]["params"] == {"x": 1}


def test_a_search_is_one_command(user: Cli, project: Path) -> None:
    search = {"space": {"x": [1, 2]}, "sampler": "grid"}
    steps = {"find": {"command": "echo {k}", "matrix": {"k": [1, 2]}, "search": search}}
    done = user("pipeline", written(project, yaml.safe_dump(steps)), check=False)
    assert done.returncode == 2 and "steps.find.search: a search has one command, and this has 2" in done.stderr


def test_parameters_are_behind_the_command_of_a_search(user: Cli, project: Path) -> None:
    """As they are where a search is a job of its own; a text may say itself where they go."""
    search = {"space": {"x": [1, 2]}, "sampler": "grid"}
    steps = {
        "behind": {"command": "cd . && echo got", "search": search},
        "where": {"command": 'echo "$1" again', "search": search},
        "words": {"command": ["echo", "list"], "search": search},
    }
    view = run(user, written(project, yaml.safe_dump(steps)))
    said = {
        step: {user("logs", each["name"]).stdout.strip() for each in runs_of(user, view, step) if each["parent"]}
        for step in steps
    }
    assert said == {
        "behind": {"got --x=1", "got --x=2"}, "where": {"--x=1 again", "--x=2 again"},
        "words": {"list --x=1", "list --x=2"},
    }  # fmt: skip
    assert "cd . && echo got --x=1" in user("list", "runs", f"{view['name']}.behind").stdout


def test_a_search_on_two_targets_is_over_when_both_have_done_with_it(user: Cli, project: Path, tmp_path: Path) -> None:
    (project / "turnout.yaml").write_text(
        "compute-targets: {near: {service: local, max-runs: 1}, far: {service: local, max-runs: 1}}\n"
    )
    (project / "fit.sh").write_text(  # that of the second target waits
        f"parent=${{TURNOUT_RUN_NAME%.*}}; touch {tmp_path}/$parent; seen() {{ ls {tmp_path} | grep run | sort -V; }}\n"
        "until [ $(seen | wc -l) = 2 ]; do sleep 0.05; done\n"
        f"[ $parent = $(seen | head -n 1) ] || until [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
        "echo $1 > m\n"
    )
    search = {"space": {"x": [1, 2]}, "sampler": "grid", "minimize": "loss"}
    steps = {
        "find": {"command": 'bash fit.sh "$1"; python -c "import turnout; turnout.log(loss=1)"', "outputs": "m",
                 "search": search, "target": ["near", "far"]},
        "use": {"inputs": "m", "command": "cat {input}"},
    }  # fmt: skip
    job = user.json("pipeline", "-d", written(project, yaml.safe_dump(steps)))["job"]
    wait_until(lambda: user.json("show", job)["counts"].get("completed") == 1)
    (find,) = (each["job"] for each in user.json("show", job)["steps"] if each["name"] == "find")
    parents = [each for each in user.json("list", "runs", "--filter", f"job = {find}", "--all") if not each["parent"]]
    assert {each["target"] for each in parents} == {"near", "far"}
    assert states(user.json("show", job))["use"] == {"created": 1}
    (tmp_path / "go").touch()
    assert user.json("attach", job)["state"] == "completed"


def test_who_reads_a_file_of_what_was_skipped_is_skipped(user: Cli, project: Path) -> None:
    """Also where it waits for all runs of that step."""
    view = run(user, written(project, """
    x: {matrix: {k: [1, 2]}, command: 'true'}
    t: {each: x, when: x.params.k = 2, command: 'touch {output}', outputs: 't/{k}'}
    one: {needs: t, inputs: t/1, command: 'cat {input}'}
    two: {needs: t, inputs: t/2, command: 'cat {input}'}
    """))  # fmt: skip
    assert states(view) == {
        "x": {"completed": 2}, "t": {"completed": 1, "skipped": 1}, "one": {"skipped": 1}, "two": {"completed": 1},
    }  # fmt: skip


def test_what_is_infinite_is_no_measure(user: Cli, project: Path) -> None:
    """It is neither good nor bad: who asks for it is told that it is not there."""
    (project / "train.py").write_text("import turnout\nturnout.log(loss=float('inf'), acc=1)\n")
    view = run(user, written(project, """
    t: {command: [train.py]}
    bad: {needs: t, when: t.loss > 0.5, command: 'true'}
    good: {needs: t, when: not t.loss > 0.5, command: 'true'}
    """), code=1)  # fmt: skip
    assert states(view) == {"t": {"completed": 1}, "bad": {"failed": 1}, "good": {"failed": 1}}
    assert "t has no loss" in user("why", "bad").stdout
