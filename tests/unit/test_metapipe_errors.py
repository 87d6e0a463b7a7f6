"""What is wrong with a file: where, what was expected, and what to write instead."""

from __future__ import annotations

import pytest

from tests.metapipe_files import FILES, refusal
from turnout.errors import InvalidInput
from turnout.pipeline.metapipe import parse

SYNTAX = [
    # (the file, the message, a part of the hint)
    ("[COMMANDS]\nawk '{print $1}' {1}", "p.mp:2:13: expected a comma, || or }, found $1}'", "{{print $1}}"),
    ("[COMMANDS]\nfind . -exec ls {} ;", "p.mp:2:18: expected a file or o, found }", "{{}}"),
    ("[COMMANDS]\ncat {1", "p.mp:2:7: expected a comma, || or }, found the end of the line", "close the pattern"),
    ("[COMMANDS]\ncat {1||", "p.mp:2:9: expected a file or }, found the end of the line", "close the pattern"),
    ("[COMMANDS]\ncat {", "p.mp:2:6: expected a file or o, found the end of the line", "close the pattern"),
    ("[COMMANDS]\n\tcat {1 ;}", "p.mp:2:9: expected a comma, || or }, found ;}", "{{1 ;}}"),
    ("[COMMANDS]\ncat {1|2}", "p.mp:2:7: expected a comma, || or }, found |2}", "{{1|2}}"),
    ("[COMMANDS]\ncat {||1}", "p.mp:2:6: expected a file or o, found ||1}", "{{||1}}"),
    ("[COMMANDS]\ncat {1,,2}", "p.mp:2:8: expected a file, || or }, found ,2}", "{{1,,2}}"),
    ("[COMMANDS]\njq '{\"a\": 1}'", "p.mp:2:6: expected a file or o, found \"a\":", '{{"a": 1}}'),
    ("[COMMANDS]\ncat } x", "p.mp:2:5: expected }}, found }", "doubled: }}"),
    ("[COMMANDS]\ncat {1}}", "p.mp:2:8: expected }}, found }", "doubled: }}"),
    ("[COMMANDS]\necho ${HOME", "p.mp:2:12: expected }, found the end of the line", "close the ${"),
    ("[COMMANDS]\ncat {o||1}", "p.mp:2:7: expected }, found ||1}", "stands alone"),
    ("[COMMANDS]\ncat {1||o.csv}", "p.mp:2:9: expected a file, found o.csv", "stands alone"),
    ("[COMMANDS]\ncat {o.}", "p.mp:2:8: expected an extension behind o.", "{o.csv}"),
    ("[COMMANDS]\ncat {o:}", "p.mp:2:8: expected a file or a pattern behind o:", "{o:*.counts}"),
    ("[COMMANDS]\ncat {o.a*}", "p.mp:2:9: expected an extension, found *", "{o:PATTERN}"),
    ("[COMMANDS]\ncat \\\n  {1 $}", "p.mp:3:6: expected a comma, || or }, found $}", "{{1 $}}"),
    ("[COMMANDS]\ncat \\", "p.mp:2:5: expected the rest of the command behind \\", "take the \\ out"),
    ("[COMMANDS]\ncat \\\n\nls", "p.mp:2:5: expected the rest of the command behind \\", "take the \\ out"),
    ("[COMMANDS]\ncat \\\n[FILES]\n1. x", "p.mp:2:5: expected the rest of the command behind \\", "take"),
    ("[COMMANDS]\na \\\n \0", "p.mp:3:2: expected text, found a NUL character", "take it out"),
    ("[COMMANDS]\na\0b", "p.mp:2:2: expected text, found a NUL character", "take it out"),
    ("", "p.mp:1:1: expected a section [COMMANDS]", "add it"),
    ("[FILES]\n1. x", "p.mp:1:1: expected a section [COMMANDS]", "add it"),
    ("\n [COMMANDS]\n# only a comment", "p.mp:2:2: expected a command in [COMMANDS]", "below it"),
    ("# fine\n  cat x\ncat y", "p.mp:2:3: expected a section, found cat", "[COMMANDS]"),
    ("[COMMANDS", "p.mp:1:10: expected ], found the end of the line", "[COMMANDS]"),
    ("[COMMANDS]\necho\n[Files] 1. x", "p.mp:3:9: expected the end of the line, found 1.", "[Files]"),
    ("[COMMANDS]\necho\n[FILES]\n1 x", "p.mp:4:3: expected a dot and a blank, found x", "ALIAS. PATH"),
    ("[COMMANDS]\necho\n[FILES]\n1.x", "p.mp:4:2: expected a dot and a blank, found .x", "ALIAS. PATH"),
    ("[COMMANDS]\necho\n[FILES]\n .x", "p.mp:4:2: expected an alias of letters and digits, found .x", "ALIAS. PATH"),
    ("[COMMANDS]\necho\n[FILES]\no. x", "p.mp:4:1: o marks outputs, and is no alias", "another alias"),
    ("[COMMANDS]\necho\n[FILES]\n1. x\n1. y", "p.mp:5:1: 1 is there already, in line 4", "of its own"),
    ("[COMMANDS]\necho\n[PATHS]\npython", "p.mp:4:7: expected a blank and a path, found the end", "WORD PATH"),
    ("[COMMANDS]\necho\n[PATHS]\n{x} y", "p.mp:4:1: expected a word without braces, found {x}", "WORD PATH"),
    ("[COMMANDS]\necho\n[PATHS]\na b\na c", "p.mp:5:1: a is there already, in line 4", "keep one"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), SYNTAX)
def test_syntax(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text, "p.mp")
    assert caught.value.message.startswith(message) and "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_all_lines_that_are_wrong_are_told() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse("[COMMANDS]\ncat {1\necho\nls }\n[FILES]\n1 x\n2. y\n", "p.mp")
    assert [line.split(" ")[0] for line in caught.value.message.split("\n")] == ["p.mp:2:7:", "p.mp:4:4:", "p.mp:6:3:"]


def test_very_many_problems_are_counted() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse("[COMMANDS]\n" + "cat {\n" * 100, "p.mp")
    assert caught.value.message.endswith("\n… and 80 more")


PLANNING = [
    # (commands, the message, a part of the hint)
    (["s {1||2||3} --conf {4||5}"], "p.mp:2:20: expected as many as {1||2||3} comes to, 3, found 2", "no ||"),
    (["s {*.gz||} {*.counts||}"], "p.mp:2:12: expected as many as {*.gz||} comes to, 3, found 2", "no ||"),
    (["s {1||2} {somefile.3||}"], "p.mp:2:10: expected as many as {1||2} comes to, 2, found 1", "no ||"),
    (
        ["s {*.gz,*.counts||}"],
        "p.mp:2:3: expected equally many files for each part of {*.gz,*.counts||}, found 2 and 3",
        "||",
    ),
    (["cat {7}"], "p.mp:2:6: 7 is no alias of [FILES], and no file", "add a line to [FILES]: 7. PATH"),
    (["awk '{print}'"], "p.mp:2:7: print is no alias of [FILES], and no file", "{{print}}"),
    (["mv x.{counts,1}"], "p.mp:2:7: counts is no alias of [FILES], and no file", "{{counts,1}}"),
    (["cat {no/file.txt}"], "p.mp:2:6: there is no file no/file.txt, and no command leaves it", "#{o:no/file.txt}"),
    (["cat {1,*.zip||}"], "p.mp:2:8: no file matches *.zip, and no command leaves it", "#{o:*.zip}"),
    (["echo {1..3}"], "p.mp:2:7: there is no file 1..3, and no command leaves it", "{{1..3}}"),
    (["cat {gone}"], "p.mp:10:7: there is no file gone.txt", "[FILES]"),
    (["cat {lost||} {lost}"], "p.mp:11:7: no file matches lost/*", "[FILES]"),
    (["cat {gon}"], "p.mp:2:6: gon is no alias of [FILES], and no file", "did you mean gone?"),
    (["cat {2.1}"], "p.mp:2:6: there is no command 2", "only command 1; a file of that name is ./2.1"),
    (["echo", "cat {0.1}"], "p.mp:3:6: there is no command 0", "commands are 1 to 2"),
    (["cat {1}", "cat {1.*}"], "p.mp:3:6: command 1 has no output", "> {o}"),
    (["cat {1} > {o}", "cat {1.1-2}"], "p.mp:3:6: command 1 has one output, and no 1.1-2", "1.1-1"),
    (["cat {1} {o} {o}", "cat {1.*-3}"], "p.mp:3:6: command 1 has 2 outputs, and no 1.*-3", "1.*-2"),
    (["cat {1||2} > {o}", "cat {1.1,1.3}"], "p.mp:3:10: command 1 has no run 1.3", "2 runs, 1.1 to 1.2"),
    (["cat {1} > {o}", "cat {1.0}"], "p.mp:3:6: command 1 has no run 1.0", "one run, 1.1"),
    (["cat {1} > {o}", "cat {mp.1.2.output}"], "p.mp:3:6: command 1 has no run 1.2", "one run, 1.1"),
    (
        ["cat {1} > {o}", "cat {mp.1.2*.output}"],
        "p.mp:3:6: no file matches mp.1.2*.output, and none that command 1 leaves",
        "{1.*}",
    ),
    (["cat {1.1} > {o}"], "p.mp:2:6: a command waits for itself: 1 -> 1", "from a file"),
    (
        ["cat {1}", "cat {3.1} > {o}", "cat {2.1} > {o}"],
        "p.mp:3:6: commands wait for each other: 2 -> 3 -> 2",
        "from a file",
    ),
    (
        ["cat {3.1} > {o}", "cat {1.1} {4.1} > {o}", "cat {2.1} > {o}", "cat {3.1} > {o}"],
        "p.mp:2:6: commands wait for each other: 1 -> 3 -> 2 -> 1",
        "from a file",
    ),
    (
        ["cat {*.csv} > x #{o:*.txt}", "cat {*.txt} > x #{o:*.csv}"],
        "p.mp:2:6: commands wait for each other: 1 -> 2 -> 1",
        "from a file",
    ),
    (["cat {1||2} >> x #{o:x}"], "p.mp:2:18: each of the 2 runs of command 1 leaves x", "{o:PATTERN}"),
    (["cat {1} > x #{o:x}", "cat {2} > x #{o:./x}"], "p.mp:3:14: x is what command 1 leaves, too", "another file"),
    (["cat {1} > {o}", "cp {1} x #{o:mp.1.1.output}"], "p.mp:3:11: mp.1.1.output is what command 1 leaves, too", ""),
    (["x #{o:d}", "x #{o:./d/f}"], "p.mp:3:4: d/f lies in d, which is what command 1 leaves", "another file"),
    (["x #{o:d/e/*.txt}", "x #{o:d}"], "p.mp:2:4: d/e/*.txt lies in d, which is what command 2 leaves", "another"),
    (["x {o}", "x #{o:mp.1.1.output/f}"], "p.mp:3:4: mp.1.1.output/f lies in mp.1.1.output, which is what", "another"),
    (["cat {1} > ../x #{o:../x}"], "p.mp:2:17: ../x leads out of the directory of the run", "{o:PATTERN}"),
    (["cat {1} > a/../../x #{o:a/../../*}"], "p.mp:2:22: ../* leads out of the directory of the run", "{o:PATTERN}"),
    (["cat {1} > /tmp/x #{o:/tmp/x}"], "p.mp:2:19: /tmp/x is absolute", "{o:PATTERN}"),
    (["cat {1} > x #{o:.}"], "p.mp:2:14: . names no file", "{o:PATTERN}"),
    (["cat {1} > x #{o:%s}" % ("a" * 300)], f"p.mp:2:14: {'a' * 40}… cannot be a path", "{o:PATTERN}"),
]  # fmt: skip


@pytest.mark.parametrize(("commands", "message", "hint"), PLANNING)
def test_planning(commands: list[str], message: str, hint: str) -> None:
    error = refusal(*commands, more=f"{FILES}gone. gone.txt\nlost. lost/*\n")
    assert error.message.startswith(message) and "\n" not in error.message
    assert hint in error.hint


def test_who_reads_from_a_wrong_command_is_not_wrong_as_well() -> None:
    error = refusal("cat {1||2} {1||2||3} > {o}", "cat {1.*||} > {o}", "cat {2.4}")
    assert error.message == "p.mp:2:12: expected as many as {1||2} comes to, 2, found 3"
