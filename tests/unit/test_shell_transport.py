"""A shell of this machine, for what shares a directory with it."""

from __future__ import annotations

import os
import pwd
import stat
import threading
from pathlib import Path

import pytest

from turnout.plugin.provider import Failure
from turnout.plugin.transport import Shell, Told


def test_several_targets_may_enter_the_same_directory_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def enter(number: int) -> None:
        try:
            for socket in range(100):
                Shell(str(tmp_path), f"/run/{number}.{socket}").enter()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [path.name for path in tmp_path.iterdir()] == ["agent.sock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("how", ["directory", "link"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, how: str) -> None:
    """Who made it first could put another agent into it."""
    root, ours, nobody = tmp_path / "root", tmp_path / "ours", pwd.getpwnam("nobody").pw_uid
    ours.mkdir(mode=0o755)
    if how == "directory":
        root.mkdir(mode=0o777)
    else:
        root.symlink_to(ours)
    os.chown(root, nobody, -1, follow_symlinks=False)
    with pytest.raises(Failure, match=f"{root} cannot be used: it belongs to nobody.*name another `directory`") as no:
        Shell(str(root), "/run/hub.sock").ask("touch here")
    assert no.value.kind == "rejected" and not list(ours.iterdir()) and stat.S_IMODE(ours.stat().st_mode) == 0o755


def test_a_directory_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(0o777)
    assert Shell(str(tmp_path / "root")).enter() == str(tmp_path / "root")
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("Unable to run job: no such queue.\nExiting.\n", "Unable to run job: no such queue."),
        ("tar: a: no room\ntar: Exiting with failure status due to previous errors\n", "tar: a: no room"),
        ("Exiting.\n", "Exiting."),
        ("", "exit code 3"),
    ],
)
def test_the_last_line_that_says_something_is_what_it_complains_of(said: str, complaint: str) -> None:
    assert Told(3, "", said).complaint == complaint
