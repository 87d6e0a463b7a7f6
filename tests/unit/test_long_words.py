"""Commands with a word that is too long for an argument: it goes by a file, and they do the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnout.agent.attempt import Attempt
from turnout.agent.contained import contain
from turnout.agent.container_command import Mount, Runtime
from turnout.agent.gpus import Gpus
from turnout.agent.rundir import RunDir
from turnout.agent.stage import fill
from turnout.agent.starting import make_order
from turnout.pipeline.plan import SHELL, taking_arguments
from turnout.track import call
from turnout.wire import long_words
from turnout.wire.long_words import CALL, LONGEST, Shortened, shorten
from turnout.wire.messages import ContainerOrder, Grant, JobOrder

LONG = "x" * (LONGEST + 1)


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (["bash", "-c"], []),
        (["/bin/sh", "-c"], ["name", "1"]),
        ([*SHELL], []),
        (["bash", "-lc"], []),
        (["bash", "--norc", "-c", "-e", "-o", "pipefail"], ["name"]),
        (["bash", "+e", "-oOc", "pipefail", "extglob"], []),
    ],
)
def test_the_text_that_a_shell_was_given_goes_by_a_file(before: list[str], behind: list[str]) -> None:
    argv = [*before, LONG, *behind]
    assert shorten(argv, "/run/it's") == Shortened([*before, ". '/run/it'\"'\"'s'", *behind], LONG)


def test_so_do_the_arguments_of_a_function() -> None:
    assert shorten([CALL, "m:f", LONG], "/run/text") == Shortened([CALL, "m:f", "@/run/text"], LONG)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["bash"],
        ["bash", "-c"],
        ["bash", "-c", "true"],
        ["bash", "-c", "x" * LONGEST],
        ["bash", "-c", "true", LONG],
        ["bash", LONG],
        ["bash", "script.sh", "-c", LONG],
        ["bash", "-o", "-c", LONG],
        ["bash", "--norc", LONG],
        ["python", "-c", LONG],
        ["bash", "-c", LONG + "\0"],
        [CALL, "m:f", "{}"],
        [CALL],
    ],
)
def test_nothing_else_does(argv: list[str]) -> None:
    """Short ones stay as they are; of other long ones nobody would know where they are."""
    assert shorten(argv, "/run/text") is None


@pytest.mark.parametrize("word", ["é" * (LONGEST // 2), "\udcff" * LONGEST])
def test_what_counts_are_bytes(word: str) -> None:
    assert shorten(["bash", "-c", word], "f") is None
    assert shorten(["bash", "-c", word + "é"], "f") is not None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_it_is_what_the_kernel_takes() -> None:
    subprocess.run(["true", "x" * LONGEST], check=True)
    with pytest.raises(OSError):
        subprocess.run(["true", LONG], check=True)


#: Texts, and arguments behind them.
TEXTS = [
    ('echo "$0" $# "$@"', []),
    ('echo "$0" $# "$@"', ["name", "a b", ""]),
    ("echo one; false; echo two", []),
    ("false | true; echo two", []),
    ("echo $undefined", []),
    ("exit 7", []),
    ("kill -9 $$", []),
    ("cat <<END\n$(echo here)\nEND", []),
    ("trap 'echo bye' EXIT; (exit 3)", []),
    ("if", []),
    ("no-such-command", []),
    ("echo 'it'\"'\"'s' é; # \\", []),
    ("cat", []),
    ("exec bash -c 'echo $PPID' | wc -l", []),
    ("set -- a b; echo $#; shift; echo $1", ["name", "c"]),
]


@pytest.mark.parametrize(("text", "behind"), TEXTS)
@pytest.mark.parametrize("shell", [("bash", "-c"), SHELL, ("sh", "-c")])
def test_a_shell_does_the_same(
    shell: tuple[str, ...], text: str, behind: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [*shell, text, *behind]
    monkeypatch.setattr(long_words, "LONGEST", 1)
    path = tmp_path / "its text"
    made = shorten(argv, str(path))
    assert made is not None
    path.write_text(made.text)
    ends = [subprocess.run(each, input="typed", capture_output=True, text=True) for each in (argv, made.argv)]
    assert ends[1].stdout == ends[0].stdout
    assert ends[1].returncode == ends[0].returncode and bool(ends[1].stderr) == bool(ends[0].stderr), ends


def test_arguments_of_a_search_come_behind_it(tmp_path: Path) -> None:
    argv = [*taking_arguments((*SHELL, f"echo {'x ' * LONGEST}| wc -w; printf '<%s>'")), "--x=1", "two words"]
    path = tmp_path / "text"
    made = shorten(argv, str(path))
    assert made is not None
    path.write_text(made.text)
    done = subprocess.run(made.argv, capture_output=True, text=True, check=True)
    assert done.stdout == f"{LONGEST}\n<--x=1><two words>"


def test_a_function_reads_its_arguments_from_there(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(files, name): return [len(files), name]")
    given = json.dumps({"files": ["x" * 60] * 6000, "name": "é\udcff"})
    made = shorten([CALL, "m:f", given], str(tmp_path / "text"))
    assert made is not None
    (tmp_path / "text").write_text(made.text)
    argv = [sys.executable, "-c", Path(call.__file__).read_text(), *made.argv]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(os.fsdecode(done.stdout)) == [6000, "é\udcff"]


# --- where it lies ----------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> RunDir:
    (tmp_path / "runs").mkdir()
    made = RunDir(f"{tmp_path}/runs/7.1")
    made.make()
    made.complete()
    return made


def staged(directory: RunDir, argv: list[str], job: JobOrder) -> Attempt:
    grant = Grant(7, 1, "run7", 1, argv, {}, 1.0, 0, 0)
    fill(directory, grant, job, None, None, lambda: True)  # type: ignore[arg-type]
    return Attempt(grant, [], directory)


def order_of_job(container: ContainerOrder | None = None) -> JobOrder:
    return JobOrder(1, "e", "w", "command", None, None, None, [], {}, None, 1.0, None, container=container)


def test_it_is_private_and_not_among_the_runs_files(directory: RunDir) -> None:
    made = staged(directory, [*SHELL, LONG], order_of_job())
    assert make_order(made, order_of_job(), gpus="").argv == [*SHELL, f". {directory.ctl}/text"]
    assert Path(directory.text).read_text() == LONG and os.stat(directory.text).st_mode & 0o777 == 0o600
    assert sorted(os.listdir(directory.work)) == ["output", "output.txt"]
    staged(directory, [*SHELL, LONG + "y"], order_of_job())  # once more, after what went wrong
    assert Path(directory.text).read_text() == LONG + "y"


def test_a_short_one_has_no_file(directory: RunDir) -> None:
    made = staged(directory, [*SHELL, "true"], order_of_job())
    assert make_order(made, order_of_job(), gpus="").argv == [*SHELL, "true"]
    assert not os.path.exists(directory.text)


@pytest.mark.parametrize("text", ["true", LONG])
def test_a_container_sees_it_and_cannot_write_it(text: str, directory: RunDir, tmp_path: Path) -> None:
    job = order_of_job(ContainerOrder("image"))
    made = staged(directory, [*SHELL, text], job)
    made.runtime = Runtime("/usr/bin/podman", "podman")
    plain = make_order(made, job, gpus="")
    argv = contain(plain, made, job, {}, root=str(tmp_path), sdk=f"{tmp_path}/sdk", gpus=Gpus([])).argv
    mount = f"type=bind,source={directory.text},target={directory.text},readonly"
    assert (mount in argv) == (text == LONG)
    assert Mount(directory.text).is_writable is False
