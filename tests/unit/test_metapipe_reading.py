"""The sections and lines of a Metapipe file, and the commands of its manual."""

from __future__ import annotations

import pytest

from turnout.pipeline.metapipe import parse
from turnout.pipeline.metapipe.file import Entry, Inputs, Item, Output, Spot

MANUAL = """\
# A pipeline of Metapipe's manual.

[COMMANDS]
# Here we run our analysis script on every gzipped file
# in the current directory and output the results to a file.
python my_custom_script.py -o {o} {*.gz||}

# Take all the outputs of step 1 and feed them to cut.
cut -f 1 {1.*||} > {o}

python my_other_custom_code.py {2.*} #{o:hardcoded_output.csv}

python my_compare_script.py -o {o} $OPTIONS --compare {1||2||3} {3.1}

Rscript my_cool_graphing_code.r {4.*} > {o}
# dropped: there is no command below

[Files]
1. controls.1.csv
 # a comment
2. controls.2.csv   # another
3. with blanks.csv

[PATHS]
Rscript ~/path/to/my/custom/R/version
$OPTIONS -rne --get --no-get -v --V --log-level 1

[job_options]
#PBS -l mem=4gb

  [ -f env ] && . ./env
set -e

[OPTIONS] # for the driver
module load python;
set -e
"""


def test_sections() -> None:
    file = parse(MANUAL, "p.mp")
    assert [command.number for command in file.commands] == [1, 2, 3, 4, 5]
    assert [command.spot.line for command in file.commands] == [6, 9, 11, 13, 15]
    assert file.commands[0].comments == (
        "# Here we run our analysis script on every gzipped file",
        "# in the current directory and output the results to a file.",
    )
    assert [len(command.comments) for command in file.commands] == [2, 1, 0, 0, 0]
    assert file.files == {
        "1": Entry("controls.1.csv", Spot(19, 4)),
        "2": Entry("controls.2.csv", Spot(21, 4)),
        "3": Entry("with blanks.csv", Spot(22, 4)),
    }
    assert {alias: entry.value for alias, entry in file.paths.items()} == {
        "Rscript": "~/path/to/my/custom/R/version",
        "$OPTIONS": "-rne --get --no-get -v --V --log-level 1",
    }
    assert file.job_options == ("#PBS -l mem=4gb", "  [ -f env ] && . ./env", "set -e")
    assert file.options == ("module load python;", "set -e")
    assert file.notes == ()


def test_parts() -> None:
    (command,) = parse("[COMMANDS]\n  cat {1, *.gz||3.2-1||} >{o.tar.gz} #{o:x/*}", "p.mp").commands
    assert command.parts == (
        "cat ",
        Inputs(
            spot=Spot(2, 7), written="{1, *.gz||3.2-1||}", each=True,
            groups=((Item("1", Spot(2, 8)), Item("*.gz", Spot(2, 11))), (Item("3.2-1", Spot(2, 17)),)),
        ),
        " >",
        Output(spot=Spot(2, 27), extension=".tar.gz"),
        " #",
        Output(spot=Spot(2, 39), glob="x/*"),
    )  # fmt: skip


def test_places_in_continued_lines() -> None:
    (command,) = parse("[COMMANDS]\n cat \\\n   {1} \\\n{2}", "p.mp").commands
    assert [part.spot for part in command.parts if isinstance(part, Inputs)] == [(3, 4), (4, 1)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ends_of_lines_and_a_byte_order_mark(end: str) -> None:
    assert parse("\ufeff" + MANUAL.replace("\n", end), "p.mp") == parse(MANUAL, "p.mp")


def test_unknown_sections_are_left_out() -> None:
    file = parse("[OPTION]\nset -e {\n[Whatever]\n{\n[COMMANDS]\necho", "p.mp")
    assert len(file.commands) == 1 and file.options == ()
    assert file.notes == (
        "p.mp:1:1: section [option] is not known, and left out; did you mean [OPTIONS]?",
        "p.mp:3:1: section [whatever] is not known, and left out",
    )


def test_a_section_may_go_on() -> None:
    file = parse("[COMMANDS]\na\n[FILES]\n1. x\n[commands]\nb\n", "p.mp")
    assert [command.parts for command in file.commands] == [("a",), ("b",)]
    assert file.notes == ("p.mp:5:1: [COMMANDS] goes on from line 1; Metapipe would drop that part",)


def test_blanks_behind_a_backslash() -> None:
    file = parse("[COMMANDS]\necho a \\  \necho b \\\\\necho c", "p.mp")
    assert [command.parts for command in file.commands] == [("echo a \\  ",), ("echo b \\\\",), ("echo c",)]
    assert file.notes == ("p.mp:2:1: there are blanks behind the last \\, so the line does not go on",)
