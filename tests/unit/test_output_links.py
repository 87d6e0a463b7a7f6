"""Outputs that are links: what they lead to is kept, as far as it may be read, and all else is named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnout.agent import capture, links
from turnout.agent.after import entry_of, gather
from turnout.agent.links import Followed, follow, open_source
from turnout.agent.output import Output
from turnout.agent.rundir import RunDir
from turnout.wire import manifest
from turnout.wire.manifest import digest_of
from turnout.wire.messages import Grant


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory of a finished run, beside ours and files of others."""
    (tmp_path / "ctl").mkdir()
    (tmp_path / "ctl" / "output").write_text("printed")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "genome.fa").write_text("genome")
    root = tmp_path / "work"
    for path, text in {"big": "big", "lib.so.1": "library", "d/x.txt": "x", "d/e/y.txt": "y", "d/z.csv": "z"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "output.txt").symlink_to("../ctl/output")
    return root


class Kept:
    """What is kept of `outputs`: files by their content, links as ``-> TEXT``."""

    def __init__(
        self, work: Path, *outputs: str, after: Sequence[str] = (), given: Sequence[str] = (), contained: bool = False
    ) -> None:
        found = gather(str(work), [*after, *outputs], [])
        self.followed: Followed = follow(str(work), found, outputs, given, is_contained=contained)
        self.problems = found.shown()
        self.files: dict[str, str] = {}
        manifest.check(found.kept())
        for entry in found.kept():
            if entry.link:
                self.files[entry.path] = f"-> {entry.link}"
                continue
            with os.fdopen(open_source(str(work), self.followed.sources.get(entry.path, entry.path)), "rb") as file:
                content = file.read()
            assert (digest_of(content), len(content)) == (entry.digest, entry.size)
            self.files[entry.path] = content.decode()


def link(work: Path, **texts: str) -> None:
    """Links, with ``__`` for a slash in their names."""
    for name, text in texts.items():
        path = work / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(text.format(work=work, above=work.parent))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["big", "./big", "d/../big", "{work}/big", "../work/big", "{above}/work/d/../big"])
@pytest.mark.parametrize("output", ["a", "?", "./a"])
def test_what_is_no_output_itself_is_kept_by_its_content(text: str, output: str, work: Path) -> None:
    link(work, a=text)
    kept = Kept(work, output)
    assert kept.files["a"] == "big" and kept.problems == []


def test_what_is_an_output_as_well_stays_a_link(work: Path) -> None:
    link(work, a="lib.so.1", d__up="../lib.so.1", d__abs="{work}/lib.so.1")
    kept = Kept(work, "lib.so.1", "a", "d/up", "d/abs")
    assert kept.files == {
        "lib.so.1": "library", "a": "-> lib.so.1", "d/up": "-> ../lib.so.1", "d/abs": "-> ../lib.so.1",
    }  # fmt: skip
    assert kept.problems == []


def test_links_that_lead_to_links(work: Path) -> None:
    """One whose next is no output leads to the end at once."""
    link(work, a="b", b="lib.so.1", c="a")
    assert Kept(work, "a", "b", "lib.so.1").files == {"a": "-> b", "b": "-> lib.so.1", "lib.so.1": "library"}
    assert Kept(work, "a", "lib.so.1").files == {"a": "-> lib.so.1", "lib.so.1": "library"}
    assert Kept(work, "a", "b").files == {"a": "-> b", "b": "library"}
    assert Kept(work, "a", "c").files == {"a": "library", "c": "-> a"}
    assert Kept(work, "c").files == {"c": "library"}


def test_what_was_given_is_no_output(work: Path) -> None:
    link(work, a="big")
    assert Kept(work, "a", "big", given=["big"]).files["a"] == "big"


def test_what_is_kept_besides_outputs_is_as_it_was(work: Path) -> None:
    """Nobody said that a link has to lead to something there; but an output must not lead to what is only kept."""
    link(work, a="big", b="nowhere", c="../data/genome.fa")
    kept = Kept(work, after=["*"])
    assert {"a": "-> big", "b": "-> nowhere"}.items() <= kept.files.items()
    assert "'c': a link out of the run's directory" in kept.problems
    assert Kept(work, "a", after=["*"]).files["a"] == "big"


# --- out of the directory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{above}/data/genome.fa", "../data/genome.fa", "{above}/ln"])
@pytest.mark.parametrize("output", ["ref.fa", "*.fa", "**"])
def test_a_file_elsewhere_is_kept_by_its_content(text: str, output: str, work: Path) -> None:
    (work.parent / "ln").symlink_to("data/../data/genome.fa")
    link(work, **{"ref.fa": text})
    kept = Kept(work, output)
    assert kept.files["ref.fa"] == "genome" and not any("ref.fa" in each for each in kept.problems)
    assert kept.followed.sources["ref.fa"] == str((work.parent / "data" / "genome.fa").resolve())


def test_its_directories_need_not_be_readable(nobody: Path) -> None:
    (nobody / "passage").mkdir()
    (nobody / "passage" / "file").write_text("there")
    (nobody / "work").mkdir()
    (nobody / "work" / "a").symlink_to("../passage/file")
    (nobody / "passage").chmod(0o311)
    kept = Kept(nobody / "work", "a")
    (nobody / "passage").chmod(0o700)
    assert kept.files == {"a": "there"}


def test_in_a_container_it_would_be_another_file(work: Path) -> None:
    link(work, a="{above}/data/genome.fa", b="/no/such/thing/here", c="{work}/big")
    kept = Kept(work, "a", "b", "c", contained=True)
    assert kept.files == {"c": "big"}
    assert len(kept.problems) == 2 and all("container" in each and "copy it" in each for each in kept.problems)


def test_what_is_ours_is_not_read(work: Path) -> None:
    link(work, a="output.txt", b="../ctl/output")
    kept = Kept(work, "a", "b", "*.txt")
    assert kept.files == {}
    assert {
        "'a': a link to output.txt, out of the run's directory",
        "'b': a link to ../ctl/output, out of the run's directory",
    } <= set(kept.problems)


def test_the_link_that_every_run_has_is_no_output(work: Path) -> None:
    kept = Kept(work, "*.txt", "*g")
    assert kept.files == {"big": "big"} and kept.followed.refused == {}


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["a", "a/", "a/**", "?*a"])
def test_the_files_of_a_directory(output: str, work: Path) -> None:
    (work / "b").mkdir()
    link(work, a="d", aa="d", d__inner="../big", d__e__up="../x.txt")
    name = "aa" if output == "?*a" else "a"
    expected = {"x.txt": "x", "e/y.txt": "y", "z.csv": "z", "inner": "big", "e/up": "x"}
    assert Kept(work, output).files == {f"{name}/{path}": text for path, text in expected.items()}


def test_one_that_is_an_output_as_well_stays_a_link(work: Path) -> None:
    link(work, a="d", b="d/e")
    kept = Kept(work, "a", "b", "d").files
    assert (kept["a"], kept["b"]) == ("-> d", "-> d/e")
    assert Kept(work, "a", "d/*.csv").files == {"a/x.txt": "x", "a/e/y.txt": "y", "a/z.csv": "z", "d/z.csv": "z"}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a/x.txt", ["a/x.txt"]),
        ("a/*.txt", ["a/x.txt"]),
        ("a/**/*.txt", ["a/e/y.txt", "a/x.txt"]),
        ("?/*.csv", ["a/z.csv", "b/z.csv", "d/z.csv"]),
        ("**/*.csv", ["d/z.csv"]),
        ("b/e/y.txt", ["b/e/y.txt"]),
        ("c/x.txt", []),
    ],
)
def test_outputs_behind_a_link(output: str, expected: list[str], work: Path) -> None:
    """Whoever names it gets it; ``**`` goes through no link, as in a shell."""
    link(work, a="d", b="a", c="big")
    kept = Kept(work, output, after=["?"])
    behind = {path: text for path, text in kept.files.items() if "/" in path and path in set(expected) | {"a", "b"}}
    assert sorted(behind) == expected and "->" not in "".join(behind.values())


def test_what_is_left_out_stays_out(work: Path) -> None:
    link(work, a="d")
    assert list(Kept(work, "a", after=["!*.txt"]).files) == ["a/z.csv"]


def test_a_directory_elsewhere_is_not_gone_through(work: Path) -> None:
    link(work, a="../data", b="/", d__f="{above}/data")
    kept = Kept(work, "a", "b", "d/f/genome.fa", "a/genome.fa")
    assert kept.files == {}
    assert [each.split(":")[0] for each in kept.problems] == ["'a'", "'b'"]
    assert all("a directory out of the run's: copy it" in each for each in kept.problems)
    assert kept.followed.refused["d/f"] == f"a link to {work.parent}/data, a directory out of the run's"


# --- what leads to nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nowhere", "which is not there"),
        ("/no/such/file", "which is not there"),
        ("big/below", "which is not there"),
        ("../nowhere", "which is not there"),
        ("a", "which leads round in a circle"),
        ("circle", "which leads round in a circle"),
        (".", "in which it lies itself"),
        ("../work/d/..", "in which it lies itself"),
        ("empty", "which has no files"),
        ("/dev/zero", "which is neither a file nor a directory"),
        ("/proc/self/environ", "which is neither a file nor a directory"),
        ("/proc/version", "which is neither a file nor a directory"),
        ("/dev/stdin", ""),
        ("pipe", "which is neither a file nor a directory"),
        ("n" * 4000, ""),
    ],
)
@pytest.mark.parametrize("output", ["a", "[a]"])
def test_what_is_no_file_is_no_output(text: str, told: str, output: str, work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "empty").mkdir()
    link(work, a=text, circle="around", around="circle")
    kept = Kept(work, output)
    assert kept.files == {}
    (problem,) = kept.problems
    assert problem.startswith("'a': a link to ") and told in problem and len(problem) < 400


def test_one_that_may_not_be_read(nobody: Path) -> None:
    (nobody / "work").mkdir()
    (nobody / "secret").touch(mode=0)
    (nobody / "work" / "a").symlink_to("../secret")
    kept = Kept(nobody / "work", "a")
    assert kept.files == {} and kept.problems == ["'a': a link to ../secret, which cannot be read (Permission denied)"]


def test_what_a_link_says_is_shown_in_one_line(work: Path) -> None:
    link(work, a="x\n\x1b[31m" + "y" * 300)
    (problem,) = Kept(work, "a").problems
    assert "\n" not in problem and "\x1b" not in problem and len(problem) < 300


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_directories_that_link_to_each_other(work: Path) -> None:
    link(work, p__q="../r", r__s="../p", p__self=".", r__all="..")
    kept = Kept(work, "p")
    assert kept.files == {"p/q/s": "-> ..", "p/self": "-> ."}
    assert kept.problems == ["'p/q/all': a link to .., in which it lies itself"]


def test_a_maze_ends(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty directories, each with two links to the next: a million million ways."""
    monkeypatch.setattr(links, "MOST", 50)
    for number in range(40):
        link(work, **{f"m{number}__a": f"../m{number + 1}", f"m{number}__b": f"../m{number + 1}"})
    (work / "m40").mkdir()
    link(work, a="m0")
    kept = Kept(work, "a")
    assert kept.files == {} and any("no more than 50 links" in each for each in kept.problems)


def test_a_chain_that_is_longer_than_a_kernel_follows(work: Path) -> None:
    for number in range(3000):
        (work / f"l{number}").symlink_to(f"l{number + 1}")
    (work / "l3000").touch()
    kept = Kept(work, "l0", "l2990")
    assert list(kept.files) == ["l2990"] and "too many links" in kept.problems[0]


def test_too_many_files_behind_links(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.agent.after.MAX_FILES", 4)
    link(work, a="d", b="d", c="big")
    kept = Kept(work, "a", "b", "c")
    assert len(kept.files) <= 4 and any("more than 4 files" in each for each in kept.problems)


@pytest.mark.parametrize("text", ["../data/genome.fa", "big"])
def test_what_is_swapped_meanwhile_is_not_followed(text: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as it is known where links lead to, something else is there."""
    real = links.open_source

    def swap(directory: str, source: str) -> int:
        os.rename(work.parent / "data", work.parent / "moved")
        os.symlink("moved", work.parent / "data")
        os.unlink(work / "big")
        os.mkfifo(work / "big")
        return real(directory, source)

    monkeypatch.setattr(links, "open_source", swap)
    link(work, a=text)
    kept = Kept(work, "a")
    assert kept.files == {} and len(kept.problems) == 1 and "cannot be read" in kept.problems[0]


def test_what_is_swapped_before_it_is_sent_is_not_followed(work: Path) -> None:
    link(work, a="../data/genome.fa", b="d")
    kept = Kept(work, "a", "b")
    os.rename(work.parent / "data", work.parent / "moved")
    (work.parent / "data").symlink_to("moved")
    os.rename(work / "d", work / "moved")
    (work / "d").symlink_to("moved")
    for path in ("a", "b/x.txt"):
        with pytest.raises(OSError):
            open_source(str(work), kept.followed.sources[path])
    with pytest.raises(OSError, match="not a regular file"):
        open_source(str(work), "/dev/zero")


def test_a_file_that_grows_while_it_is_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = work.parent / "data" / "genome.fa"
    real = entry_of

    def and_grow(path: str, fd: int) -> manifest.Entry:
        entry = real(path, fd)
        with growing.open("a") as file:
            file.write("more")
        return entry

    monkeypatch.setattr(links, "entry_of", and_grow)
    link(work, a=str(growing))
    assert Kept(work, "a").problems == [f"'a': a link to {growing}, which changes while it is read, or is no file"]


def test_a_work_directory_behind_a_link(work: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "here").symlink_to(work.parent)
        link(work, a="big", b=f"{folder}/here/work/big", c=f"{folder}/here/data/genome.fa")
        kept = Kept(Path(folder) / "here" / "work", "a", "b", "c")
    assert kept.files == {"a": "big", "b": "big", "c": "genome"}


# --- a run that is over -----------------------------------------------------------------------------------------------


@pytest.fixture
def over(tmp_path: Path) -> RunDir:
    """The directory of a run that made its outputs links."""
    made = RunDir(str(tmp_path / "run"))
    made.make()
    made.complete()
    (tmp_path / "genome.fa").write_text("genome")
    link(Path(made.work), ref="{above}/../genome.fa", lost="nowhere")
    (Path(made.work) / "parts").mkdir()
    link(Path(made.work), parts__a="../nowhere", parts__b="../nowhere")
    return made


def found(directory: RunDir, *outputs: str) -> capture.Found:
    grant = Grant(1, 1, "run1", 1, ["true"], {}, 1.0, 0, 0, outputs=list(outputs))
    return capture.find(directory, grant, outputs, Output(directory.output))


def test_what_is_missing_is_told_with_what_is_there_instead(over: RunDir) -> None:
    left = found(over, "ref", "lost", "parts/*", "none")
    assert [entry.path for entry in left.entries] == ["ref"] == list(left.sources)
    assert left.missing == ["lost", "parts/*", "none"]
    assert left.problems[:2] == [
        "'lost': a link to nowhere, which is not there",
        "'parts/*': parts/a is a link to ../nowhere, which is not there",
    ]


def test_one_that_was_in_a_container_is_known_by_its_record(over: RunDir) -> None:
    """Also to an agent that comes after the one that began it."""
    over.remember_container("/usr/bin/podman", "turnout-x-1-1")
    left = found(over, "ref")
    assert left.missing == ["ref"] and "its container" in left.problems[0]
