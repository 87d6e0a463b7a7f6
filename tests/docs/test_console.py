"""Every ```console block of the tour and the tutorial is typed in, in order, and must answer as it says.

In such a block a line ``$ command`` is run by bash; the lines below it must appear in its output, in that order, where
``...`` stands for anything. It must exit with 0, or with n where it ends in ``# exits with n``. A block whose fence
says ``file=NAME`` is written to that file. ``cd`` lasts. The reader stands in a checkout of turnout with its virtual
environment switched on, so examples/ is there, and ``turnout`` and ``python`` are ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import user_environment

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/tutorial/getting-started.md",
    "docs/howto/configuration.md",
    "docs/howto/everyday.md",
    "docs/howto/export-and-delete.md",
    "docs/howto/rerun.md",
    "docs/howto/data-and-models.md",
    "docs/howto/setups.md",
    "docs/explanation/how-it-works.md",
    "docs/howto/run-styles.md",
    "docs/howto/add-a-provider.md",
    "docs/howto/xt-backends.md",
    "docs/howto/functions.md",
    "docs/howto/calculation-backends.md",
    "docs/howto/searching.md",
    "docs/howto/training-service.md",
    "docs/howto/job-types.md",
    "docs/howto/pipelines.md",
]

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"file=(\S+)")
_EXITS = re.compile(r"# exits with (\d+)$")


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    answer: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        said = _EXITS.search(self.text)
        return int(said[1]) if said else 0


def steps(page: str) -> list[File | Command]:
    """What a reader of the page does, in order."""
    found: list[File | Command] = []
    for block in _BLOCK.finditer(page):
        info, body = block["info"], block["body"]
        if name := _FILE.search(info):
            found.append(File(name[1], body))
        elif info.strip() == "console":
            found += _commands(body, first_line=page.count("\n", 0, block.start("body")) + 1)
    return found


def _commands(body: str, first_line: int) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(body.splitlines(), first_line):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], ()))
        elif line.strip() not in {"", "..."}:
            last = found.pop()
            found.append(Command(last.line, last.text, (*last.answer, line)))
    return found


def missing(answer: tuple[str, ...], output: str) -> str | None:
    """The first expected line that does not follow the ones before it in the output; None when all do."""
    printed = iter(output.splitlines())
    for line in answer:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")))
        if not any(pattern.fullmatch(one.rstrip()) for one in printed):
            return line
    return None


@pytest.mark.parametrize("page", PAGES)
def test_page_does_what_it_says(page: str, turnout_home: Path, tmp_path: Path) -> None:
    follow(page, turnout_home, tmp_path)


def follow(page: str, home: Path, tmp_path: Path, *programs: Path) -> None:
    """Does what the page says, where the programs in these directories are found first."""
    here = tmp_path / "turnout"
    shutil.copytree(ROOT / "examples", here / "examples", ignore=shutil.ignore_patterns("output", "__pycache__"))
    env = {
        **user_environment(home),
        "PATH": os.pathsep.join([*map(str, programs), _path_with_turnout(tmp_path / "bin")]),
        "CWD_FILE": str(tmp_path / "cwd"),
    }
    for step in steps((ROOT / page).read_text()):
        if isinstance(step, File):
            (here / step.name).write_text(step.text)
            continue
        # The exit status goes out by a trap, so that the command may end in a comment and its `cd` is kept.
        script = f"trap 'pwd > \"$CWD_FILE\"' EXIT\n{step.text}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=here, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )  # fmt: skip
        said = f"{page}:{step.line}: $ {step.text}\n{done.stdout}"
        assert done.returncode == step.exit_code, f"exit {done.returncode} instead of {step.exit_code}\n{said}"
        absent = missing(step.answer, done.stdout)
        assert absent is None, f"not printed: {absent}\n{said}"
        here = Path((tmp_path / "cwd").read_text().strip())


def _path_with_turnout(folder: Path) -> str:
    """A PATH on which ``turnout`` and ``python`` are those of this interpreter, installed or not."""
    folder.mkdir()
    for name, argv in {"turnout": "-m turnout.cli ", "python": ""}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {argv}"$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_pages_have_something_to_run() -> None:
    for page in PAGES:
        assert any(isinstance(step, Command) for step in steps((ROOT / page).read_text())), page


def test_the_runner_sees_commands_files_and_answers() -> None:
    page = "text\n```python file=a.py\nprint(1)\n```\n```console\n$ python a.py\n1\n...\n$ false  # exits with 1\n```\n"
    assert steps(page) == [
        File("a.py", "print(1)\n"),
        Command(6, "python a.py", ("1",)),
        Command(9, "false  # exits with 1", ()),
    ]


def test_the_runner_compares_line_by_line() -> None:
    assert missing(("run1 ... ok", "done"), "head\nrun1 was ok\nmore\ndone\n") is None
    assert missing(("done", "run1 ... ok"), "run1 was ok\ndone\n") == "run1 ... ok"
    assert missing(("done",), "not done\n") == "done"
