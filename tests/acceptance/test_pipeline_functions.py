"""Steps that are functions, in pipelines from files: what they get and leave, how they fail, and where they run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import components
from tests.acceptance.test_pipelines import last_job, left_by, run, runs_of, states, written
from tests.harness import Cli
from tests.sshd import USER, running_box

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines-python"
MODULE = """
import asyncio, getpass, json, pathlib, sys
import shop.prices

def buy(thing, count=1):
    return {"cost": shop.prices.PRICE * count, "thing": thing}

def split(folder):
    pathlib.Path(folder).mkdir(exist_ok=True)
    for name in "abc":
        pathlib.Path(folder, name).write_text(name * 2)

async def size(file, output):
    await asyncio.sleep(0)
    text = pathlib.Path(file).read_text()
    pathlib.Path(output).write_text(text)
    return {"size": len(text)}

def add(files, output):
    texts = [pathlib.Path(file).read_text() for file in files]
    pathlib.Path(output).write_text(" ".join(texts))
    print(getpass.getuser(), sys.executable)
    return len(texts)

def off(lr, fold=0):
    return {"loss": (lr - 2) ** 2 + fold}

def buggy(k):
    raise ValueError(f"nothing for {k}")
"""


@pytest.fixture
def functions(project: Path) -> Path:
    """A project with a module and a package."""
    return _with_functions(project)


def _with_functions(folder: Path) -> Path:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "prices.py").write_text("PRICE = 3\ndef of(thing): return f'{thing}: {PRICE}'\n")
    (folder / "work.py").write_text(MODULE)
    (folder / "half.py").write_text("def written():\n    return (1")
    return folder


def logs(user: Cli, view: dict[str, Any], step: str) -> list[str]:
    return [user("logs", each["name"]).stdout for each in runs_of(user, view, step)]


def metrics(user: Cli, view: dict[str, Any], step: str) -> list[dict[str, float]]:
    return [each["metrics"] for each in runs_of(user, view, step)]


def test_the_example(user: Cli, project: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
    view = run(user, "pipeline.yaml")
    losses = [each["loss"] for each in metrics(user, view, "fit")]
    assert len(losses) == 3 and all(0 < each < 0.1 for each in losses)
    assert metrics(user, view, "report") == [{"mean_loss": pytest.approx(sum(losses) / 3), "folds": 3}]
    page = left_by(user, view, "report", "report.txt", tmp_path).splitlines()
    assert len(page) == 4 and page[0].startswith("fold 0: y = 2.0")


def test_numbers_are_metrics_and_all_else_is_printed(user: Cli, functions: Path) -> None:
    steps = {
        "buy": {"function": "work:buy", "args": {"thing": "it's {k}"}, "matrix": {"k": [1, 2], "count": [5]}},
        "tell": {"function": "shop.prices:of", "args": {"thing": "tea"}},
    }
    view = run(user, written(functions, yaml.safe_dump(steps)))
    assert logs(user, view, "buy") == [f'{{"cost": 15, "thing": "it\'s {k}"}}\n' for k in (1, 2)]
    assert metrics(user, view, "buy") == [{"cost": 15}] * 2, "`count` is a value, and has an argument of its name"
    assert logs(user, view, "tell") == ["tea: 3\n"]


LATE = """
split: {function: 'work:split', args: {folder: parts}, outputs: 'parts/*'}
size: {function: 'work:size', args: {output: '{output}'}, each: 'parts/*', needs: split, outputs: 'sizes/{name}'}
add: {function: 'work:add', args: {files: '{inputs}', output: '{output}'}, collect: size, outputs: all.txt}
"""


def test_what_is_only_known_later(user: Cli, functions: Path, tmp_path: Path) -> None:
    view = run(user, written(functions, LATE))
    assert states(view) == {"split": {"completed": 1}, "size": {"completed": 3}, "add": {"completed": 1}}
    assert metrics(user, view, "size") == [{"size": 2}] * 3
    assert left_by(user, view, "add", "all.txt", tmp_path) == "aa bb cc"


def test_a_search_over_a_function(user: Cli, functions: Path) -> None:
    """It gets what is proposed by name, as what it is."""
    steps = """
    find: {function: 'work:off', args: {fold: 1}, search: {space: {lr: [1, 2, 4]}, sampler: grid, minimize: loss}}
    """
    view = run(user, written(functions, steps))
    assert states(view) == {"find": {"completed": 3}}
    found = {each["params"]["lr"]: each["metrics"]["loss"] for each in runs_of(user, view, "find") if each["params"]}
    assert found == {1: 2, 2: 1, 4: 5}


def test_a_function_that_raises(user: Cli, functions: Path) -> None:
    steps = "{bad: {function: 'work:buggy', matrix: {k: [7]}}, after: {command: 'true', needs: bad}}"
    view = run(user, written(functions, steps), code=1)
    assert states(view) == {"bad": {"failed": 1}, "after": {"cancelled": 1}}
    (made,) = runs_of(user, view, "bad")
    assert made["exit_code"] == 1 and made["command"][1:] == ["turnout-call", "work:buggy", "{}"]
    printed = user("logs", made["name"]).stdout.splitlines()
    assert printed[0] == "Traceback (most recent call last):" and printed[-1] == "ValueError: nothing for 7"
    assert "work.py" in printed[1] and "in buggy" in printed[1] and len(printed) == 4


def test_a_dry_run_shows_calls(user: Cli, functions: Path) -> None:
    shown = user("pipeline", "--dry-run", written(functions, LATE)).stdout.splitlines()
    assert shown[:4] == ["split", "  work:split(folder='parts')", "size  after split", _UNKNOWN]


_UNKNOWN = "  its runs are known when those are over"

#: steps -> what is said of them, and what to do instead
WRONG = {
    "{a: {function: 'wrok:buy'}}": ("p.yaml:4: steps.a.function: no module 'wrok' among", "check the name"),
    "{a: {function: 'shop.price:of'}}": ("steps.a.function: no module 'shop.price' in shop", "check the name"),
    "{a: {function: 'work:by'}}": ("p.yaml:4: steps.a.function: work.py has no function 'by'", "did you mean 'buy'?"),
    "{a: {function: 'prices:of'}}": ("no module 'prices'", "there is shop/prices.py: write `working-dir: shop`"),
    "{a: {function: 'half:written'}}": ("p.yaml:4: steps.a.function: half.py:2: '(' was never closed", "mend it"),
    "{a: {function: 'work:buy', args: {cont: 1}}}": ("steps.a.args: work.py:5: buy() has no", "mean 'count'?"),
    "{a: {function: 'work:buy'}}": ("work.py:5: buy() needs thing", "write `thing: VALUE` below `args:`"),
    "{a: {function: 'work:off', search: {space: {rate: [1, 2]}, sampler: grid}}}": ("off() needs lr", "args"),
    "{a: {function: 'work'}}": ("p.yaml:4: steps.a.function: 'work' is no function of a module", "`module:name`"),
    LATE.replace("size'", "sice'"): ("steps.size.function: work.py has no function 'sice'", "did you mean 'size'?"),
    LATE.replace("args: {output:", "args: {out:"): ("size() has no argument 'out'", "did you mean 'output'?"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told_before_anything_begins(wrong: str, user: Cli, functions: Path) -> None:
    said, hint = WRONG[wrong]
    before = last_job(user)
    done = user("pipeline", written(functions, wrong), check=False)
    assert done.returncode in (2, 3) and said in done.stderr and hint in done.stderr, done.stderr
    assert last_job(user) == before


def test_where_modules_are_looked_for(user: Cli, functions: Path) -> None:
    """In the directory in which a run begins, on a PYTHONPATH, and in what is installed."""
    steps = {
        "inside": {"function": "prices:of", "args": {"thing": "a"}, "working-dir": "shop"},
        "path": {"function": "prices:of", "args": {"thing": "b"}, "env": {"PYTHONPATH": "shop"}},
        "installed": {"function": "json:dumps", "args": {"obj": [1]}},
    }
    view = run(user, written(functions, yaml.safe_dump(steps)))
    assert [logs(user, view, step) for step in steps] == [["a: 3\n"], ["b: 3\n"], ["[1]\n"]]


def test_on_a_box_where_nothing_of_ours_is_installed(cli: Cli, tmp_path: Path) -> None:
    """By the Python that is there; late steps as well. Metrics come from there, too."""
    _with_functions(cli.cwd)
    with running_box(components.sshd()) as box:
        cli.home.mkdir(parents=True, exist_ok=True)
        (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry()}\n")
        view = run(cli, written(cli.cwd, LATE), "--target", "far", timeout=100.0)
        assert states(view) == {"split": {"completed": 1}, "size": {"completed": 3}, "add": {"completed": 1}}
        assert metrics(cli, view, "size") == [{"size": 2}] * 3
        (printed,) = logs(cli, view, "add")
        assert printed.split()[0] == USER and printed.split()[-1] == "3", printed
        assert left_by(cli, view, "add", "all.txt", tmp_path) == "aa bb cc"
        cli("hub", "stop")


def test_the_python_of_an_environment_over_there(cli: Cli) -> None:
    """As for a script: that of `default-env`, and not the first on the PATH."""
    _with_functions(cli.cwd)
    with running_box(components.sshd()) as box:
        cli.home.mkdir(parents=True, exist_ok=True)
        environment = box.home / "chosen"
        (environment / "bin").mkdir(parents=True, exist_ok=True)
        program = environment / "bin" / "python"
        program.write_text('#!/bin/sh\necho chosen\nexec python3 "$@"\n')
        program.chmod(0o755)
        settings = f"general: {json.dumps({'default-env': str(environment)})}\nboxes:\n  far: {box.entry()}\n"
        (cli.home / "config.yaml").write_text(settings)
        steps = "{a: {function: 'shop.prices:of', args: {thing: x}}}"
        view = run(cli, written(cli.cwd, steps), "--target", "far", timeout=100.0)
        assert logs(cli, view, "a") == ["chosen\nx: 3\n"]
        cli("hub", "stop")
        shutil.rmtree(environment)
