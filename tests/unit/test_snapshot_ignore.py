"""``.gitignore`` and ``.turnoutignore`` leave out what git would, and ours has the last word."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.snapshot import capture
from turnout.snapshot.ignore import Rules


def make(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    return root


def rule(root: Path, path: str, *lines: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("\n".join(lines) + "\n")


def kept(root: Path) -> set[str]:
    """What is taken, apart from the rule files."""
    with tempfile.TemporaryDirectory() as cache:
        first = {entry.path for entry in capture(root, cache=Path(cache)).entries}
        assert {entry.path for entry in capture(root, cache=Path(cache)).entries} == first  # from memory, the same
    return {path for path in first if not path.endswith("ignore")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(
        tmp_path / "root",
        "train.py", "debug.log", "data/big.csv", "data/small.csv", "data/raw/a.csv", "data/raw/b.txt",
        "src/model.py", "src/debug.log", "src/build/out.o", "build/out.o", "docs/build/index.html",
    )  # fmt: skip


def test_without_rules_everything_is_taken(root: Path) -> None:
    assert len(kept(root)) == 11


def test_gitignore_is_honoured(root: Path) -> None:
    rule(root, ".gitignore", "# logs", "*.log", "", "/build/", "data/raw", "!src/debug.log")
    assert kept(root) == {
        "train.py", "data/big.csv", "data/small.csv", "src/model.py", "src/debug.log", "src/build/out.o",
        "docs/build/index.html",
    }  # fmt: skip


def test_nested_rules_count_below_their_directory(root: Path) -> None:
    rule(root, ".gitignore", "*.log")
    rule(root, "src/.gitignore", "!debug.log", "/build")
    assert kept(root) == {
        "train.py", "data/big.csv", "data/small.csv", "data/raw/a.csv", "data/raw/b.txt", "src/model.py",
        "src/debug.log", "build/out.o", "docs/build/index.html",
    }  # fmt: skip


def test_our_rules_win_over_gits(root: Path) -> None:
    rule(root, ".gitignore", "*.log", "data/", "!train.py")
    rule(root, ".turnoutignore", "!debug.log", "!data/", "data/raw/", "train.py", "build/")
    assert kept(root) == {"debug.log", "src/debug.log", "data/big.csv", "data/small.csv", "src/model.py"}


def test_our_rules_win_even_from_further_up(root: Path) -> None:
    rule(root, "src/.gitignore", "model.py")
    rule(root, ".turnoutignore", "!model.py", "/data", "build")
    assert kept(root) == {"train.py", "debug.log", "src/model.py", "src/debug.log"}


def test_one_file_is_taken_back_from_a_directory_that_is_left_out(root: Path) -> None:
    rule(root, ".gitignore", "data/", "*.log", "build/")
    rule(root, ".turnoutignore", "!data/small.csv")
    assert kept(root) == {"train.py", "src/model.py", "data/small.csv"}
    rule(root, ".turnoutignore", "!data/**/a.csv")
    assert kept(root) == {"train.py", "src/model.py", "data/raw/a.csv"}
    rule(root, ".turnoutignore", "!/data/raw/")
    assert kept(root) == {"train.py", "src/model.py", "data/raw/a.csv", "data/raw/b.txt"}


def test_what_is_never_taken_cannot_be_taken_back(root: Path) -> None:
    make(root, ".git/config", "node_modules/x.js")
    rule(root, ".turnoutignore", "!.git/config", "!node_modules/", "!.git")
    assert not kept(root) & {".git/config", "node_modules/x.js"}


def test_rules_of_the_repository_above_count(root: Path) -> None:
    (root / ".git/info").mkdir(parents=True)
    rule(root, ".gitignore", "/src/build", "*.csv", "raw")
    rule(root, ".git/info/exclude", "model.py")
    assert kept(root / "src") == {"debug.log"}
    rule(root, "src/.gitignore", "!build", "!model.py", "*.log")
    assert kept(root / "src") == {"build/out.o", "model.py"}


def test_rules_above_that_leave_out_the_directory_itself_do_not_count(root: Path) -> None:
    """As in a home directory that is a repository of settings and ignores everything else."""
    (root / ".git").mkdir()
    rule(root, ".gitignore", "*", "!.gitignore")
    assert kept(root / "data") == {"big.csv", "small.csv", "raw/a.csv", "raw/b.txt"}
    assert kept(root / "data/raw") == {"a.csv", "b.txt"}
    rule(root, ".gitignore", "data/raw/", "*.txt")
    assert kept(root / "data/raw") == {"a.csv", "b.txt"}
    assert kept(root / "data") == {"big.csv", "small.csv"}


def test_rules_with_characters_that_mean_something_to_patterns(root: Path) -> None:
    make(root, "a[1].txt", "a1.txt", "x+y", "#file", "!file", "with space ", "data/(x)")
    rule(root, ".gitignore", r"a\[1\].txt", "x+y", r"\#file", r"\!file", "with space\\ ", "(x)", "debug.???", "[b]uild")
    assert kept(root) == {
        "train.py", "data/big.csv", "data/small.csv", "data/raw/a.csv", "data/raw/b.txt", "src/model.py", "a1.txt",
    }  # fmt: skip


def test_rules_that_are_not_text_break_nothing(root: Path) -> None:
    (root / ".gitignore").write_bytes(b"\xff\xfe\x00[[[\n*.log\n!\n/\n//\n**\n!**/\n\\\n")
    kept(root)


def test_the_short_cut_asks_about_every_name_a_pattern_could_match() -> None:
    rules = Rules().adding("", {".gitignore": b"*.log\nbuild/\n/data/raw\ndocs/**/x.html\n!keep.log\n"})
    for name in ("a.log", "build", "raw", "x.html", "keep.log", "__pycache__", "m.pyc"):
        assert rules.concerns(name)
    for name in ("train.py", "data", "docs", "x.htm"):
        assert not rules.concerns(name)


names = st.sampled_from(["a", "b", "a.txt", "b.log", "build", "x y", "[z]"])
patterns = st.lists(
    st.builds(
        lambda bang, slash, parts, end: bang + slash + "/".join(parts) + end,
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "/", "**/"]),
        st.lists(
            st.sampled_from(["a", "b", "*", "*.txt", "?", "build", "x y", r"\[z\]", "[ab]"]), min_size=1, max_size=3
        ),
        st.sampled_from(["", "/", "/**", "/*"]),
    ),
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), min_size=1, max_size=10),
    patterns,
    st.none() | st.tuples(st.sampled_from(["a", "b", "build"]), patterns),
)
def test_gits_rules_mean_what_git_says(
    tmp_path_factory: pytest.TempPathFactory,
    paths: list[str],
    top: list[str],
    nested: tuple[str, list[str]] | None,
) -> None:
    """The same tree, asked of git itself."""
    root = tmp_path_factory.mktemp("tree")
    for path in paths:
        try:
            make(root, path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    rule(root, ".gitignore", *top)
    if nested and (root / nested[0]).is_dir():
        rule(root, f"{nested[0]}/.gitignore", *nested[1])
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=root, check=True, stdout=subprocess.PIPE
    )
    ours = {entry.path for entry in capture(root, cache=root.parent / "cache").entries}
    assert ours == {path.decode() for path in listed.stdout.split(b"\0") if path}
