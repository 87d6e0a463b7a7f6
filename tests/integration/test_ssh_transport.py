"""The way to a machine that ssh reaches. The server is a real one."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components
from tests.harness import wait_until
from tests.sshd import USER, Box, running_box
from turnout.plugin.provider import Failure
from turnout.plugin.transport import Ssh, SshSettings

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(120)]

#: What people have their own sessions do.
SHARING = ["ControlMaster auto", "ControlPersist 10m", "ControlPath {folder}/theirs-%C"]
COMMANDING = ["RemoteCommand echo hello", "RequestTTY force"]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with running_box(components.sshd()) as made:
        yield made


@pytest.fixture
def scratch(box: Box) -> Iterator[Path]:
    """A directory over there where everybody may make something, and remove only what is theirs."""
    made = Path(tempfile.mkdtemp(prefix="turnout-scratch-"))
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On a short path, for the sockets in it."""
    made = Path(tempfile.mkdtemp(prefix="to-"))
    yield made
    shutil.rmtree(made)


def way(box: Box, root: Path, controls: Path, *options: str) -> Ssh:
    settings = SshSettings(f"{USER}@127.0.0.1", box.port, [*box.options, *options])
    return Ssh(str(root), f"{controls}/hub.sock", settings, str(controls))


def processes_with(word: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", "--", str(word)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


@pytest.mark.parametrize("said", [SHARING, COMMANDING], ids=["sharing", "commanding"])
def test_what_a_user_has_sessions_do_is_not_done(box: Box, scratch: Path, tmp_path: Path, said: list[str]) -> None:
    """There is one connection, it has the hub's socket, and it is gone when it was closed."""
    lines = ["Host *", *(f"    {line.format(folder=tmp_path)}" for line in said)]
    (tmp_path / "config").write_text("".join(f"{line}\n" for line in lines))
    over = way(box, scratch / "mine", tmp_path, "-F", str(tmp_path / "config"))
    try:
        assert over.run('echo "$1"; tty || true', "a b").splitlines() == ["a b", "not a tty"]
        assert stat.S_ISSOCK((scratch / "mine" / "agent.sock").stat().st_mode)
        assert len(processes_with(tmp_path / "ssh")) == 1
    finally:
        over.close()
    wait_until(lambda: not processes_with(tmp_path / "ssh"), what="the connection is gone")
    assert list(tmp_path.glob("theirs-*")) == []


@pytest.mark.parametrize("how", ["directory", "link"])
def test_a_directory_of_another_user_is_refused(box: Box, scratch: Path, tmp_path: Path, how: str) -> None:
    """Who made it first could put another agent into it."""
    root = scratch / "mine"
    if how == "directory":
        root.mkdir()
        root.chmod(0o777)
    else:
        root.symlink_to(box.home)
    os.chown(root, *_ids("nobody"), follow_symlinks=False)
    over = way(box, root, tmp_path)
    with pytest.raises(Failure, match=f"{root} cannot be used: it belongs to nobody.*name another `directory`") as no:
        over.run("true")
    assert no.value.kind == "rejected" and not over.is_connected()


def test_a_directory_of_ours_is_closed_to_others(box: Box, scratch: Path, tmp_path: Path) -> None:
    root = scratch / "mine"
    root.mkdir()
    os.chown(root, *_ids(USER))
    root.chmod(0o775)
    over = way(box, root, tmp_path)
    assert over.run("pwd").strip() == str(root)
    over.close()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_directory_that_became_another_users_is_not_used(box: Box, scratch: Path, tmp_path: Path) -> None:
    over = way(box, scratch / "mine", tmp_path)
    over.run("true")
    os.chown(scratch / "mine", *_ids("nobody"))
    (scratch / "mine").chmod(0o777)
    told = over.ask("echo no")
    over.close()
    assert told.code == 1 and "not ours any more" in told.complaint


def _ids(user: str) -> tuple[int, int]:
    found = pwd.getpwnam(user)
    return found.pw_uid, found.pw_gid
