"""``turnout exec``: a script that was written for another tool runs as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness import Cli

SCRIPT = """
import sys
import beside
from xtlib.run import Run
run = Run(tb_path="logs")
run.log_hparams({"lr": 0.1})
run.log_hparam("layers", 3)
for epoch in range(2):
    run.log_metrics({"loss": 1.0 - epoch / 2, "epoch": epoch}, step_name="epoch", stage="train")
run.tag_run({"kind": "old"})
run.close()
print(__name__, sys.argv, beside.word, run.is_resuming())
sys.exit(3)
"""


@pytest.fixture
def script(cli: Cli) -> Path:
    (cli.cwd / "beside.py").write_text("word = 'found'\n")
    (cli.cwd / "old.py").write_text(SCRIPT)
    return cli.cwd / "old.py"


def test_it_finds_what_it_imports_and_its_arguments(cli: Cli, script: Path, tmp_path: Path) -> None:
    """Modules beside it are found from anywhere, and options behind it are its own."""
    done = cli("exec", str(script), "--json", "-x", check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == f"__main__ ['{script}', '--json', '-x'] found False\n"


def test_in_json(cli: Cli, script: Path) -> None:
    done = cli("exec", "--json", "old.py", check=False)
    assert done.returncode == 3
    assert done.stdout.startswith('{"script": "old.py", "exit_code": 3, "text": "__main__ ')


def test_without_it_there_is_no_such_module(cli: Cli, script: Path) -> None:
    done = cli("run", "--wait", "old.py", check=False)
    assert done.returncode == 1 and "No module named 'xtlib'" in done.stdout


def test_inside_a_run_it_logs(cli: Cli, script: Path) -> None:
    cli("run", "--wait", sys.executable, "-m", "turnout.cli", "exec", "old.py", check=False)
    view = cli.json("show", "run1")
    assert (view["exit_code"], view["params"], view["tags"]) == (3, {"lr": 0.1, "layers": 3}, {"kind": "old"})
    points = cli.json("metrics", "run1")["train-loss"]
    assert [(point["step"], point["value"]) for point in points] == [(0, 1.0), (1, 0.5)]


def test_a_script_that_is_not_there(cli: Cli) -> None:
    done = cli("exec", "nothing.py", check=False)
    assert done.returncode == 3 and "no script 'nothing.py' here" in done.stderr
