"""A failure ends what depends on it, and nothing else: also behind steps whose runs are known only later."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.test_pipelines import run, runs_of, states, written
from tests.harness import Cli, wait_until

LATE = """
    s: {{command: 'cd p; touch 1 2 3 4', outputs: 'p/*'}}
    f: {{needs: s, each: 'p/*', command: '{first}; echo {{name}} > {{output}}', outputs: 'o/{{name}}'}}
    g: {{each: f, command: '{second}cat {{input}} > {{output}}', outputs: 'g/{{name}}'}}
    h: {{collect: g, command: 'cat {{inputs}}'}}
"""


def late(project: Path, first: str, second: str = "") -> str:
    return written(project, LATE.format(first=first, second=second))


def test_behind_a_step_that_is_done_to_what_another_left(user: Cli, project: Path, tmp_path: Path) -> None:
    file = late(project, f"test {{{{name}}}} != 2 -o -e {tmp_path}/mended".replace("{{", "{").replace("}}", "}"))
    view = run(user, file, code=1)
    assert states(view) == {
        "s": {"completed": 1}, "f": {"completed": 3, "failed": 1}, "g": {"completed": 3, "cancelled": 1},
        "h": {"cancelled": 1},
    }  # fmt: skip
    (lost,) = (each for each in runs_of(user, view, "g") if each["state"] == "cancelled")
    assert lost["params"] == {"file": "p/2"} and lost["reason"] == "dependency"
    (tmp_path / "mended").touch()
    told = user("resume", view["name"]).stderr
    assert "3 runs again, of f, g, h" in told
    assert states(user.json("show", view["name"])) == {
        "s": {"completed": 1}, "f": {"completed": 4}, "g": {"completed": 4}, "h": {"completed": 1},
    }  # fmt: skip
    assert user("logs", "h").stdout == "1\n2\n3\n4\n"
    assert "nothing is missing" in user("resume", view["name"]).stdout


def test_nothing_waits_for_what_it_does_not_need(user: Cli, project: Path, tmp_path: Path) -> None:
    """The run behind the first of a late step lets the second of that go on."""
    first = f"test {{name}} = 1 || until test -e {tmp_path}/go; do sleep 0.05; done"
    file = late(project, first, f"touch {tmp_path}/go; ")
    (project / file).write_text((project / file).read_text().replace("touch 1 2 3 4", "touch 1 2"))
    assert states(run(user, file))["h"] == {"completed": 1}


def test_behind_a_condition(user: Cli, project: Path) -> None:
    (project / "train.py").write_text(
        "import sys, turnout\nr = int(sys.argv[1])\nturnout.log(acc=r)\nopen(sys.argv[2], 'w').write(str(r))\n"
        "sys.exit(r == 2)\n"
    )
    view = run(user, written(project, """
    train: {command: [train.py, '{r}', '{output}'], matrix: {r: [1, 2, 3, 4]}, outputs: 'm/{r}'}
    test: {each: train, when: train.acc > 1, command: 'cat {input} > {output}', outputs: 't/{r}'}
    ship: {each: test, command: 'cat {input}'}
    both: {collect: test, matrix: {r: [1, 3]}, command: 'echo {inputs}'}
    page: {collect: test, command: 'cat {inputs}'}
    """), code=1)  # fmt: skip
    assert states(view) == {
        "train": {"completed": 3, "failed": 1}, "test": {"completed": 2, "cancelled": 1, "skipped": 1},
        "ship": {"completed": 2, "cancelled": 1, "skipped": 1}, "both": {"completed": 1, "skipped": 1},
        "page": {"cancelled": 1},
    }  # fmt: skip


def test_a_condition_is_asked_as_soon_as_its_own_run_is_over(user: Cli, project: Path, tmp_path: Path) -> None:
    view = run(user, written(project, f"""
    a: {{command: 'test {{i}} = 1 || until test -e {tmp_path}/go; do sleep 0.05; done', matrix: {{i: [1, 2]}}}}
    b: {{each: a, when: a.exit_code = 0, command: 'touch {tmp_path}/go'}}
    """))  # fmt: skip
    assert states(view) == {"a": {"completed": 2}, "b": {"completed": 2}}


def test_in_a_file_of_metapipes(user: Cli, project: Path) -> None:
    (project / "p.mp").write_text(
        "[COMMANDS]\ncd p && touch 1 2 3 #{o:p/*}\ngrep -c x {p/*||} > {o} || test `basename {p/*||}` != 2\n"
        "cat {2.*||} > {o}\ncat {3.*}\n"
    )
    view = run(user, "p.mp", code=1)
    assert states(view) == {
        "1": {"completed": 1}, "2": {"completed": 2, "failed": 1}, "3": {"completed": 2, "cancelled": 1},
        "4": {"cancelled": 1},
    }  # fmt: skip


def test_what_is_cancelled_behind_a_late_step(user: Cli, project: Path, tmp_path: Path) -> None:
    """One run of it; and all, while some wait at nothing but the end of others."""
    first = f"test {{name}} = 1 || until test -e {tmp_path}/go; do sleep 0.05; done"
    file = late(project, first)
    (project / file).write_text(
        (project / file).read_text().replace("      needs: s\n", "      concurrent: 1\n      needs: s\n")
    )
    job = user.json("pipeline", "-d", file)["job"]
    wait_until(lambda: states(user.json("show", job)).get("g") == {"created": 3, "completed": 1})
    view = user.json("show", job)
    (second,) = (each["name"] for each in runs_of(user, view, "f") if each["params"]["file"] == "p/2")
    user("cancel", "run", second)
    wait_until(lambda: states(user.json("show", job))["g"] == {"created": 2, "cancelled": 1, "completed": 1})
    user("cancel", "job", job)
    wait_until(lambda: user.json("show", job)["state"] == "cancelled")
    (tmp_path / "go").touch()
    user("resume", job)
    assert states(user.json("show", job)) == {
        "s": {"completed": 1}, "f": {"completed": 4}, "g": {"completed": 4}, "h": {"completed": 1},
    }  # fmt: skip
