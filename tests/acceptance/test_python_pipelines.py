"""``turnout.Pipeline`` as users have it: in scripts, as modules, at prompts and in notebooks."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_pipelines import last_job, left_by, runs_of, states
from tests.harness import Cli, user_environment, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines-python"
STEPS = """
import pathlib

def make(output, x=0):
    pathlib.Path(output).write_text(f"{x}\\n")
    return {"made": x}

def boom(x):
    raise ValueError(f"no {x}")

def off(lr):
    return {"loss": (lr - 2) ** 2}
"""
#: Waits until there is ``go``.
WAIT = "echo begun; while [ ! -e {go} ]; do sleep 0.02; done"


def python(user: Cli, *words: str, code: int = 0, script: str | None = None, cwd: Path | None = None) -> Any:
    """What a user's Python prints; with another `code`, its errors."""
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd or user.cwd, env=user_environment(user.home), input=script or "",
        capture_output=True, text=True, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def at_prompt(user: Cli, *lines: str, code: int = 0) -> Any:
    """The same of what is typed there; a project of `STEPS` lies around it, and ``p`` is an empty pipeline."""
    (user.cwd / "steps.py").write_text(STEPS)
    return python(user, "-", script="\n".join(["import turnout, steps", "p = turnout.Pipeline()", *lines]), code=code)


def last(user: Cli) -> dict[str, Any]:
    """The last pipeline."""
    views: list[dict[str, Any]] = [user.json("show", job["name"]) for job in user.json("list", "jobs", "-n", "9")]
    return next(view for view in views if view["steps"])


# --- where it is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("pipeline.py",), ("-m", "pipeline"), ("pipeline.py", "local")])
def test_the_example(words: tuple[str, ...], user: Cli, project: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
    shown = python(user, *words).splitlines()
    assert shown[:5] == [
        "fit", *(f"  fold={fold}  folds:fit(model='{fold}.json')" for fold in range(3)), "report  after fit",
    ]  # fmt: skip
    assert [line.partition(": loss 0.")[0] for line in shown[6:9]] == ["fold 0", "fold 1", "fold 2"]
    view = last(user)
    assert (view["state"], view["label"], view["command"]) == ("completed", "folds", ["python", "pipeline.py"])
    assert "mean loss" in left_by(user, view, "report", "report.txt", tmp_path)


SCRIPT = """
import turnout

def double(x): return {"twice": 2 * x}

if __name__ == "__main__":
    p = turnout.Pipeline()
    p.step("double", double, matrix={"x": [1, 2]})
    print([run["metrics"] for run in p.run().runs("double")])
"""


@pytest.mark.parametrize("words", [("own.py",), ("-m", "own")])
def test_a_script_with_its_own_functions(words: tuple[str, ...], user: Cli, project: Path) -> None:
    (project / "own.py").write_text(SCRIPT)
    assert python(user, *words) == "[{'twice': 2.0}, {'twice': 4.0}]\n"


def test_a_module_in_a_package_with_its_own_functions(user: Cli, project: Path) -> None:
    (project / "lab").mkdir()
    (project / "lab" / "own.py").write_text(SCRIPT)
    assert python(user, "-m", "lab.own") == "[{'twice': 2.0}, {'twice': 4.0}]\n"
    said = python(user, "lab/own.py", code=1)
    assert "no module 'own' among the files of the project" in said


def test_a_script_that_would_go_on_for_ever(user: Cli, project: Path) -> None:
    (project / "own.py").write_text(SCRIPT.replace('__name__ == "__main__"', "True"))
    before = last_job(user)
    assert "double is defined in own.py, all of which would be executed again" in python(user, "own.py", code=1)
    assert last_job(user) == before


def test_a_prompt_has_no_functions_of_its_own(user: Cli, project: Path) -> None:
    said = at_prompt(user, "def f(): pass", "p.step('a', f)", code=1)
    assert "f is defined in a notebook or at a prompt, where no run finds it" in said


def test_in_a_notebook(user: Cli, project: Path) -> None:
    """Cells are executed by IPython, without a file."""
    (project / "steps.py").write_text(STEPS)
    cells = [
        "import turnout, steps", "p = turnout.Pipeline('book')",
        "a = p.step('a', steps.make, args={'output': '{output}'}, outputs='a.txt')",
        "job = p.run()", "print(job, job.state, job.steps['a']['counts'])",
    ]  # fmt: skip
    run = "import sys; from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
    shown = python(user, "-c", f"{run}\nfor cell in {cells!r}: s.run_cell(cell).raise_error()")
    name = last(user)["name"]
    assert shown.splitlines()[-1] == f"PipelineJob('{name}') completed {{'completed': 1}}"
    assert last(user)["command"] == ["turnout.Pipeline"]


# --- what it does -----------------------------------------------------------------------------------------------------


def test_all_that_a_step_may_be(user: Cli, project: Path, tmp_path: Path) -> None:
    """Commands, functions and searches; options for all, and for one."""
    lines = """
p = turnout.Pipeline("all", tags={"why": "test"}, experiment="first", cpus=1)
a = p.step("a", steps.make, args={"output": "{output}"}, matrix={"x": (1, 2)}, outputs="{x}.txt", tags={"who": "a"})
b = p.step("b", ["cp", "{input}", "{output}"], each=a, outputs="b/{x}.txt", cpus=2)
c = p.step("c", function="steps:off", needs=b, search={"space": {"lr": [1, 2]}, "sampler": "grid", "minimize": "loss"})
d = p.step("d", "cat {inputs.b} > {output}", collect=[b], needs="c", outputs="all.txt", target="local")
job = p.submit()
assert not job.is_over or job.state == "completed"
import json
print(json.dumps([job.wait(), job.name, [run["metrics"] for run in job.runs("a")], len(job.runs())]))
"""
    state, name, metrics, count = json.loads(at_prompt(user, lines))
    view = user.json("show", name)
    assert (state, view["label"], view["experiment"]) == ("completed", "all", "first")
    assert (metrics, count) == ([{"made": 1}, {"made": 2}], view["runs"])
    assert [step["counts"] for step in view["steps"]] == [{"completed": count} for count in (2, 2, 2, 1)]
    assert [run["tags"] for run in runs_of(user, view, "a")] == [{"why": "test", "who": "a"}] * 2
    cpus = {step["name"]: user.json("show", step["job"])["resources"]["cpus"] for step in view["steps"]}
    assert cpus == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert left_by(user, view, "d", "all.txt", tmp_path) == "1\n2\n"


def test_functions_get_the_python_that_gave_them(user: Cli, project: Path) -> None:
    """Also when another one is the first on the PATH, as in notebooks."""
    (project / "steps.py").write_text("import sys\ndef tell(): return sys.executable\n")
    (project / "p.py").write_text("import turnout, steps\np = turnout.Pipeline()\np.step('a', steps.tell)\np.run()\n")
    python(user, "p.py")
    (made,) = runs_of(user, last(user), "a")
    assert user("logs", made["name"]).stdout == f"{sys.executable}\n"


def test_a_failure_is_raised_with_what_to_do(user: Cli, project: Path) -> None:
    lines = """
p.step("a", steps.boom, matrix={"x": [1, 2]})
p.step("b", "true", needs="a")
try:
    p.run()
except turnout.PipelineFailed as error:
    print(error.code, error.job.state, error.job.wait(check=False), error.job.steps["b"]["counts"])
    raise
"""
    said = at_prompt(user, lines, code=1)
    view = last(user)
    first, second = (run["name"] for run in runs_of(user, view, "a"))
    assert said.splitlines()[-4:] == [
        f"turnout.client.pipeline_job.PipelineFailed: {view['name']} failed: 1 cancelled, 2 failed",
        f"  a[x=1] ({first}): exit code 1", f"  a[x=2] ({second}): exit code 1",
        f"`turnout logs {first}` shows what it printed, `turnout why {view['name']}` tells more, "
        f"`turnout resume {view['name']}` tries again",
    ]  # fmt: skip
    assert states(view) == {"a": {"failed": 2}, "b": {"cancelled": 1}}


def test_the_first_failure_may_end_all(user: Cli, project: Path, tmp_path: Path) -> None:
    wait = WAIT.format(go=tmp_path / "go")
    lines = [
        "p = turnout.Pipeline(fail_fast=True)", "p.step('a', steps.boom, args={'x': 1})",
        f"p.step('b', 'true; {wait}')", "print(p.submit().wait(check=False))",
    ]  # fmt: skip
    assert at_prompt(user, *lines) == "failed\n"
    assert states(last(user)) == {"a": {"failed": 1}, "b": {"cancelled": 1}}


def test_cancel(user: Cli, project: Path, tmp_path: Path) -> None:
    lines = [
        f"p.step('a', {WAIT.format(go=tmp_path / 'go')!r})", "job = p.submit()", "job.cancel()", "job.cancel()",
        "try: job.wait()", "except turnout.PipelineFailed as error: print(error.message)",
    ]  # fmt: skip
    shown = at_prompt(user, *lines[:4], "\n".join(lines[4:]))
    assert shown == f"{last(user)['name']} cancelled: 1 cancelled\n"


def test_a_wait_that_ends_before(user: Cli, project: Path, tmp_path: Path) -> None:
    lines = [f"p.step('a', {WAIT.format(go=tmp_path / 'go')!r})", "p.submit().wait(timeout=0.05)"]
    assert "TimeoutError" in at_prompt(user, *lines, code=1)
    (tmp_path / "go").touch()
    assert user.json("attach", last(user)["name"])["state"] == "completed"


def test_ctrl_c_leaves_it_alone(user: Cli, project: Path, tmp_path: Path) -> None:
    wait = WAIT.format(go=tmp_path / "go")
    (project / "p.py").write_text(f"import turnout\np = turnout.Pipeline()\np.step('a', {wait!r})\np.run()\n")
    script = subprocess.Popen(
        [sys.executable, "p.py"], cwd=project, env=user_environment(user.home), stderr=subprocess.PIPE, text=True
    )
    assert script.stderr is not None
    name = script.stderr.readline().partition(":")[0]
    wait_until(lambda: "begun" in user("logs", runs_of(user, user.json("show", name), "a")[0]["name"]).stdout)
    script.send_signal(signal.SIGINT)
    _, said = script.communicate(timeout=20)
    assert script.returncode == -signal.SIGINT and "KeyboardInterrupt" in said
    assert f"{name} goes on; `turnout attach {name}` waits for it, `turnout cancel job {name}` ends it" in said
    assert user.json("show", name)["live"] == 1
    (tmp_path / "go").touch()
    assert user.json("attach", name)["state"] == "completed"


# --- before it begins -------------------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(user: Cli, project: Path) -> None:
    before = last_job(user)
    lines = [
        "a = p.step('a', steps.make, args={'output': '{output}'}, matrix={'x': [1]}, outputs='{x}.txt')",
        "p.step('b', 'wc {input}', each=a)", "p.dry_run()", "print([step.name for step in p.plan().steps])",
    ]  # fmt: skip
    assert at_prompt(user, *lines).splitlines() == [
        "a", "  x=1  steps:make(output='1.txt')", "b  after a", "  x=1  wc 1.txt", "['a', 'b']",
    ]  # fmt: skip
    assert last_job(user) == before


#: what is typed -> what is said
WRONG = {
    "p.step('a', 'true', colour='red')": "steps.a: nothing is called colour",
    "p.step('a', 'true', cpus='many')": "steps.a: cpus: 'many' is not a whole number",
    "p.step('a', 'true', code='x')": "steps.a: code is for all steps alike",
    "p.step('a', lambda: 0)": "'<lambda>' cannot be imported from where it is defined",
    "turnout.Pipeline(cpu=1)": "nothing is called cpu",
    "turnout.Pipeline('run7')": "run7",
    "p.step('a', 'true', needs='b'); p.submit()": "steps.a.needs: there is no step b",
    "p.submit()": "a pipeline without steps",
    "p.step('a', 'true', target='nowhere'); p.submit()": "step a: no target 'nowhere'",
    "p.step('a', steps.make); p.submit()": "step a: steps.py:4: make() needs output",
    "p.step('a', steps.boom, args={'y': 1}); p.submit()": "boom() has no argument 'y'",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_told_at_once(line: str, user: Cli, project: Path) -> None:
    before = last_job(user)
    assert WRONG[line] in at_prompt(user, line, code=1).splitlines()[-1]
    assert last_job(user) == before


def test_what_may_be_meant_otherwise_is_a_warning(user: Cli, project: Path) -> None:
    lines = ["import warnings; warnings.simplefilter('error')", "p.step('a', 'echo ${x} {x}', matrix={'x': [1]})"]
    said = at_prompt(user, *lines, "p.dry_run()", code=1)
    assert "UserWarning: steps.a.command: ${x} is a variable of the shell" in said


def test_the_name_costs_nothing_until_it_is_used(user: Cli) -> None:
    loaded = python(user, "-c", "import sys, turnout; print('Pipeline' in dir(turnout), *sys.modules)")
    assert loaded.split()[0] == "True" and "turnout.client" not in loaded
