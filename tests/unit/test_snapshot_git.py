"""The commit a snapshot was taken at, and whether the files are those of the commit."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from turnout.snapshot import capture, git_state
from turnout.snapshot import git as git_module

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")


def git(root: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "sub").mkdir(parents=True)
    (root / "file").write_text("1")
    (root / "sub/file").write_text("2")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(git_module, "_COMMAND", (str(tmp_path / "no-such-git"),))


def test_outside_of_a_repository_there_is_none(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None


def test_commit_branch_and_whether_anything_changed(repo: Path) -> None:
    commit = git(repo, "rev-parse", "HEAD")
    assert git_state(repo) == {"commit": commit, "branch": "main", "dirty": False}
    assert git_state(repo / "sub") == git_state(repo)
    (repo / "file").write_text("changed")
    assert git_state(repo) == {"commit": commit, "branch": "main", "dirty": True}
    git(repo, "checkout", "-q", "--", "file")
    (repo / "untracked").touch()
    assert git_state(repo) == {"commit": commit, "branch": "main", "dirty": True}


def test_a_detached_head_has_no_branch_and_a_new_repository_no_commit(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert git_state(repo) == {"commit": git(repo, "rev-parse", "HEAD"), "branch": None, "dirty": False}
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    assert git_state(tmp_path / "new") == {"commit": None, "branch": "main", "dirty": False}


def test_a_capture_records_it(repo: Path, tmp_path: Path) -> None:
    assert capture(repo, cache=tmp_path / "cache").git == git_state(repo)


def test_asking_changes_nothing_in_the_repository(repo: Path) -> None:
    os.utime(repo / "file")  # git would like to refresh its index now
    before = (repo / ".git/index").stat().st_mtime_ns
    git_state(repo)
    assert (repo / ".git/index").stat().st_mtime_ns == before


@pytest.mark.usefixtures("no_git")
def test_without_git_the_commit_is_read_from_its_files(repo: Path, tmp_path: Path) -> None:
    commit = git(repo, "rev-parse", "HEAD")
    assert git_state(repo) == {"commit": commit, "branch": "main", "dirty": None}
    git(repo, "pack-refs", "--all")
    assert git_state(repo) == {"commit": commit, "branch": "main", "dirty": None}
    git(repo, "worktree", "add", "-q", "-b", "other/branch", str(tmp_path / "tree"))
    assert git_state(tmp_path / "tree") == {"commit": commit, "branch": "other/branch", "dirty": None}
    git(repo, "checkout", "-q", "--detach")
    assert git_state(repo) == {"commit": commit, "branch": None, "dirty": None}


@pytest.mark.usefixtures("no_git")
@pytest.mark.parametrize("damage", ["", "ref: refs/heads/none", "ref: ../../../etc/passwd"])
def test_a_damaged_repository_fails_nothing(repo: Path, damage: str, tmp_path: Path) -> None:
    (repo / ".git/HEAD").write_text(damage)
    state = git_state(repo)
    assert state is not None and state["dirty"] is None
    (repo / ".git/HEAD").unlink()
    assert git_state(repo) == {"commit": None, "branch": None, "dirty": None}
    assert capture(repo, cache=tmp_path / "cache").files == 2


def test_a_git_that_does_not_answer_is_not_waited_for(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(git_module, "_COMMAND", (str(slow),))
    monkeypatch.setattr(git_module, "_PATIENCE", 0.2)
    begin = time.monotonic()
    state = git_state(repo)
    assert time.monotonic() - begin < 10
    assert state == {"commit": git(repo, "rev-parse", "HEAD"), "branch": "main", "dirty": None}


def test_a_refused_capture_leaves_no_git_behind(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen
    monkeypatch.setattr(git_module, "_COMMAND", ("sleep", "60"))

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    (repo / "link").symlink_to("/etc/passwd")
    with pytest.raises(Exception, match="symlink out of the tree"):
        capture(repo, cache=tmp_path / "cache")
    assert started[0].returncode is not None
