"""Functions as steps: what is told of them before, the program that calls them, and how they are shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turnout.track
from tests import components
from turnout.client import functions, plan_text
from turnout.client.module_text import Module
from turnout.errors import InvalidInput, NotFound
from turnout.pipeline.native import Builder, plan
from turnout.pipeline.plan import RunPlan
from turnout.snapshot import Part, capture, join

PROGRAM = Path(turnout.track.__file__).with_name("call.py").read_text()
STEPS = """
import asyncio, collections, sys

def give(value=None, **more): return value
def add(x, k): return x + k
def twice(*, k=0): print(sys.argv, k)
def keyed(): return {(1, 2): {3}}
def boom(x): raise ValueError(f"no {x}")
async def later(x):
    await asyncio.sleep(0)
    return boom(x) if x == "boom" else [x]
class Model:
    @staticmethod
    def fit(x): return f"fitted {x}"
"""


def call(folder: Path, path: str, python: str = sys.executable, **given: Any) -> subprocess.CompletedProcess[str]:
    """As a run does it that has k=5 as a parameter."""
    (folder / "steps.py").write_text(STEPS)
    argv = [python, "-c", PROGRAM, "turnout-call", path, json.dumps(given)]
    environment = {"TURNOUT_PARAMS": '{"k": 5, "fold": 2}'}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(("path", "given", "printed"), [
    ("steps:give", {}, ""),
    ("steps:give", {"value": "as it is"}, "as it is\n"),
    ("steps:give", {"value": [1, {"ä": None}]}, '[1, {"ä": null}]\n'),
    ("steps:give", {"value": 0.5}, "0.5\n"),
    ("steps:give", {"value": {"name": "x"}}, '{"name": "x"}\n'),
    ("steps:add", {"x": 1}, "6\n"),
    ("steps:add", {"x": 1, "k": 1}, "2\n"),
    ("steps:twice", {}, "['steps:twice'] 5\n"),
    ("steps:keyed", {}, "{(1, 2): {3}}\n"),
    ("steps:later", {"x": "y"}, '["y"]\n'),
    ("steps:Model.fit", {"x": 1}, "fitted 1\n"),
])  # fmt: skip
def test_what_a_function_gets_and_what_becomes_of_what_it_returns(
    path: str, given: dict[str, Any], printed: str, tmp_path: Path
) -> None:
    done = call(tmp_path, path, **given)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


@pytest.mark.parametrize("path", ["steps:boom", "steps:later"])
def test_a_traceback_has_nothing_of_ours(path: str, tmp_path: Path) -> None:
    done = call(tmp_path, path, x="boom")
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[0], lines[-1]) == (1, "Traceback (most recent call last):", "ValueError: no boom")
    assert {line.partition(", line")[0] for line in lines if line.startswith("  File")} == {
        f'  File "{tmp_path}/steps.py"'
    }
    assert "in boom" in done.stderr


@pytest.mark.parametrize(("path", "given", "said"), [
    ("gone:f", {}, "ModuleNotFoundError: No module named 'gone'\n"),
    ("steps:gone", {}, "AttributeError: module 'steps' has no attribute 'gone'\n"),
    ("steps:boom", {}, "TypeError: boom() missing 1 required positional argument: 'x'\n"),
])  # fmt: skip
def test_a_call_that_cannot_be_is_one_line(path: str, given: dict[str, Any], said: str, tmp_path: Path) -> None:
    done = call(tmp_path, path, **given)
    assert (done.returncode, done.stderr) == (1, said)


def test_the_oldest_python_can_call(tmp_path: Path) -> None:
    """And metrics are printed where a run does not find what takes them."""
    assert call(tmp_path, "collections:Counter", components.python39(), a=2).stdout == '{"a": 2}\n'
    assert call(tmp_path, "steps:later", components.python39(), x=1).stdout == "[1]\n"


# --- before it begins -------------------------------------------------------------------------------------------------

MODULE = Module("m.py", """
import os.path
from json import dumps as write
try:
    from fast import solve
except ImportError:
    def solve(x): ...
first, (second, *rest) = make()
def fit(fold, model, lr=0.1, *, seed, deep=False): hidden = 1
def all_of(x, **more): ...
@cached
def wrapped(x): ...
class Model: ...
""")  # fmt: skip


@pytest.mark.parametrize("name", ["os", "write", "solve", "first", "rest", "fit", "wrapped", "Model", "Model.fit"])
def test_names_that_a_module_has(name: str) -> None:
    MODULE.check_name(name)


@pytest.mark.parametrize(("name", "hint"), [("fitt", "did you mean 'fit'?"), ("hidden", "known: "), ("path", "known")])
def test_names_that_it_does_not_have(name: str, hint: str) -> None:
    with pytest.raises(NotFound, match=rf"^m\.py has no function '{name}'$") as caught:
        MODULE.check_name(name)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("text", [
    "from others import *", "def __getattr__(name): ...", "globals()['f'] = 1", "import sys\nsetattr(sys, 'f', 1)",
])  # fmt: skip
def test_a_module_that_may_have_any_name(text: str) -> None:
    Module("m.py", text).check_name("f")


@pytest.mark.parametrize(("name", "given", "values"), [
    ("fit", ("fold", "model", "seed"), ()), ("fit", ("model",), ("fold", "seed", "more")), ("all_of", ("x", "y"), ()),
    ("wrapped", ("y",), ()), ("solve", ("y",), ()), ("Model", ("y",), ()), ("write", ("y",), ()),
])  # fmt: skip
def test_arguments_that_may_be_right(name: str, given: tuple[str, ...], values: tuple[str, ...]) -> None:
    """`solve` is one of two, `wrapped` whatever its decorator makes of it."""
    MODULE.check_arguments(name, given, values)


@pytest.mark.parametrize(("given", "said", "hint"), [
    (("fold", "modle", "seed"), "fit() has no argument 'modle'", "did you mean 'model'?"),
    (("fold",), "fit() needs model, seed", "write `model: VALUE` below `args:`"),
])  # fmt: skip
def test_arguments_that_are_wrong(given: tuple[str, ...], said: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        MODULE.check_arguments("fit", given, ())
    assert (caught.value.message, caught.value.hint) == (f"m.py:9: {said}", hint)


def test_whether_a_script_can_be_imported() -> None:
    assert Module("m.py", "x = 1\nif __name__ == '__main__':\n    print(x)").is_guarded
    assert not Module("m.py", "def f():\n    return __name__\nprint(f())").is_guarded


# --- among the files of a project -------------------------------------------------------------------------------------


def check(folder: Path, path: str, python: str | None = sys.executable) -> None:
    module, _, name = path.partition(":")
    frozen = join([Part(capture(folder, cache=folder.with_name("cache")))])
    functions.check(functions.Call(module, name, path, (), ()), frozen, "", python)


@pytest.mark.parametrize(("text", "said"), [
    (b"x = 1\ndef f(:\n", r"^m\.py:2: invalid syntax$"),
    (b"def f():\n    s = '\xe9'\n", r"^m\.py:2: \(unicode error\) 'utf-8' codec can't decode"),
    (b"# coding: klingon\ndef f(): ...\n", r"^m\.py: unknown encoding: klingon$"),
    (b"def f(): '\0'\n", r"^m\.py: source code string cannot contain null bytes$"),
    (b"def f():\n\tif 1:\n        g()\n", r"^m\.py:3: inconsistent use of tabs and spaces in indentation$"),
])  # fmt: skip
def test_a_text_that_no_python_reads_is_told_with_its_line(text: bytes, said: str, tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "m.py").write_bytes(text)
    with pytest.raises(InvalidInput, match=said) as caught:
        check(project, "m:f")
    assert caught.value.hint == "mend it"
    with pytest.raises(InvalidInput, match=said) as caught:
        check(project, "m:f", python=None)
    assert "if one newer than Python 3." in caught.value.hint and "PYTHONPATH" in caught.value.hint


def test_what_another_python_reads_is_its_own_affair(tmp_path: Path) -> None:
    """Its answer counts where it is on this machine; a text may be too deep for who only looks at it, too."""
    (project := tmp_path / "project").mkdir()
    (project / "newer.py").write_text("syntax of a later Python")
    (project / "deep.py").write_text(f"x = {'+'.join('1' * 5000)}\ndef f(): ...\n")
    reads = tmp_path / "reads"
    reads.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    reads.chmod(0o755)
    check(project, "newer:f", str(reads))
    check(project, "deep:f")


@pytest.mark.parametrize("path", ["fast:f", "plain:f", "made:f", "made.fast:f", "linked.inner:f", "alias:f"])
def test_modules_that_have_no_text_here(path: str, tmp_path: Path) -> None:
    """Compiled ones, and those behind a link."""
    project = tmp_path / "project"
    (project / "made").mkdir(parents=True)
    (project / "real").mkdir()
    (project / "real" / "inner.py").write_text("def f(): ...")
    (project / "linked").symlink_to("real")
    (project / "alias.py").symlink_to("real/inner.py")
    for name in (
        "fast.cpython-311-x86_64-linux-gnu.so",
        "plain.so",
        "old.pyc",
        "made/__init__.so",
        "made/fast.abi3.so",
    ):
        (project / name).write_bytes(b"\x7fELF")
    check(project, path)


def test_a_directory_is_no_module(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "parts").mkdir(parents=True)
    (project / "parts" / "inner.py").write_text("def f(): ...")
    check(project, "parts.inner:f")
    with pytest.raises(NotFound, match=r"^no module 'parts' among the files of the project$") as caught:
        check(project, "parts:f")
    assert caught.value.hint == (
        "parts has no __init__.py, and so no function; a function of a module in it is parts.MODULE:f"
    )


def test_a_file_that_is_gone_meanwhile_is_told(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "m.py").write_text("def f(): ...")
    frozen = join([Part(capture(project, cache=tmp_path / "cache"))])
    (project / "m.py").unlink()
    with pytest.raises(InvalidInput, match=r"^m\.py cannot be read: No such file or directory$"):
        functions.check(functions.Call("m", "f", "m:f", (), ()), frozen, "", None)


# --- shown, and given -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "shown"), [
    (("turnout-call", "m:f", '{"x": 1, "files": ["a", "b"]}'), "m:f(x=1, files=['a', 'b'])"),
    (("turnout-call", "m:f", "{}"), "m:f()"),
    (("bash", "-euo", "pipefail", "-c", "ls | wc"), "ls | wc"),
    (("bash", "-c", "ls"), "ls"),
    (("ls", "a b"), "ls 'a b'"),
])  # fmt: skip
def test_how_a_run_is_shown(argv: tuple[str, ...], shown: str) -> None:
    assert plan_text.command(RunPlan(label="", argv=argv)) == shown


def test_a_plan_in_lines() -> None:
    p = Builder()
    a = p.step("a", "touch {output}", matrix={"x": [1, 2]}, outputs="{x}.txt")
    p.step("b", json.dumps, args={"obj": "{inputs}"}, collect=a)
    p.step("c", "wc {file}", each="*.txt", needs="a", outputs="{stem}.wc")
    assert list(plan_text.lines(plan(p.pipeline(), lambda pattern: []))) == [
        "a", "  x=1  touch 1.txt", "  x=2  touch 2.txt",
        "b  after a", "  json:dumps(obj=['1.txt', '2.txt'])",
        "c  after a", "  1  wc 1.txt", "  2  wc 2.txt",
    ]  # fmt: skip


def test_a_function_stands_where_a_command_does() -> None:
    p = Builder()
    assert p.step("a", json.dumps) == p.step("b", function="json:dumps").__class__(name="a", function="json:dumps")
    wrong: list[Any] = [lambda: 0, [].append, Path("x").read_text, sys.stdout]
    for each in wrong:
        with pytest.raises(InvalidInput):
            p.step("c", each)
    with pytest.raises(InvalidInput):
        p.step("c", json.dumps, function=json.loads)
