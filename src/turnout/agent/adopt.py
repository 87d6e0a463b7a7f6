"""What an earlier agent of this directory left: running, ended, begun and orphaned, or never begun."""

from __future__ import annotations

import os
import re
import time
from typing import Optional

from turnout.agent import record
from turnout.agent.attempt import Attempt, Phase
from turnout.agent.ender import Ender
from turnout.agent.holding import Holding
from turnout.agent.log import say, say_error
from turnout.agent.mask import Mask
from turnout.agent.rundir import Known, RunDir, RunDirs
from turnout.agent.watch import Watch
from turnout.wire.messages import Grant

_BEGIN_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_NAME = re.compile(r"([1-9][0-9]{0,17})\.([1-9][0-9]{0,8})\Z")


def adopt(dirs: RunDirs, holding: Holding, watch: Watch, ender: Ender) -> None:
    """Takes over whatever began. What never began is removed: the hub grants it again.

    Raises nothing for what it finds, whatever that is.
    """
    for directory in dirs.found():
        try:
            _adopt(directory, holding, watch, ender)
        except Exception:
            say_error(f"{directory.path} could not be taken over")


def _adopt(directory: RunDir, holding: Holding, watch: Watch, ender: Ender) -> None:
    if directory.is_kept:
        holding.kept.append(directory)
        return
    deadline = time.monotonic() + _BEGIN_SECONDS
    found = record.examine(directory.path)
    while found is None and time.monotonic() < deadline:
        if _remove_unbegun(directory):
            return
        time.sleep(_LOOK_SECONDS)  # it is just about to begin
        found = record.examine(directory.path)
    known = directory.recall() or _guess(directory)
    if known is None:
        say(f"{directory.path} is none of ours and was left alone")
        return
    attempt = Attempt(known.grant, known.after, directory)
    attempt.streams.output.mask = Mask(known.secrets)
    attempt.confirmed = attempt.began = True
    holding.add(attempt)
    holding.gpus.claim(attempt, known.gpus)
    attempt.phase = Phase.RUNNING
    attempt.add_fact("staged", {"adopted": True})
    if found is None:
        ender.fail(attempt, "its supervisor could not begin")
    elif isinstance(found, record.Running):
        attempt.add_fact("running", {"pid": found.child.pid if found.child else None})
        watch.add(attempt, found.supervisor)
    else:
        attempt.add_fact("running", {})
        ender.end(attempt)


def _remove_unbegun(directory: RunDir) -> bool:
    """Removes it, with the lock in hand that every supervisor needs to begin; False when one has that lock or began."""
    try:
        claimed = record.claim(directory.ctl)
    except OSError:  # there is nothing in which to begin
        directory.remove()
        return True
    if claimed is None:
        return False
    directory.remove()
    os.close(claimed)
    return True


def _guess(directory: RunDir) -> Optional[Known]:
    """It began, so it has to be told of, though a power cut took what was remembered of it."""
    name = _NAME.match(directory.path.rpartition("/")[2])
    if name is None:
        return None
    run, attempt = int(name[1]), int(name[2])
    return Known(Grant(run, attempt, name="", job=0, argv=[], params={}, slots=1.0, memory=0, gpus=0), [], [], [])
