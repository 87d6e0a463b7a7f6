"""Import aliases: code for other tools finds what it imports, and the real packages come first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = "CalculationBackend"


def run(program: str, path: Path | None = None) -> str:
    """What a program prints in a fresh interpreter with the aliases."""
    start = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else ""
    source = f"{start}from turnout.compat import aliases\naliases.install()\naliases.install()\n{program}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout + done.stderr.strip().rpartition("\n")[2]).strip()


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("from interface import Interface, implements; print(Interface.__name__)", "Interface"),
        ("import xtlib; print(xtlib.BackendInterface.__name__, xtlib.__name__)", "BackendInterface xtlib"),
        ("from xtlib.backends.backend_interface import BackendInterface as B; print(B.__name__)", "BackendInterface"),
        ("from xtlib import console; console.print('a', 1)", "a 1"),
        ("from xtlib.console import print as p; p('b')", "b"),
        ("from xtlib.run import Run; Run(tb_path='x').log_metrics({'loss': 0.1}); print('ok')", "ok"),
        ("import turnout.compat.xt as ours, xtlib; print(ours.__name__, ours.__spec__.name)", "turnout.compat.xt " * 2),
        ("import xtlib.nothing", "ModuleNotFoundError: No module named 'xtlib.nothing'"),
        ("from metapipe import Parser, Runtime; import metapipe.models.job as j; print(j.call.__name__)", "call"),
        ("from propertyestimator.backends import CalculationBackend as B, DaskLSFBackend; print(B.__name__)", BACKEND),
        ("import openff.evaluator.backends as b; print(b.CalculationBackend.__name__)", BACKEND),
        ("from openff.evaluator.backends.backends import CalculationBackend as B; print(B.__name__)", BACKEND),
        ("from openff.evaluator.backends.dask import DaskLocalCluster as B; print(B.__name__)", "DaskLocalCluster"),
        ("from propertyestimator.backends.dask import DaskPBSBackend as B; print(B.__name__)", "DaskPBSBackend"),
        ("from openff.evaluator.backends import *; print(QueueWorkerResources().seconds)", "3600"),
        ("import openff.evaluator.backends, sys; print('distributed' in sys.modules)", "False"),
        ("import openff.toolkit", "ModuleNotFoundError: No module named 'openff.toolkit'"),
    ],
)
def test_what_is_found(program: str, printed: str) -> None:
    assert run(program) == printed.strip()


def test_a_real_package_comes_first_and_a_part_of_it_is_never_ours(tmp_path: Path) -> None:
    (tmp_path / "xtlib").mkdir()
    (tmp_path / "xtlib" / "__init__.py").write_text("who = 'the real one'\n")
    (tmp_path / "interface.py").write_text("class Interface: who = 'theirs'\n")
    assert run("import xtlib; print(xtlib.who)", tmp_path) == "the real one"
    assert run("import xtlib.console", tmp_path) == "ModuleNotFoundError: No module named 'xtlib.console'"
    assert run("import interface; print(interface.Interface.who)", tmp_path) == "theirs"


def test_a_place_that_others_share_is_no_package(tmp_path: Path) -> None:
    """Where only other parts of ``openff`` are installed, they are found, and ours beside them."""
    (tmp_path / "openff" / "units").mkdir(parents=True)
    (tmp_path / "openff" / "units" / "__init__.py").write_text("who = 'theirs'\n")
    both = "import openff.units, openff.evaluator.backends as b; print(openff.units.who, b.ComputeResources.__name__)"
    assert run(both, tmp_path) == "theirs ComputeResources"
    (tmp_path / "openff" / "evaluator").mkdir()
    (tmp_path / "openff" / "evaluator" / "__init__.py").write_text("")
    assert run(both, tmp_path) == "ModuleNotFoundError: No module named 'openff.evaluator.backends'"


def test_without_them_nothing_is_found() -> None:
    done = subprocess.run([sys.executable, "-c", "import xtlib"], capture_output=True, text=True, check=False)
    assert "No module named 'xtlib'" in done.stderr


def test_an_interface_is_checked_where_the_class_is_defined() -> None:
    head = "from interface import Interface, implements\nclass I(Interface):\n    def f(self, a, b): pass\n"
    assert run(f"{head}class A(implements(I)):\n    def f(self, a, b, c=1): pass\nprint('fine')") == "fine"
    assert "class A fails to implement I: no method f" in run(f"{head}class A(implements(I)): pass")
    assert "f has no argument b" in run(f"{head}class A(implements(I)):\n    def f(self, a): pass")
