"""Ending what runs, at once, whoever started it. These functions block; they run in the chores' thread."""

from __future__ import annotations

import time
from typing import Optional

from turnout.agent import containers, record, tree
from turnout.agent.limits import remove_cgroup
from turnout.agent.rundir import RunDir

_SUPERVISOR_SECONDS = 3.0
_LOOK_SECONDS = 0.02
SIGTERM = 15


def ask_to_end(directory: RunDir, supervisor: Optional[tree.ProcessId], cause: str, *, at_once: bool = False) -> bool:
    """Tells the supervisor why, then that; does not wait. False when it cannot be told (a full disk).

    A supervisor that is not known yet reads the reason before it starts the command. One whose directory was removed
    needs none.
    """
    try:
        record.write_stop(directory.ctl, cause, 0.0 if at_once else None)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    if supervisor is not None:
        tree.signal_process(supervisor, SIGTERM)
    return True


def end_now(directory: RunDir) -> bool:
    """On return nothing of the attempt runs, and nothing of it will; False when something could not be ended.

    The supervisor does it best: only it knows every process of its tree. It is killed itself when it does not.
    """
    told = ask_to_end(directory, None, "cancelled", at_once=True)
    signalled = False
    deadline = time.monotonic() + _SUPERVISOR_SECONDS
    while True:
        found = record.examine(directory.path)
        if isinstance(found, record.Exit):
            return True
        late = time.monotonic() > deadline or not told
        if isinstance(found, record.Running) and not late:
            if not signalled:
                tree.signal_process(found.supervisor, SIGTERM)
                signalled = True
        elif isinstance(found, record.Running):
            tree.kill_tree(found.supervisor)
            return end_orphans(directory, found)
        elif isinstance(found, record.Died):
            return end_orphans(directory, found.running)
        elif late:
            return True  # it never began, and cannot when its directory is gone
        time.sleep(_LOOK_SECONDS)


def end_orphans(directory: RunDir, running: Optional[record.Running]) -> bool:
    """Ends what a dead supervisor left; False when something stayed."""
    child = running.child if running is not None else None
    cgroup = running.cgroup if running is not None else None
    is_empty = tree.end_orphans(child, directory.marker, cgroup=cgroup)
    if cgroup is not None:
        remove_cgroup(cgroup)
    containers.clear(directory)
    return is_empty
