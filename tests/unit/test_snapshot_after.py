"""After a run its files are found and hashed, whatever the run has done to its directory."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnout.agent import after
from turnout.agent.after import capture_after, open_after
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry, digest_of
from turnout.wire.patterns import advance, compile_pattern, matcher, onward


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory of a finished run, beside a file it must not get at."""
    (tmp_path / "marker.txt").write_text("secret of another")
    root = tmp_path / "work"
    for path, text in {
        "output/model.pt": "weights",
        "output/plots/loss.png": "png",
        "best.ckpt": "best",
        "sub/other.ckpt": "other",
        "logs/a/b/deep.txt": "deep",
        "logs/top.txt": "top",
        "logs/top.json": "{}",
        "train.py": "print()",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def kept(work: Path, *patterns: str, artifacts: Sequence[str] = ()) -> list[str]:
    entries, problems = capture_after(str(work), list(patterns), list(artifacts))
    assert problems == []
    return [entry.path for entry in entries]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("output/**", ["output/model.pt", "output/plots/loss.png"]),
        ("output", ["output/model.pt", "output/plots/loss.png"]),
        ("output/", ["output/model.pt", "output/plots/loss.png"]),
        ("./output/*", ["output/model.pt", "output/plots/loss.png"]),
        ("output/*.pt", ["output/model.pt"]),
        ("*.ckpt", ["best.ckpt"]),
        ("**/*.ckpt", ["best.ckpt", "sub/other.ckpt"]),
        ("logs/**/*.txt", ["logs/a/b/deep.txt", "logs/top.txt"]),
        ("logs/**/**/*.txt", ["logs/a/b/deep.txt", "logs/top.txt"]),
        ("**/b/**", ["logs/a/b/deep.txt"]),
        ("log[st]/t?p.json", ["logs/top.json"]),
        ("nothing/**", []),
        ("../*", []),
        ("", []),
    ],
)
def test_patterns(work: Path, pattern: str, expected: list[str]) -> None:
    assert kept(work, pattern) == expected


def test_many_names_of_a_directory_are_looked_at_like_one() -> None:
    texts = ["a", "a/b", "a/*", "*/b", "**/b", "**", "[ab]", ".", "a/**/b", "b"]
    rests = frozenset(rest for rest in map(compile_pattern, texts) if rest is not None)
    for name in ("a", "b", "c"):
        assert onward(rests)(name) == advance(rests, name)


@pytest.mark.parametrize("patterns", [["a/b"], ["a"], ["a/"], ["./a"], ["a/b", "c"], ["a/*"], ["c", "**/b"], ["."]])
def test_a_path_is_taken_with_all_it_holds(patterns: list[str]) -> None:
    is_taken = matcher(patterns)
    assert is_taken("a/b") and is_taken("a/b/c") and not matcher(["c", "a/bc", "a/b/d"])("a/b")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("logs", "!*.txt"), ["logs/top.json"]),
        (("logs", "!logs/a"), ["logs/top.json", "logs/top.txt"]),
        (("!b", "logs/**"), ["logs/top.json", "logs/top.txt"]),
        (("logs/**", "!logs/**/deep.*"), ["logs/top.json", "logs/top.txt"]),
        (("output", "!output/**"), []),
        (("output", "!"), ["output/model.pt", "output/plots/loss.png"]),
    ],
)
def test_patterns_behind_an_exclamation_mark_leave_out(
    work: Path, patterns: tuple[str, ...], expected: list[str]
) -> None:
    assert kept(work, *patterns) == expected


def test_what_a_run_named_itself_is_kept_whatever_is_left_out(work: Path) -> None:
    assert kept(work, "logs", "!*.txt", artifacts=["logs/top.txt"]) == ["logs/top.json", "logs/top.txt"]


def test_a_file_matched_twice_is_kept_once(work: Path) -> None:
    assert kept(work, "*.ckpt", "best.*", "**/best.ckpt", artifacts=["best.ckpt"]) == ["best.ckpt"]


def test_entries_say_what_the_files_are(work: Path) -> None:
    (work / "output/run.sh").write_text("#!/bin/sh")
    (work / "output/run.sh").chmod(0o770)
    entries, _ = capture_after(str(work), ["output/*.pt", "output/*.sh"], [])
    assert entries == [
        Entry("output/model.pt", 0o644, 7, digest_of(b"weights")),
        Entry("output/run.sh", 0o755, 9, digest_of(b"#!/bin/sh")),
    ]
    manifest.check(entries)


def test_large_files_are_hashed_piece_by_piece(work: Path) -> None:
    content = os.urandom(3 << 20)
    (work / "output/big").write_bytes(content)
    entries, _ = capture_after(str(work), ["output/big"], [])
    assert entries == [Entry("output/big", 0o644, 3 << 20, digest_of(content))]


def test_artifacts_are_taken_by_name_inside_the_directory_only(work: Path) -> None:
    (work / "odd [1]*.txt").write_text("odd")
    assert kept(work, artifacts=["odd [1]*.txt", str(work / "train.py"), "logs"]) == [
        "logs/a/b/deep.txt",
        "logs/top.json",
        "logs/top.txt",
        "odd [1]*.txt",
        "train.py",
    ]
    entries, problems = capture_after(
        str(work), [], ["../marker.txt", "/etc/passwd", "gone.txt", "logs/../../marker.txt"]
    )
    assert entries == []
    assert sorted(problems) == [
        "'../marker.txt': not inside the run's directory",
        "'/etc/passwd': not inside the run's directory",
        "'gone.txt': no such file",
        "'logs/../../marker.txt': not inside the run's directory",
    ]


def test_links_are_kept_as_links_or_left_out_and_never_read(work: Path) -> None:
    (work / "output/latest").symlink_to("model.pt")
    (work / "output/dir").symlink_to("plots")
    (work / "output/marker").symlink_to("../../marker.txt")
    (work / "output/environ").symlink_to("/proc/self/environ")
    (work / "output/up").symlink_to("..")
    entries, problems = capture_after(str(work), ["output/**"], [])
    assert {entry.path: entry.link for entry in entries if entry.link} == {
        "output/dir": "plots",
        "output/latest": "model.pt",
        "output/up": "..",
    }
    assert sorted(problems) == [
        "'output/environ': a link out of the run's directory",
        "'output/marker': a link out of the run's directory",
    ]
    assert digest_of(b"secret of another") not in {entry.digest for entry in entries}
    manifest.check(entries)


def test_a_link_in_place_of_the_output_directory_is_not_gone_through(work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("theirs")
    (work / "stolen").symlink_to("../other")
    (work / "inside").symlink_to("output")
    entries, problems = capture_after(str(work), ["stolen/**", "inside/**", "stolen/file"], ["stolen/file"])
    assert [entry.path for entry in entries] == ["inside"]
    assert problems == ["'stolen': a link out of the run's directory", "'stolen/file': no such file"]


def test_what_is_no_file_is_left_out_and_named(work: Path) -> None:
    os.mkfifo(work / "output/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(work / "output")  # the path of a socket must be short
        try:
            listener.bind("socket")
        finally:
            os.chdir(before)
        entries, problems = capture_after(str(work), ["output/**"], [])
    assert [entry.path for entry in entries] == ["output/model.pt", "output/plots/loss.png"]
    assert sorted(problems) == [
        "'output/pipe': neither a file nor a directory",
        "'output/socket': neither a file nor a directory",
    ]


def test_what_cannot_be_read_is_left_out_and_named(nobody: Path) -> None:
    (nobody / "output/plots").mkdir(parents=True)
    (nobody / "output/model.pt").touch(mode=0)
    (nobody / "output/plots").chmod(0)
    entries, problems = capture_after(str(nobody), ["output/**"], [])
    (nobody / "output/plots").chmod(0o700)
    assert entries == []
    assert sorted(problems) == [
        "'output/model.pt': cannot be read (Permission denied)",
        "'output/plots': cannot be read (Permission denied)",
    ]


def test_problems_are_a_screenful_at_most(work: Path) -> None:
    for number in range(50):
        (work / f"output/link{number}").symlink_to("/etc/passwd")
    _, problems = capture_after(str(work), ["output/**"], [])
    assert len(problems) == 21
    assert problems[-1] == "and 30 more"


def test_too_many_files_or_levels_are_cut_and_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after, "MAX_FILES", 3)
    entries, problems = capture_after(str(work), ["**"], [])
    assert len(entries) == 3
    assert any("more than 3 files" in problem for problem in problems)
    monkeypatch.undo()
    before = os.getcwd()
    os.chdir(work / "output")
    try:
        for _ in range(200):
            os.mkdir("d")
            os.chdir("d")
        Path("bottom").touch()
    finally:
        os.chdir(before)
    entries, problems = capture_after(str(work), ["output/**"], [])
    assert [entry.path for entry in entries] == ["output/model.pt", "output/plots/loss.png"]
    assert any("nested too deeply" in problem for problem in problems)


def test_nothing_to_keep_costs_a_look_at_one_name(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("open", "stat", "scandir", "listdir", "read"):
        real = getattr(os, name)

        def counted(*args: object, _name: str = name, _real: object = real, **kw: object) -> object:
            calls.append(_name)
            return _real(*args, **kw)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    assert capture_after(str(work), ["results/**"], []) == ([], [])
    assert calls == ["open", "stat"]


def test_a_directory_that_is_gone_is_a_problem_not_an_error(tmp_path: Path) -> None:
    entries, problems = capture_after(str(tmp_path / "gone"), ["output/**"], [])
    assert entries == []
    assert len(problems) == 1 and "No such file" in problems[0]


def test_opening_for_upload_follows_no_link_either(work: Path) -> None:
    with os.fdopen(open_after(str(work), "output/model.pt"), "rb") as file:
        assert file.read() == b"weights"
    (work / "output/model.pt").unlink()
    (work / "output/model.pt").symlink_to("../../marker.txt")
    with pytest.raises(OSError):
        open_after(str(work), "output/model.pt")
    (work / "logs").rename(work / "real")
    (work / "logs").symlink_to("real")
    with pytest.raises(OSError):
        open_after(str(work), "logs/top.txt")
    os.mkfifo(work / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_after(str(work), "pipe")
    with pytest.raises(BadManifest):
        open_after(str(work), "../marker.txt")
    assert stat.S_ISDIR(work.stat().st_mode)
