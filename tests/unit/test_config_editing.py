"""An entry comes into a settings file, or goes, and nothing else in it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnout.config.editing import put, remove, with_entry, without_entry
from turnout.errors import Conflict, InvalidInput

ENTRY = {"address": "ada@lab", "port": 2222, "max-runs": 4}
SAID = "far: {address: ada@lab, port: 2222, max-runs: 4}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"boxes:\n  {SAID}"),
        ("general: {target: a}  # mine", f"general: {{target: a}}  # mine\nboxes:\n  {SAID}"),
        ("boxes:\n", f"boxes:\n  {SAID}"),
        ("boxes:  # none yet\nhub: {}\n", f"boxes:  # none yet\n  {SAID}hub: {{}}\n"),
        ("boxes: ~\n", f"boxes:\n  {SAID}"),
        ("boxes: {}\n", f"boxes: {{{SAID[:-1]}}}\n"),
        ("boxes: {a: {address: b}}\nhub: {}\n", f"boxes: {{a: {{address: b}}, {SAID[:-1]}}}\nhub: {{}}\n"),
        (
            "boxes:\n    # the old one\n    a:\n        address: b  # slow\n\n# about the hub\nhub: {idle: 1h}\n",
            f"boxes:\n    # the old one\n    a:\n        address: b  # slow\n    {SAID}\n# about the hub\n"
            "hub: {idle: 1h}\n",
        ),
        ("boxes:\n  a: {address: b,\n      port: '1'}", f"boxes:\n  a: {{address: b,\n      port: '1'}}\n  {SAID}"),
        ("boxes:\n  a:\n    prolog:\n    - |\n      y\n", f"boxes:\n  a:\n    prolog:\n    - |\n      y\n  {SAID}"),
    ],
)  # fmt: skip
def test_an_entry_is_added_and_taken_out_again(before: str, after: str) -> None:
    assert with_entry(before, "boxes", "far", ENTRY) == after
    left = without_entry(after, "boxes", "far")
    assert "far" not in left
    assert [line for line in before.splitlines() if "#" in line and "boxes" not in line] == [
        line for line in left.splitlines() if "#" in line and "boxes" not in line
    ]


def test_the_first_of_several_goes() -> None:
    assert without_entry("boxes: {a: {x: 1}, b: {y: 2}}\n", "boxes", "a") == "boxes: {b: {y: 2}}\n"
    assert without_entry("boxes:\n  a:\n    x: 1\n  # of b\n  b: {y: 2}\n", "boxes", "a") == (
        "boxes:\n  # of b\n  b: {y: 2}\n"
    )


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.yaml", tmp_path / "config.yaml"
    real.write_text("# mine\n")
    real.chmod(0o640)
    link.symlink_to(real)
    put(link, "boxes", "far", ENTRY)
    assert link.is_symlink() and real.read_text() == f"# mine\nboxes:\n  {SAID}"
    assert real.stat().st_mode & 0o777 == 0o640
    with pytest.raises(Conflict, match="there already"):
        put(link, "boxes", "far", ENTRY)
    remove(link, "boxes", "far")
    assert real.read_text() == "# mine\n"
    with pytest.raises(Conflict, match=r"no boxes\.far"):
        remove(link, "boxes", "far")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config.yaml", "dotfiles.yaml"]


def test_a_new_file_is_private(tmp_path: Path) -> None:
    put(tmp_path / "new" / "config.yaml", "boxes", "far", ENTRY)
    assert (tmp_path / "new" / "config.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", ["boxes: [\n", "boxes: {a: 1}\nboxes: {b: 2}\n"])
def test_a_file_that_is_wrong_is_left_alone(tmp_path: Path, broken: str) -> None:
    (tmp_path / "config.yaml").write_text(broken)
    with pytest.raises(InvalidInput):
        put(tmp_path / "config.yaml", "boxes", "far", ENTRY)
    assert (tmp_path / "config.yaml").read_text() == broken


@pytest.mark.parametrize("name", ["yes", "1e3", "a.b", "0"])
def test_any_name_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.yaml"
    put(file, "boxes", name, {"address": "true", "python": "3.10"})
    remove(file, "boxes", name)
    assert file.read_text() == ""
