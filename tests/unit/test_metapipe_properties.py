"""What holds for every text, every name of a file and every pattern."""

from __future__ import annotations

import glob
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe import File, parse, plan
from turnout.pipeline.metapipe.patterns import matcher, may_meet
from turnout.pipeline.plan import Plan

#: text made of pieces of the language, which gets deeper than random characters do
PIECES = (
    "[COMMANDS] [FILES] [PATHS] [JOB_OPTIONS] [x] [ # {{ }} { } ${ || | , o o. o: o.csv 1 1.1 1.* *.gz 2.1-1 \\ 1. ' \""
)
pieces = st.sampled_from([*PIECES.split(), "\n", "\n", " ", "\t", "\0", "é", "\r\n"])
nearly = st.lists(pieces, max_size=40).map("".join) | st.lists(pieces, max_size=40).map(" ".join)
MESSAGE = re.compile(r"p\.mp:\d+:\d+: \S.*")


def answer(text: str) -> Plan | None:
    """The plan of any text, in a project that has one file. None for a clear error."""
    try:
        return plan(parse(text, "p.mp"), lambda pattern: ["a.gz"] if pattern in ("a.gz", "*.gz") else [])
    except InvalidInput as error:
        mistake = error
    for line in mistake.message.split("\n"):
        assert MESSAGE.fullmatch(line) or line.startswith("… and ")
    assert mistake.hint and all(each == "\n" or each.isprintable() for each in mistake.message + mistake.hint)
    return None


@settings(deadline=None)  # the first one makes the grammar
@given(st.text() | nearly | nearly.map("[COMMANDS]\n{}".format))
def test_any_text_is_a_plan_or_a_clear_error(text: str) -> None:
    answer(text)


LONG = {
    "open variables": "${" * 20_000,
    "closed variables": "${" * 20_000 + "}" * 20_000,
    "braces": "{" * 20_001,
    "backslashes": "\\" * 20_001,
    "a number": "cat {" + "9" * 5000 + ".1}",
    "blanks": "cat {1" + " " * 20_000,
    "a pattern": "cat {" + "[" * 2000 + "*" * 2000 + "}",
    "patterns": "cat {" + "*a" * 200 + "} #{o:" + "b*" * 200 + "}\ncat {" + "*c" * 200 + "}",
    "names": "cat {" + "||".join(["a.gz"] * 5000) + "}",
    "lines": "echo\n" * 5000,
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_is_one_as_well(kind: str) -> None:
    answer(f"[COMMANDS]\n{LONG[kind]}")


commands = st.text(st.characters(exclude_characters="\n\r{}\0\\", exclude_categories=["Cs"])).map(str.lstrip)


@given(commands.filter(lambda text: text and text[0] not in "#["))
@example("echo 'a  b'\t\"$X\"  ")
def test_a_command_without_patterns_stays_as_it_is(command: str) -> None:
    found = answer(f"[COMMANDS]\n{command}\n")
    assert found is not None and [run.argv for run in found.steps[0].runs] == [("bash", "-c", command)]


@given(st.text(st.characters(exclude_characters="\n\r\0\\$", exclude_categories=["Cs"])).map(str.lstrip))
@example("awk '{print $1}'")
@example("{}")
def test_a_command_with_doubled_braces_is_that_with_single_ones(command: str) -> None:
    assume(command and command[0] not in "#[")
    found = answer("[COMMANDS]\n" + command.replace("{", "{{").replace("}", "}}"))
    assert found is not None and found.steps[0].runs[0].argv == ("bash", "-c", command)


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name.strip() and name[0] != "-"
)


def words(script: str, directory: Path) -> list[str]:
    """What a real bash makes of it."""
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=directory, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    return done.stdout.decode("utf-8").split("\0")[:-1]


@settings(deadline=None, max_examples=50)  # each starts a bash
@given(st.lists(names, min_size=2, max_size=2, unique=True))
@example(["it's", 'a "b" $(c) `d` \\'])
@example(["two\nlines", "# x"])
@example(["*", "~"])
def test_names_of_files_reach_the_command(tmp_path_factory: pytest.TempPathFactory, files: list[str]) -> None:
    command = """printf '%s\\0' {f*} --x={f1} "{f1}" '{f2}' "$(printf '%s' "{f2}" '-')" "it's" {f2} # don't {f1}"""
    more = "\n[FILES]\nf1. x1\nf2. x2\n"
    renamed = {"f*": files, "x1": files[:1], "x2": files[1:]}
    (step,) = plan(parse(f"[COMMANDS]\n{command}{more}", "p.mp"), lambda pattern: renamed[pattern]).steps
    one, two = files
    # A shell drops the ends of lines behind what it puts in a command's place; here there is a - behind them.
    expected = [one, two, f"--x={one}", one, two, f"{two}-", "it's", two]
    assert words(step.runs[0].argv[-1], tmp_path_factory.getbasetemp()) == expected


def quoted(file: File, name: str) -> str:
    return plan(file, lambda _: [name]).steps[0].runs[0].argv[-1]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_a_name_is_one_word(name: str) -> None:
    assert shlex.split(quoted(parse("[COMMANDS]\ncat {x}", "p.mp"), name)) == ["cat", name]


segments = st.text("ab*?.[]!", max_size=5)
patterns = st.lists(segments, min_size=1, max_size=2).map("/".join)
paths = st.lists(st.text("ab.", min_size=1, max_size=4), min_size=1, max_size=2).map("/".join)


@given(patterns, patterns, paths)
def test_patterns_that_both_match_may_meet(one: str, other: str, path: str) -> None:
    if matcher(one)(path) and matcher(other)(path):
        assert may_meet(one, other) and may_meet(other, one)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("*.gz", "*.gz", True),
        ("a*", "*.gz", True),
        ("*.gz", "*.txt", False),
        ("*", "a/*", False),
        ("./a/*", "a/b", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*.4.*.output", "mp.4.*.output", True),
        ("*.4.*.output", "mp.5.*.output.gz", False),
        ("[ab].x", "a.x", True),
        ("*a*b*", "b*a", True),
        ("", "*", True),
    ],
)
def test_whether_patterns_may_meet(one: str, other: str, expected: bool) -> None:
    assert may_meet(one, other) is may_meet(other, one) is expected


@pytest.mark.parametrize(
    "pattern", ["*.gz", "*", ".*", "d/*", "*/*.gz", "?.gz", "[ab].gz", "[!a].gz", "./a.gz", "d/./x", "**"]
)
def test_patterns_find_what_those_of_a_directory_find(tmp_path: Path, pattern: str) -> None:
    files = ["a.gz", "b.gz", ".hidden.gz", "ab.gz", "d/a.gz", "d/x", "d/.y", "e/b.gz"]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    there = {each.removeprefix("./") for each in glob.glob(pattern, root_dir=tmp_path)}
    assert {name for name in files if matcher(pattern)(name)} == {each for each in there if each in files}
