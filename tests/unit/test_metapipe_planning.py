"""What Metapipe files come to: as in Metapipe where that is sound, else as anyone would read them."""

from __future__ import annotations

import pytest

from tests.metapipe_files import FILES, PROJECT, needs, planned, refusal, scripts, step
from turnout.pipeline.metapipe import heading, parse
from turnout.pipeline.plan import Left, Place

# What Metapipe was seen to make of these; the project is that of `metapipe_files`.
AS_METAPIPE = {
    "one run for each alias": (
        ["cut -f 1 {1||2||3} > {o}"],
        {
            "1.1": "cut -f 1 somefile.1 > mp.1.1.output",
            "1.2": "cut -f 1 somefile.2 > mp.1.2.output",
            "1.3": "cut -f 1 somefile.3 > mp.1.3.output",
        },
    ),
    "several files in each": (
        ["python s.py -i {1,2,3||4,5,6} -o {o}"],
        {
            "1.1": "python s.py -i somefile.1 somefile.2 somefile.3 -o mp.1.1.output",
            "1.2": "python s.py -i somefile.4 somefile.5 somefile.6 -o mp.1.2.output",
        },
    ),
    "two patterns in step": (
        ["bash s {1||2||3} --conf {4||5||6} > {o}"],
        {
            "1.1": "bash s somefile.1 --conf somefile.4 > mp.1.1.output",
            "1.2": "bash s somefile.2 --conf somefile.5 > mp.1.2.output",
            "1.3": "bash s somefile.3 --conf somefile.6 > mp.1.3.output",
        },
    ),
    "several outputs": (
        ["bash s {1||2} --log {o} -r {o.csv}"],
        {
            "1.1": "bash s somefile.1 --log mp.1.1-1.output -r mp.1.1-2.output.csv",
            "1.2": "bash s somefile.2 --log mp.1.2-1.output -r mp.1.2-2.output.csv",
        },
    ),
    "a run for each match": (
        ["gunzip -c {*.gz||} > {o}"],
        {
            "1.1": "gunzip -c a.gz > mp.1.1.output",
            "1.2": "gunzip -c b.gz > mp.1.2.output",
            "1.3": "gunzip -c c.gz > mp.1.3.output",
        },
    ),
    "all matches in one": (["cat {*.gz}", "cat {*.gz,}"], {"1.1": "cat a.gz b.gz c.gz", "2.1": "cat a.gz b.gz c.gz"}),
    "steps that read from steps": (
        ["cut -f 1 {1||2} > {o}", "python p.py -o {o.csv} -i {1.*||}", "python a.py {2.*}"],
        {
            "1.1": "cut -f 1 somefile.1 > mp.1.1.output",
            "1.2": "cut -f 1 somefile.2 > mp.1.2.output",
            "2.1": "python p.py -o mp.2.1.output.csv -i mp.1.1.output",
            "2.2": "python p.py -o mp.2.2.output.csv -i mp.1.2.output",
            "3.1": "python a.py mp.2.1.output.csv mp.2.2.output.csv",
        },
    ),
    "blanks for commas": (
        ["cat {1 2||3  4} > { O }"],
        {
            "1.1": "cat somefile.1 somefile.2 > mp.1.1.output",
            "1.2": "cat somefile.3 somefile.4 > mp.1.2.output",
        },
    ),
    "no pattern": (["echo hello"], {"1.1": "echo hello"}),
}


@pytest.mark.parametrize(("commands", "expected"), AS_METAPIPE.values(), ids=AS_METAPIPE)
def test_as_in_metapipe(commands: list[str], expected: dict[str, str]) -> None:
    assert scripts(planned(*commands)) == expected


def test_hardcoded_outputs_as_in_metapipe() -> None:
    plan = planned("./count {1||2} #{o:*.counts}", "./an.sh {*.counts}")
    assert scripts(plan) == {"1.1": "./count somefile.1 # *.counts", "1.2": "./count somefile.2 # *.counts"}
    assert [run.outputs for run in step(plan, "1").runs] == [("*.counts",)] * 2
    late = step(plan, "2").late
    assert late is not None and step(plan, "2").needs == ("1",)
    left = {"1": [Left(label="1.1", files=("x.counts",)), Left(label="1.2", files=("y.counts",))]}
    assert [run.argv for run in late.make(left).runs] == [("bash", "-c", "./an.sh x.counts y.counts")]


def test_the_script_is_options_comments_command() -> None:
    more = FILES + "[JOB_OPTIONS]\n#PBS -l mem=4096mb\nset -e\n"
    plan = planned("# say hi", "echo {1} > {o}", more=more)
    lines = ["#PBS -l mem=4096mb", "set -e", "# say hi", "echo somefile.1 > mp.1.1.output"]
    assert scripts(plan) == {"1.1": "\n".join(lines)}


def test_what_comes_before_the_command_can_be_told_from_it() -> None:
    file = parse("[COMMANDS]\n# say hi\necho\n[OPTIONS]\nexport A=1\n[JOB_OPTIONS]\nset -e", "p.mp")
    assert heading(file, file.commands[0]) == "set -e\nexport A=1\n# say hi\n"


OTHERWISE = {
    "one for all, behind": (
        "bash s {1||2||3} --conf {4}",
        [f"bash s somefile.{run} --conf somefile.4" for run in (1, 2, 3)],
    ),
    "one for all, in front": ("bash s {4} {1||2||3}", [f"bash s somefile.4 somefile.{run}" for run in (1, 2, 3)]),
    "two patterns that match": (
        "diff {*.gz||} {*.gz||} > {o}",
        [f"diff {name}.gz {name}.gz > mp.1.{run}.output" for run, name in enumerate("abc", 1)],
    ),
    "aliases beside a pattern": (
        "diff {1||2||3} {*.gz||} > {o}",
        [f"diff somefile.{run} {name}.gz > mp.1.{run}.output" for run, name in enumerate("abc", 1)],
    ),
    "a group, and a run for each match": (
        "./s {1,2||*.counts||}",
        ["./s somefile.1 somefile.2", "./s x.counts", "./s y.counts"],
    ),
    "an alias with each match": ("./s {1,*.counts||}", ["./s somefile.1 x.counts", "./s somefile.1 y.counts"]),
    "a variable of the shell": ("echo ${HOME} {1}", ["echo ${HOME} somefile.1"]),
    "nothing is put between": (
        "tool --in={1} --out={o}.tmp",
        ["tool --in=somefile.1 --out=mp.1.1.output.tmp"],
    ),
    "blanks stay": ('echo "a    b"  {1}  >  x', ['echo "a    b"  somefile.1  >  x']),
    "a test is no section": ("[ -f x ] && cat {1}", ["[ -f x ] && cat somefile.1"]),
    "a test of one word is none": ("[ x ]", ["[ x ]"]),
    "letters of all kinds": ("écho „{1}“", ["écho „somefile.1“"]),
    "doubled braces": ("awk '{{print $1}}' {1}", ["awk '{print $1}' somefile.1"]),
    "doubled braces around a pattern": ("echo {{{1}}}", ["echo {somefile.1}"]),
    "braces with a backslash": (r"find {1} -exec ls \{\} \;", [r"find somefile.1 -exec ls \{\} \;"]),
    "a dollar with a backslash": (r"echo \${1}", [r"echo \$somefile.1"]),
    "defaults of variables": ("echo ${A:-${B:-{1}}} {1}", ["echo ${A:-${B:-{1}}} somefile.1"]),
    "blanks and capitals in braces": ("cat { 1 , 2 } > { O }", ["cat somefile.1 somefile.2 > mp.1.1.output"]),
}


@pytest.mark.parametrize(("command", "expected"), OTHERWISE.values(), ids=OTHERWISE)
def test_where_metapipe_is_not_sound(command: str, expected: list[str]) -> None:
    assert list(scripts(planned(command)).values()) == expected


def test_a_line_goes_on_behind_a_backslash() -> None:
    plan = planned("cat {1} \\", "  {2} > {o}", "cat {1.1 \\", "  ||1.1}")
    assert scripts(plan) == {
        "1.1": "cat somefile.1 \\\n  somefile.2 > mp.1.1.output",
        "2.1": "cat mp.1.1.output",
        "2.2": "cat mp.1.1.output",
    }


@pytest.mark.parametrize("reading", ["{1.*}", "{*.counts}", "{1.1,1.2}"])
def test_what_is_left_by_a_pattern_is_known_when_it_is_there(reading: str) -> None:
    reader = step(planned("./count {1||2} #{o:*.counts}", f"./an.sh {reading}"), "2")
    assert reader.needs == ("1",) and reader.runs == () and reader.late is not None


def test_a_pattern_without_a_dot_is_what_another_command_leaves() -> None:
    reader = step(planned("split {1} #{o:breakdown/*}", "cat {breakdown/*||} > {o}"), "2")
    assert reader.needs == ("1",) and reader.late is not None
    runs = reader.late.make({"1": [Left(label="1.1", files=("breakdown/b", "breakdown/a"))]}).runs
    assert [(run.label, run.argv[-1], run.inputs, run.outputs) for run in runs] == [
        ("2.1", "cat breakdown/a > mp.2.1.output", ("breakdown/a",), ("mp.2.1.output",)),
        ("2.2", "cat breakdown/b > mp.2.2.output", ("breakdown/b",), ("mp.2.2.output",)),
    ]


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        ("{1.*||}", {"2.1": {"1.1"}, "2.2": {"1.2"}, "2.3": {"1.3"}}),
        ("{1.*}", {"2.1": {"1.*"}}),
        ("{1.2}", {"2.1": {"1.2"}}),
        ("{1.3,1.1}", {"2.1": {"1.3", "1.1"}}),
        ("{1.1||1.3}", {"2.1": {"1.1"}, "2.2": {"1.3"}}),
        ("{4||1.*}", {"2.1": set(), "2.2": {"1.1", "1.2", "1.3"}}),
        ("{1.*||} {1.2}", {"2.1": {"1.1", "1.2"}, "2.2": {"1.2"}, "2.3": {"1.3", "1.2"}}),
        ("{mp.1.2.output}", {"2.1": {"1.2"}}),
        ("{mp.1.*.output||}", {"2.1": {"1.1"}, "2.2": {"1.2"}, "2.3": {"1.3"}}),
        ("{mp.1.*.output}", {"2.1": {"1.*"}}),
    ],
)
def test_a_run_waits_for_the_runs_it_reads_from(reading: str, expected: dict[str, set[str]]) -> None:
    found = needs(planned("sort {1||2||3} > {o}", f"cat {reading}"))
    assert {label: each for label, each in found.items() if label.startswith("2.")} == expected


def test_outputs_by_number() -> None:
    plan = planned("t {1||2} {o} {o.log} #{o:*.txt}", "cat {1.*-2||}", "cat {1.2-1}", "cat {1.*-1}", "cat {1.1-3}")
    assert {label: script for label, script in scripts(plan).items() if label[0] != "1"} == {
        "2.1": "cat mp.1.1-2.output.log",
        "2.2": "cat mp.1.2-2.output.log",
        "3.1": "cat mp.1.2-1.output",
        "4.1": "cat mp.1.1-1.output mp.1.2-1.output",
    }
    assert step(plan, "5").late is not None
    (run, _) = step(plan, "1").runs
    assert run.outputs == ("mp.1.1-1.output", "mp.1.1-2.output.log", "*.txt")


def test_all_outputs_of_a_run() -> None:
    plan = planned("t {1||2} {o} {o}", "cat {1.2}", "cat {1.2||}")
    assert scripts(plan)["2.1"] == "cat mp.1.2-1.output mp.1.2-2.output"
    assert [run.inputs for run in step(plan, "3").runs] == [("mp.1.2-1.output",), ("mp.1.2-2.output",)]


def test_file_order_does_not_matter() -> None:
    plan = planned("cat {2.*} > {o}", "cat {3.1} > {o}", "cat {1} > {o}")
    assert [step.name for step in plan.steps] == ["3", "2", "1"]
    assert scripts(plan)["1.1"] == "cat mp.2.1.output > mp.1.1.output"
    assert step(plan, "2").runs[0].needs == (Place("3", 0),)


def test_words_of_paths_are_replaced_where_they_stand_alone() -> None:
    paths = "\n[PATHS]\npython /usr/bin/python3 -s\n$OPTIONS -v {o} {}\n# python other\nsomefile.1 no\n"
    plan = planned('python "python" x/python {1}python --p={1} $OPTIONS python', more=FILES + paths)
    expected = '/usr/bin/python3 -s "python" x/python somefile.1python --p=somefile.1 -v {o} {} /usr/bin/python3 -s'
    assert list(scripts(plan).values()) == [expected]
    assert step(plan, "1").runs[0].outputs == ()


def test_inputs_and_outputs_of_runs_are_told() -> None:
    plan = planned("cat {1} {1,*.gz} > {o}", "cat {1.1} {2} > {o}")
    (first,), (second,) = step(plan, "1").runs, step(plan, "2").runs
    assert first.inputs == ("somefile.1", "a.gz", "b.gz", "c.gz") == step(plan, "1").reads
    assert first.outputs == ("mp.1.1.output",)
    assert second.inputs == ("mp.1.1.output", "somefile.2") and step(plan, "2").reads == ("somefile.2",)


def test_what_an_earlier_time_left_is_no_input() -> None:
    stale = ["mp.1.1.output", "mp.1.2.output", "mp.1.3.output", "mp.2.1.output.gz"]
    commands = ("sort {1||2} > {o}", "gzip -c {1.*||} > {o.gz}", "cat {*.gz||}", "cat {mp.1.*.output||}")
    assert planned(*commands, project=[*PROJECT, *stale]) == planned(*commands)


def test_a_file_with_a_fixed_name_is_known() -> None:
    plan = planned("./sum {1} #{o:total.csv}", "cat {total.csv}", "cat {1.1}", "cat {t}", more=FILES + "t. ./total.csv")
    assert scripts(plan) | {"1.1": ""} == {
        "1.1": "", "2.1": "cat total.csv", "3.1": "cat total.csv", "4.1": "cat ./total.csv"
    }  # fmt: skip
    assert [step.needs for step in plan.steps] == [(), ("1",), (), ("1",)]


def test_an_output_is_found_however_it_is_written() -> None:
    plan = planned("./sum {1} #{o:sums//total.csv}", "cat {1.1}", "cat {sums/./total.csv}", "mv {1} a/b #{o:x/../a/}")
    assert [step.runs[0].outputs for step in plan.steps] == [("sums/total.csv",), (), (), ("a",)]
    assert [step.needs for step in plan.steps] == [(), (), ("1",), ()]
    assert [scripts(plan)[run] for run in ("1.1", "2.1", "3.1")] == [
        "./sum somefile.1 # sums//total.csv", "cat sums/total.csv", "cat sums/./total.csv"
    ]  # fmt: skip


def test_a_command_may_add_to_what_it_waits_for() -> None:
    plan = planned("x #{o:d}", "y {1.1} > {o}", "touch d/f {2.1} #{o:d/f}", "touch {d}/g #{o:d/g}")
    assert [step.runs[0].outputs for step in plan.steps] == [("d",), ("mp.2.1.output",), ("d/f",), ("d/g",)]


def test_a_command_may_leave_a_directory_and_say_of_what_is_in_it() -> None:
    assert step(planned("x #{o:d} #{o:d/f} #{o:d/*.txt}"), "1").runs[0].outputs == ("d", "d/f", "d/*.txt")


def test_a_file_that_a_pattern_of_outputs_covers() -> None:
    commands = ("split {1} #{o:parts/*}", "cat {parts/first}", "cat {parts/*.txt||}")
    plan = planned(*commands)
    assert step(plan, "2").runs[0].inputs == ("parts/first",) and step(plan, "2").needs == ("1",)
    assert step(plan, "3").late is not None and step(plan, "3").needs == ("1",) and plan.notes == ()
    there = planned(*commands, project=[*PROJECT, "parts/first", "parts/b.txt"])
    assert scripts(there)["2.1"] == "cat parts/first" and scripts(there)["3.1"] == "cat parts/b.txt"
    assert [note.split(";")[0] for note in there.notes] == [
        "p.mp:3:6: parts/first is taken from the project, though command 1 may leave it, too",
        "p.mp:4:6: parts/*.txt is taken from the project, though command 1 may leave it, too",
    ]


def test_a_command_may_leave_what_is_like_its_inputs() -> None:
    plan = planned("./again {*.gz||} #{o:*.gz}")
    assert [run.argv[-1] for run in step(plan, "1").runs] == [f"./again {name}.gz # *.gz" for name in "abc"]


def test_an_alias_may_stand_for_several_files() -> None:
    plan = planned("cat {gz}", "cat {gz||}", more="\n[FILES]\ngz. *.gz")
    assert list(scripts(plan).values()) == ["cat a.gz b.gz c.gz", "cat a.gz", "cat b.gz", "cat c.gz"]


def test_unused_files_need_not_exist() -> None:
    plan = planned("echo", more="\n[FILES]\n1. no-such-file\n2. somefile.1\n")
    assert plan.notes == ("p.mp:4:4: no-such-file does not exist; no command reads it",)


def test_all_problems_are_told_at_once() -> None:
    error = refusal("cat {7} {no.txt}", "cat {9.1}", "cat {3.1}", more="\n")
    lines = error.message.split("\n")
    assert [line.split(" ")[0] for line in lines] == ["p.mp:2:6:", "p.mp:2:10:", "p.mp:3:6:", "p.mp:4:6:"]
    assert error.hint
