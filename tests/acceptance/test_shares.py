"""Named shares: put files in, get them out, list and delete them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness import Cli, user_environment
from turnout.cli import progress
from turnout.client import Client


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A directory of data, in a place where git would not see it."""
    data = tmp_path / "corpus"
    (data / "train").mkdir(parents=True)
    (data / ".gitignore").write_text("*.csv\n")
    (data / "train" / "a.csv").write_text("1,2\n")
    (data / "train" / "b.csv").write_text("3,4\n")
    (data / "labels.txt").write_text("cat\ndog\n")
    return data


def test_what_is_uploaded_is_listed_and_downloaded_again(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    told = cli.json("upload", str(corpus), "--share", "pets")
    assert (told["name"], told["files"], told["bytes"]) == ("pets", 4, 6 + 8 + 8)
    (listed,) = cli.json("list", "shares")
    assert {**listed, "left_out": []} == told
    assert [file["path"] for file in cli.json("list", "shares", "pets")] == [
        ".gitignore", "labels.txt", "train/a.csv", "train/b.csv",
    ]  # fmt: skip
    cli("download", "--share", "pets", str(tmp_path / "all"))
    assert (tmp_path / "all" / "train" / "b.csv").read_text() == "3,4\n"
    cli("download", "--share", "pets", "train", str(tmp_path / "part"))
    assert sorted(path.name for path in (tmp_path / "part").rglob("*.*")) == ["a.csv", "b.csv"]
    cli("download", "--share", "pets", "*.txt", str(tmp_path / "glob"))
    assert [path.name for path in (tmp_path / "glob").iterdir()] == ["labels.txt"]


def test_shares_are_listed_as_everything_else_is(cli: Cli, corpus: Path) -> None:
    cli("upload", str(corpus), "--share", "pets")
    cli("upload", str(corpus / "labels.txt"), "--share", "labels")

    def names(*args: str) -> list[str]:
        return cli("list", "shares", "--names", *args).stdout.split()

    assert names() == ["labels", "pets"] and names("--reverse") == names("--sort", "-bytes") == ["pets", "labels"]
    assert names("--filter", "files > 1 and updated < 1h") == names("p*") == names("--last", "1") == ["pets"]
    assert names("--filter", "bytes > 1K") == [] and names("labels", "pets") == ["labels", "pets"]
    piped = [line.split("\t") for line in cli("list", "shares", "--columns", "name,files,bytes").stdout.splitlines()]
    assert piped == [["name", "files", "bytes"], ["labels", "1", "8"], ["pets", "4", "22"]]
    assert cli("list", "shares", "--csv", "--columns", "name=Share", "--group", "files").stdout == (
        "files,Share\n1,labels\n4,pets\n"
    )
    assert "22 B" in cli("list", "shares", "--table").stdout
    assert "updated" in cli("list", "shares", "--available").stdout
    assert "did you mean bytes?" in cli("list", "shares", "--sort", "byte", check=False).stderr
    gone = cli("list", "shares", "nowhere", check=False)
    assert gone.returncode == 3 and "no share 'nowhere'" in gone.stderr


def test_the_files_of_a_share_are_listed_in_the_same_way(cli: Cli, corpus: Path) -> None:
    (corpus / "newest").symlink_to("train/b.csv")
    cli("upload", str(corpus), "--share", "pets")
    assert cli("list", "shares", "pets", "--names", "--filter", "path like *.csv", "--sort", "-path").stdout == (
        "train/b.csv\ntrain/a.csv\n"
    )
    rows = [line.split("\t") for line in cli("list", "shares", "pets").stdout.splitlines()]
    assert rows[0] == ["path", "size", "link"] and ["newest", "0", "train/b.csv"] in rows
    assert cli("list", "shares", "pets", "--names", "--filter", "link exists").stdout == "newest\n"


def test_empty_directories_are_not_left_out_silently(cli: Cli, corpus: Path) -> None:
    (corpus / "later" / "on").mkdir(parents=True)
    told = cli("upload", str(corpus), "--share", "pets", "--path", "v1")
    assert "share pets has 4 files" in told.stdout and "empty directories" in told.stderr
    assert "v1/later/on" in told.stderr
    assert cli.json("upload", str(corpus), "--share", "pets")["left_out"] == ["later/on"]


def test_an_upload_is_merged_into_what_is_there(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    cli("upload", str(corpus), "--share", "pets")
    (corpus / "labels.txt").write_text("cat\ndog\nfish\n")
    (tmp_path / "extra.bin").write_bytes(b"x" * 200_000)
    told = cli.json("upload", str(corpus / "labels.txt"), str(tmp_path / "extra.bin"), "--share", "pets")
    assert told["files"] == 5 and told["bytes"] == 22 + 5 + 200_000
    told = cli.json("upload", str(tmp_path / "extra.bin"), "--share", "pets", "--path", "deep/down")
    paths = [file["path"] for file in cli.json("list", "shares", "pets")]
    assert "deep/down/extra.bin" in paths and "extra.bin" in paths
    cli("download", "--share", "pets", "labels.txt", str(tmp_path / "out"))
    assert (tmp_path / "out" / "labels.txt").read_text() == "cat\ndog\nfish\n"


def test_a_deleted_share_is_gone_and_its_name_is_free(cli: Cli, corpus: Path) -> None:
    cli("upload", str(corpus), "--share", "pets")
    assert cli.json("delete", "share", "pets")["files"] == 4
    assert cli.json("list", "shares") == []
    assert cli("delete", "share", "pets", check=False).returncode == 3
    told = cli.json("upload", str(corpus / "labels.txt"), "--share", "pets")
    assert told["files"] == 1


def test_a_download_into_the_empty_directory_one_is_in(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    cli("upload", str(corpus), "--share", "pets")
    here = tmp_path / "here"
    here.mkdir()
    before = here.stat().st_ino
    cli("download", "--share", "pets", "labels.txt", ".", cwd=here)
    assert [path.name for path in here.iterdir()] == ["labels.txt"] and here.stat().st_ino == before


def test_what_cannot_be_done_is_told_and_changes_nothing(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    cli("upload", str(corpus), "--share", "pets")
    before = cli.json("list", "shares")

    def refused(code: int, *args: str) -> str:
        done = cli(*args, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr

    assert "no file or directory" in refused(3, "upload", "nowhere", "--share", "pets")
    assert "not a share's name" in refused(2, "upload", str(corpus), "--share", "pets/train")
    assert "does not fit" in refused(2, "upload", str(corpus), "--share", "pets", "--path", "labels.txt")
    assert "no share 'nowhere'" in refused(3, "download", "--share", "nowhere", str(tmp_path / "x"))
    assert "nothing in share 'pets' matches" in refused(3, "download", "--share", "pets", "no*", str(tmp_path / "x"))
    assert "is not empty" in refused(4, "download", "--share", "pets", str(corpus))
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "id_rsa").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    assert "--allow-secret" in refused(2, "upload", str(tmp_path / "key"), "--share", "pets")
    for place in ("../x", "/abs", "a//b"):
        said = refused(2, "upload", str(corpus), "--share", "pets", "--path", place)
        assert f"{place!r} is no path in a share" in said
    twins = (str(corpus / "labels.txt"), str(tmp_path / "twin" / "labels.txt"))
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "labels.txt").write_text("fish\n")
    assert "each to its own --path" in refused(2, "upload", *twins, "--share", "pets")
    (tmp_path / "empty").mkdir()
    assert "nothing to upload" in refused(2, "upload", str(tmp_path / "empty"), "--share", "pets")
    assert not (tmp_path / "x").exists()
    assert cli.json("list", "shares") == before


def test_an_upload_that_dies_in_the_middle_leaves_the_share_as_it_was(
    cli: Cli, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on where it was when it is repeated."""
    cli("upload", str(corpus), "--share", "pets")
    before = cli.json("list", "shares")
    for name, value in user_environment(cli.home).items():
        monkeypatch.setenv(name, value)
    for number in range(5):
        (corpus / f"large{number}.bin").write_bytes(bytes([number]) * 1_000_000)

    class Died(Exception):
        pass

    def die(done: int, total: int) -> None:
        assert total == 5_000_000
        if done > 2_500_000:
            raise Died

    with pytest.raises(Died):
        Client(cli.home).upload([corpus], "pets", told=die)
    assert cli.json("list", "shares") == before
    left: list[int] = []
    Client(cli.home).upload([corpus], "pets", told=lambda done, total: left.append(total))
    assert left[-1] < 5_000_000, "what had arrived is not sent again"
    assert cli.json("list", "shares")[0]["files"] == 9


def test_a_long_transfer_shows_how_far_it_is_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("turnout.terminal.time.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "60")
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with progress.transfer("uploading") as told:
            for done, now in ((1, 0.1), (2, 1.0), (3, 1.05), (4, 2.0)):
                clock[0] = now
                told(done * 1000, 4000)
        assert is_terminal or capsys.readouterr().err == ""
        clock[0] = 0.0
    shown = capsys.readouterr().err
    assert [line for line in shown.split("\r") if "%" in line] == [
        "uploading [#######.......]  50%  2.0 KB of 4.0 KB, 2.0 KB/s\x1b[K",
        "uploading [##############] 100%  4.0 KB of 4.0 KB, 2.0 KB/s\x1b[K",
    ]
    assert shown.endswith("\r\x1b[K") and all(len(line) <= 63 for line in shown.split("\r"))
