"""Pipelines that are done in one directory, which all nodes see."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.acceptance.test_pipelines import EXAMPLE, _right_tables, _tables, run, runs_of, states, written
from tests.harness import Cli

STEPS = """
split: {command: 'split -l 2 --additional-suffix=.txt lines.txt parts/', outputs: 'parts/*.txt'}
turn: {command: 'tac {file} > {output}', each: 'parts/*.txt', needs: split, outputs: 'turned/{stem}'}
all: {command: 'cat {inputs} > {output}; pwd', collect: turn, outputs: all.txt}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "shared"
    found.mkdir()
    (found / "lines.txt").write_text("1\n2\n3\n4\n5\n")
    return found


def test_what_steps_leave_lies_there_and_nothing_is_copied(user: Cli, project: Path, place: Path) -> None:
    view = run(user, written(project, STEPS), "--shared", str(place))
    assert states(view) == {"split": {"completed": 1}, "turn": {"completed": 3}, "all": {"completed": 1}}
    assert (place / "all.txt").read_text().split() == ["2", "1", "4", "3", "5"]
    (last,) = runs_of(user, view, "all")
    assert user("logs", last["name"]).stdout == f"{place}\n"
    captured = [each for each in user.json("events", last["name"]) if each["event"] == "capture_after"]
    assert captured[0]["data"]["files"] == 0 and user.json("show", view["name"])["snapshot"] is None


def test_the_file_may_say_so(user: Cli, project: Path) -> None:
    (project / "place").mkdir()
    content = {"pipeline": {"shared": "place", "steps": {"a": {"command": "echo x > {output}", "outputs": "a/b.txt"}}}}
    (project / "p.yaml").write_text(yaml.safe_dump(content))
    run(user, "p.yaml")
    assert (project / "place" / "a" / "b.txt").read_text() == "x\n"


def test_metapipe_files_leave_their_outputs_beside_them(user: Cli, project: Path) -> None:
    for each in EXAMPLE.iterdir():
        target = project / each.name
        if each.is_dir():
            target.mkdir()
            for sample in each.iterdir():
                (target / sample.name).write_bytes(sample.read_bytes())
        else:
            target.write_bytes(each.read_bytes())
    run(user, "reads.mp", "--shared", ".")
    assert _tables((project / "mp.7.1.output.md").read_text()) == _right_tables(project)


@pytest.mark.parametrize("command", ["true", "touch -c a"])
def test_what_is_left_from_an_earlier_time_does_not_count(command: str, user: Cli, project: Path, place: Path) -> None:
    (place / "a").write_text("of yesterday")
    os_time = (place / "a").stat().st_mtime_ns
    steps = f"{{a: {{command: '{command}', outputs: a}}, b: {{command: 'true', needs: a}}}}"
    view = run(user, written(project, steps), "--shared", str(place), code=1 if command == "true" else 0)
    if command == "true":
        (made,) = runs_of(user, view, "a")
        assert made["reason"] == "no_output" and (place / "a").stat().st_mtime_ns == os_time
        assert "it left no a" in user("why", made["name"]).stdout
    else:
        assert view["state"] == "completed", "touched anew"


@pytest.mark.parametrize(
    ("command", "outputs", "told"),
    [
        ("ln -sf lines.txt a", "a", ""),
        ("ln -sf $PWD/lines.txt parts/a", "parts/*", ""),
        ("mkdir real; touch real/x; ln -s real a", "a", ""),
        ("mkdir real; touch real/x; ln -s ../real parts/a", "parts/*", ""),
        ("ln -sf gone a", "a", "it left no a, but a link to gone, which is not there."),
        ("ln -sf gone parts/a", "parts/*", "it left no parts/*, but parts/a is a link to gone, which is not there."),
    ],
)
def test_a_link_counts_if_it_leads_to_something(
    command: str, outputs: str, told: str, user: Cli, project: Path, place: Path
) -> None:
    file = written(project, yaml.safe_dump({"a": {"command": command, "outputs": outputs}}))
    view = run(user, file, "--shared", str(place), code=1 if told else 0)
    (made,) = runs_of(user, view, "a")
    assert told in user("why", made["name"]).stdout
    if command.startswith("ln -sf") and not told:
        assert run(user, file, "--shared", str(place))["state"] == "completed", "made anew, to the same file"


def test_links_among_others_that_lead_nowhere_are_none(user: Cli, project: Path, place: Path) -> None:
    steps = """
    a: {command: 'touch parts/a; ln -s gone parts/b', outputs: 'parts/*'}
    b: {command: 'echo {file}', each: 'parts/*', needs: a}
    """
    view = run(user, written(project, steps), "--shared", str(place))
    assert [each["params"]["file"] for each in runs_of(user, view, "b")] == ["parts/a"]


def test_a_directory_that_is_not_there(user: Cli, project: Path, tmp_path: Path) -> None:
    file = written(project, "a: {command: 'true'}")
    done = user("pipeline", file, "--shared", str(tmp_path / "gone"), check=False)
    assert done.returncode == 2 and "there is no directory" in done.stderr and "all nodes see" in done.stderr


def test_a_node_that_does_not_see_it(user: Cli, project: Path, place: Path) -> None:
    """It goes while the pipeline is under way."""
    steps = f"{{a: {{command: 'mv {place} {place}-gone'}}, b: {{command: 'true', needs: a, outputs: b}}}}"
    view = run(user, written(project, steps), "--shared", str(place), code=1)
    (made,) = runs_of(user, view, "b")
    assert f"there is no directory {place} on this node" in user("why", made["name"]).stdout
