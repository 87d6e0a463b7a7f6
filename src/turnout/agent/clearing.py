"""Ending what an agent left that was given up and is gone: nobody will ask for its runs any more."""

from __future__ import annotations

import os
import shutil
from typing import Collection

from turnout.agent import containers, killing, record, seat
from turnout.agent.log import say
from turnout.agent.rundir import RunDir, RunDirs


def clear(root: str) -> None:
    """On return nothing of the runs in an agent's directory runs, and their directories are gone. Idempotent.

    SystemExit, and nothing done, when an agent is at work there: the hub will tell that one to go.
    """
    lock = seat.take(root, tries=1)
    for directory in RunDirs(root).found():
        say(f"{directory.path}: nobody's any more; ending it")
        _end(directory)
        directory.remove()
    containers.clear_strays(root)
    os.close(lock)


def clear_others(root: str, live: Collection[int]) -> int:
    """The same in the directories of earlier agents beside this one's, which then go; how many did. `live` are the
    agents that the hub knew when it had this one started: theirs are not touched, nor those that came later."""
    beside, own = os.path.split(os.path.abspath(root))
    gone = 0
    for name in os.listdir(beside):
        path = os.path.join(beside, name)
        if not name.isdecimal() or int(name) >= int(own) or int(name) in live:
            continue
        try:
            clear(path)
        except SystemExit:  # it is still there, and will hear that it is not wanted
            continue
        shutil.rmtree(path, ignore_errors=True)
        gone += 1
    return gone


def _end(directory: RunDir) -> None:
    try:
        unbegun = record.claim(directory.ctl)
    except OSError:  # there is nothing in which to begin
        return
    if unbegun is not None:
        directory.remove()  # with the record in hand that a supervisor needs to begin
        os.close(unbegun)
    elif not killing.end_now(directory):
        say(f"{directory.path}: not all of it could be ended")
