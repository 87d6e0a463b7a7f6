"""What another system edits in a draft of a job becomes the job."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pytest

from turnout.errors import ProviderError
from turnout.hub.redrafting import redrafted
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.plugin.foreign import DraftRun
from turnout.spec.check import check

SCRIPT = '#!/bin/bash\necho "in the script" $RUN_ARGS$\n'


def job(*commands: Sequence[str], script: str | None = None, **more: object) -> JobSpec:
    runs = tuple(RunSpec(argv=tuple(each)) for each in commands)
    kind = CommandKind.COMMAND if script is None else CommandKind.SCRIPT
    display = ("go.sh", *commands[0]) if script is not None else tuple(commands[0])
    return JobSpec(kind=kind, display=display, runs=runs, script=script, **more)  # type: ignore[arg-type]


def drafts(spec: JobSpec) -> list[DraftRun]:
    head = spec.display[:1] if spec.script is not None else ()
    runs = [spec.runs[index if spec.nodes is None else 0] for index in range(spec.outer_runs)]
    return [
        DraftRun(f"run{n}", "w", "e", f"n{n}", [*head, *run.argv], env=dict(spec.env)) for n, run in enumerate(runs)
    ]


def printed(spec: JobSpec, number: int = 0) -> str:
    """What a run of the job prints."""
    argv = list(spec.runs[number].argv)
    if spec.script is not None:
        argv = ["bash", "-c", spec.script.replace("$RUN_ARGS$", '"$@"'), "go.sh", *argv]
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin", **spec.env}, capture_output=True, text=True, check=True)
    return done.stdout


def test_what_is_not_edited_stays() -> None:
    for spec in (job(["echo", "a"], env={"A": "b"}), job(["a"], ["b"], script=SCRIPT), job(["echo"], nodes=3)):
        assert redrafted(spec, drafts(spec), drafts(spec)) == spec


def test_lines_come_before_a_command() -> None:
    spec = job(["echo", "a  b", "$HOME"])
    (draft,) = drafts(spec)
    done = redrafted(spec, [draft], [replace(draft, before=["cd /", "X='1 2'", 'echo "$PWD $X"'])])
    assert printed(done) == "/ 1 2\na  b $HOME\n"
    check(done)


def test_lines_come_first_in_a_script() -> None:
    spec = job(["x y"], script=SCRIPT)
    done = redrafted(spec, drafts(spec), [replace(each, before=["echo first"]) for each in drafts(spec)])
    assert printed(done) == "first\nin the script x y\n"
    assert (done.kind, done.script) == (CommandKind.SCRIPT, SCRIPT.replace("\n", "\necho first\n", 1))


def test_a_command_may_become_another() -> None:
    spec = job(["echo", "a"])
    (draft,) = drafts(spec)
    done = redrafted(spec, [draft], [replace(draft, command=["printf", "%s", "b"])])
    assert (printed(done), done.display) == ("b", ("printf", "%s", "b"))


def test_arguments_of_a_script_may_become_others() -> None:
    spec = job(["a"], script=SCRIPT)
    (draft,) = drafts(spec)
    done = redrafted(spec, [draft], [replace(draft, command=["go.sh", "b", "c"])])
    assert printed(done) == "in the script b c\n"
    assert (done.kind, done.display) == (CommandKind.SCRIPT, ("go.sh", "b", "c"))


def test_a_script_may_become_a_command() -> None:
    spec = job(["a"], script=SCRIPT)
    (draft,) = drafts(spec)
    done = redrafted(spec, [draft], [replace(draft, command=["echo", "instead"])])
    assert (printed(done), done.kind, done.script) == ("instead\n", CommandKind.COMMAND, None)
    check(done)


def test_variables_that_all_have_are_the_jobs_and_others_each_runs() -> None:
    spec = job(["sh", "-c", 'echo "$ALL $OWN"'], ["sh", "-c", 'echo "$ALL $OWN"'], env={"OLD": "o"})
    first, second = drafts(spec)
    edited = [
        replace(first, env={"ALL": "all", "OWN": "it's 1"}), replace(second, env={"ALL": "all", "OWN": "2"}),
    ]  # fmt: skip
    done = redrafted(spec, [first, second], edited)
    assert set(done.env.values()) == {"all", "it's 1", "2"} and "OLD" not in done.env
    assert "it's 1" not in str([run.argv for run in done.runs]), "others can read a command"
    assert (printed(done), printed(done, 1)) == ("all it's 1\n", "all 2\n")


def test_runs_of_a_script_may_differ() -> None:
    spec = job(["a"], ["b"], script=SCRIPT)
    first, second = drafts(spec)
    done = redrafted(spec, [first, second], [replace(first, before=["echo only here"]), second])
    assert (printed(done), printed(done, 1)) == ("only here\nin the script a\n", "in the script b\n")
    check(done)


def test_nodes_that_share_commands_are_edited_alike() -> None:
    spec = job(["echo", "a"], ["echo", "b"], nodes=2, total=2)
    both = [replace(each, before=["echo first"]) for each in drafts(spec)]
    done = redrafted(spec, drafts(spec), both)
    assert (printed(done), printed(done, 1)) == ("first\na\n", "first\nb\n")
    with pytest.raises(ProviderError, match="other commands for each node"):
        redrafted(spec, drafts(spec), [both[0], drafts(spec)[1]])
