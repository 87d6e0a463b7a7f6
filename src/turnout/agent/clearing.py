"""Ending what an agent left that was given up and is gone: nobody will ask for its runs any more."""

from __future__ import annotations

import os

from turnout.agent import killing, record, seat
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
    os.close(lock)


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
