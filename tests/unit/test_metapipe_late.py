"""Steps that wait for the files others leave."""

from __future__ import annotations

import json

import pytest

from tests.metapipe_files import FILES, planned, step
from turnout.errors import InvalidInput
from turnout.pipeline.metapipe import LateStep, late_from
from turnout.pipeline.plan import Left, Plan

COUNT = "./count {1||2} #{o:*.counts}"
LEFT = {"1": [Left(label="1.1", files=("z.counts", "a.counts")), Left(label="1.2", files=("b.counts", "a.counts"))]}


def late(plan: Plan, name: str) -> LateStep:
    """As it comes back from where it was written down."""
    found = step(plan, name).late
    assert isinstance(found, LateStep)
    again = late_from(json.loads(json.dumps(found.plain())))
    assert again == found
    return again


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat {*.counts}", ["cat a.counts b.counts z.counts"]),
        ("cat {*.counts||}", ["cat a.counts", "cat b.counts", "cat z.counts"]),
        ("cat {1.*}", ["cat z.counts a.counts b.counts"]),
        ("cat {1.*||} > {o}", [f"cat {name}.counts > mp.2.{run}.output" for run, name in enumerate("zab", 1)]),
        ("cat {1.2} {3}", ["cat b.counts a.counts somefile.3"]),
        ("cat {1.1-1||1.2-1}", ["cat z.counts a.counts", "cat b.counts a.counts"]),
        ("cat {3||4} {1.1||}", ["cat somefile.3 z.counts", "cat somefile.4 a.counts"]),
    ],
)
def test_its_runs(command: str, expected: list[str]) -> None:
    runs = late(planned(COUNT, command), "2").make(LEFT).runs
    assert [run.argv[-1] for run in runs] == expected
    assert [run.label for run in runs] == [f"2.{number}" for number in range(1, len(expected) + 1)]


def test_who_reads_from_a_late_step_is_made_when_that_is() -> None:
    """Its runs wait for what they read themselves."""
    plan = planned(
        COUNT, "sort {*.counts||} > {o.txt}", "cat {2.*||} > {o}", "cat {2.2}", "cat {mp.2.*.output.txt||}", "cat {2.*}"
    )
    assert [(step.name, step.needs, step.follows, step.is_late) for step in plan.steps] == [
        ("1", (), (), False), ("2", ("1",), (), True), *((name, (), ("2",), True) for name in "3456")
    ]  # fmt: skip
    sorts = late(plan, "2").make(LEFT).runs
    left = {"2": [Left(label=run.label, files=run.outputs) for run in sorts]}
    copies = late(plan, "3").make(left)
    assert [run.argv[-1] for run in copies.runs] == [
        f"cat mp.2.{run}.output.txt > mp.3.{run}.output" for run in (1, 2, 3)
    ]
    assert [run.needs for run in copies.runs] == [(("2", 0),), (("2", 1),), (("2", 2),)] and copies.needs == ()
    (one,) = late(plan, "4").make(left).runs
    assert (one.argv[-1], one.needs) == ("cat mp.2.2.output.txt", (("2", 1),))
    matching = late(plan, "5").make(left).runs
    assert [run.argv[-1] for run in matching] == [f"cat mp.2.{run}.output.txt" for run in (1, 2, 3)]
    assert [run.needs for run in matching] == [(("2", 0),), (("2", 1),), (("2", 2),)]
    assert late(plan, "6").make(left).needs == ("2",)


def test_it_needs_all_it_reads_from_and_knows_what_it_reads() -> None:
    more = f"{FILES}[JOB_OPTIONS]\nset -e\n[PATHS]\ncat /bin/cat\n"
    plan = planned(COUNT, "sort {3||4} > {o}", "# together", "cat {*.counts} {2.*||} {2.1} {*.gz}", more=more)
    reader = step(plan, "3")
    assert (reader.needs, reader.follows) == (("1",), ("2",)) and reader.reads == ("a.gz", "b.gz", "c.gz")
    left = LEFT | {"2": [Left(label=f"2.{run}", files=(f"mp.2.{run}.output",)) for run in (1, 2)]}
    runs = late(plan, "3").make(left).runs
    files = "a.counts b.counts z.counts mp.2.{}.output mp.2.1.output a.gz b.gz c.gz"
    assert [run.argv[-1] for run in runs] == [f"set -e\n# together\n/bin/cat {files.format(run)}" for run in (1, 2)]


@pytest.mark.parametrize(
    ("command", "left", "message"),
    [
        ("cat {*.counts}", (), "p.mp:3:6: command 1 left no file that matches *.counts"),
        ("cat {1.*}", (), "p.mp:3:6: command 1 left no file of those that it declares"),
        ("cat {1.*-1||}", ("x.txt",), "p.mp:3:6: command 1 left no file that matches *.counts"),
        ("cat {1.1} {1.3}", ("a.counts",), "p.mp:3:12: command 1 came to 1 run, and there is no 1.3"),
        ("cat {1||2} {1.*||}", ("a.counts",), "p.mp:3:12: expected as many as {1||2} comes to, 2, found 1"),
        (
            "cat {1.*,a*.counts||}",
            ("a.counts", "b.counts"),
            "p.mp:3:5: expected equally many files for each part of {1.*,a*.counts||}, found 1 and 2",
        ),
        ("cat {1.*||} > x #{o:x}", ("a.counts", "b.counts"), "p.mp:3:18: each of the 2 runs of command 2 leaves x"),
    ],
)
def test_what_was_left_does_not_do(command: str, left: tuple[str, ...], message: str) -> None:
    found = late(planned(COUNT, command), "2")
    with pytest.raises(InvalidInput) as caught:
        found.make({"1": [Left(label="1.1", files=left)]})
    assert caught.value.message == message and caught.value.hint
