"""Who wants to be told of the end of a job is told, whatever happens to the disk, to the job, or to the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import wait_until
from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.errors import Unavailable
from turnout.hub.notices import Notices
from turnout.store import deletion
from turnout.store.notices import due_notices


def finished(lab: Lab, *commands: str) -> None:
    """Jobs that are over, each with a command."""
    for command in commands:
        lab.submit(notify=command)
    agent = lab.agent()
    for grant in agent.take():
        agent.run(grant)


def due(lab: Lab) -> list[int]:
    return [each.job for each in lab.read(due_notices)]


def look(notices: Notices) -> None:
    notices.look()
    wait_until(lambda: not notices.is_busy)


def test_a_disk_that_is_full_does_not_make_a_storm_of_them(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told; that it was cannot be written down. The same hub tries only that again."""
    finished(lab, f"echo told >> {tmp_path}/log")
    notices, write = Notices(lab.store), lab.store.write
    with monkeypatch.context() as full:

        def refuse(work: object) -> None:
            raise Unavailable("the disk is full")

        full.setattr(lab.store, "write", refuse)
        for _ in range(3):
            look(notices)
    assert due(lab) and (tmp_path / "log").read_text() == "told\n"
    assert lab.store.write == write
    look(notices)
    assert due(lab) == [] and (tmp_path / "log").read_text() == "told\n"


def test_one_that_cannot_be_started_is_in_nobodys_way(lab: Lab, tmp_path: Path) -> None:
    finished(lab, "echo " + "x" * 3_000_000, f"echo told >> {tmp_path}/log")
    look(Notices(lab.store))
    assert due(lab) == [] and (tmp_path / "log").read_text() == "told\n"


def test_a_job_that_is_deleted_before_it_is_told_of(lab: Lab, tmp_path: Path) -> None:
    finished(lab, f"echo gone >> {tmp_path}/log", f"echo told >> {tmp_path}/log")
    found = lab.read(due_notices)
    lab.store.write(lambda tx: deletion.delete(tx, deletion.Wanted(jobs=["job1"])))
    for each in found:
        Notices(lab.store)._tell(each)
    assert due(lab) == [] and (tmp_path / "log").read_text() == "told\n"


def test_one_that_takes_long_keeps_nobody_waiting(lab: Lab, tmp_path: Path) -> None:
    slow = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo slow >> {tmp_path}/log"
    finished(lab, slow, f"echo quick >> {tmp_path}/log")
    notices = Notices(lab.store)
    notices.look()
    wait_until(lambda: due(lab) == [1])
    finished(lab, f"echo later >> {tmp_path}/log")
    notices.look()
    wait_until(lambda: due(lab) == [1])
    assert (tmp_path / "log").read_text() == "quick\nlater\n" and notices.is_busy
    (tmp_path / "go").touch()
    wait_until(lambda: not notices.is_busy)
    assert (tmp_path / "log").read_text() == "quick\nlater\nslow\n", "and runs once"


def test_a_hub_that_stops_waits_for_the_command_that_runs(lab: Lab, tmp_path: Path) -> None:
    finished(lab, f"touch {tmp_path}/begun; sleep 0.3; echo told >> {tmp_path}/log")
    notices = Notices(lab.store)
    notices.look()
    wait_until((tmp_path / "begun").exists)
    finished(lab, f"echo next >> {tmp_path}/log")
    notices.stop()
    assert due(lab) == [2] and (tmp_path / "log").read_text() == "told\n", "and begins with no other"
    notices.look()
    assert not notices.is_busy
