"""The one place for an agent in a node's directory: who has it, and who comes next."""

from __future__ import annotations

import fcntl
import json
import os
import time

from turnout.agent import tree
from turnout.agent.log import say

_AGENT = "agent.json"
_TRIES, _SECONDS = 300, 0.1


def announce(root: str, launch_token: str) -> None:
    """Says who is here now: to a hub that does not know whether it started us, and to an agent that we supersede."""
    me = {"pid": os.getpid(), "start": tree.start_time(os.getpid()), "launch_token": launch_token}
    path = os.path.join(root, _AGENT)
    temporary = f"{path}.{os.getpid()}"
    try:
        fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(me, file)
        os.replace(temporary, path)
    except OSError as error:
        say(f"{path} could not be written: {error}")


def is_superseded(root: str) -> bool:
    """Whether another has announced itself since and is there: then what runs here is its business."""
    try:
        with open(os.path.join(root, _AGENT), encoding="utf-8") as file:
            announced = json.load(file)
        other = tree.ProcessId(announced["pid"], announced["start"])
        return other.pid != os.getpid() and tree.is_alive(other)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def take(root: str, *, tries: int = _TRIES) -> int:
    """The lock, held until it is closed. SystemExit when another stays on after it must have heard to go."""
    lock = os.open(os.path.join(root, "lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    for _ in range(tries):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            time.sleep(_SECONDS)
    raise SystemExit(f"another agent is at work in {root}")
