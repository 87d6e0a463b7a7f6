"""The small files of ``ctl/`` by which supervisor and agent know of each other, across the death of either.

==============  ==========  =====================================================================================
file            written by  meaning
==============  ==========  =====================================================================================
lock            supervisor  flock'ed for as long as a supervisor looks after this attempt
running.json    supervisor  the command may have been executed, hence never will be again in this directory
exit.json       supervisor  how it ended; nothing of the attempt runs any more
stop.json       agent       why the supervisor was told to end the run
==============  ==========  =====================================================================================

Each appears whole or not at all (temporary file, rename). Nothing is fsync'ed: after a power cut the boot id tells
that all is over, and what the hub has not acknowledged is run again. running.json gets a second line, the command's
process, when there is one: replacing the file instead would cost more than all other writes together on file systems
that flush on replace.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, Dict, Optional, Union

from turnout.agent.tree import ProcessId, boot_id, is_alive

RUNNING = "running.json"
EXIT = "exit.json"
STOP = "stop.json"
STOP_CAUSES = frozenset({"cancelled", "stopped"})


@dataclass(frozen=True)
class Running:
    """A supervisor began. `child` is its command, None until known; `cgroup` the directory that limits it, if any."""

    supervisor: ProcessId
    child: Optional[ProcessId]
    boot: str
    time: float
    cgroup: Optional[str]


@dataclass(frozen=True)
class Exit:
    """How an attempt ended.

    `cause`: exit | signal | timeout | oom | cancelled | stopped | spawn_failed. `exit_code` and `signal` are what
    became of the main command, whatever the cause: at most one is set. `seconds` by a clock that never jumps, from
    its start to its end. `max_rss` is the largest process of the tree (never less than what a supervisor takes, the
    kernel counts that in); `cpu_seconds` is the whole tree.
    """

    cause: str
    exit_code: Optional[int]
    signal: Optional[int]
    message: str
    started: float
    ended: float
    seconds: float
    output_bytes: int
    max_rss: int
    cpu_seconds: float


@dataclass(frozen=True)
class Stop:
    """The run is to be ended, and why; with another grace than the order's unless None."""

    cause: str
    grace: Optional[float] = None


@dataclass(frozen=True)
class Died:
    """The supervisor is gone without an exit record; see `tree.end_orphans`. `running` is None when that is damaged."""

    running: Optional[Running]


def examine(directory: str) -> Union[Running, Exit, Died, None]:
    """How an attempt stands: None = never begun (it may be started), or running, ended, or its supervisor died.

    A running supervisor is recognised by pid, start time and boot.
    """
    ctl = f"{directory}/ctl"
    running = read_running(ctl)
    alive = running is not None and running.boot == boot_id() and is_alive(running.supervisor)
    # Only now: a supervisor writes the exit record before it is gone, or turns to another attempt.
    ended = read_exit(ctl)
    if ended is not None:
        return ended
    if alive:
        return running
    return Died(running) if has_begun(ctl) else None


def has_begun(ctl: str) -> bool:
    """Whether a supervisor passed the point from which the command may have been executed."""
    return os.access(f"{ctl}/{RUNNING}", os.F_OK) or os.access(f"{ctl}/{EXIT}", os.F_OK)


def read_running(ctl: str) -> Optional[Running]:
    """None when absent or damaged (only a power cut can do that)."""
    try:
        first, _, second = _read(f"{ctl}/{RUNNING}").partition(b"\n")
        raw = json.loads(first)
        raw["supervisor"] = ProcessId(**raw["supervisor"])
        raw["child"] = ProcessId(**json.loads(second)["child"]) if second.endswith(b"\n") else None
        return Running(**raw)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read_exit(ctl: str) -> Optional[Exit]:
    """None when absent or damaged (only a power cut can do that)."""
    try:
        return Exit(**json.loads(_read(f"{ctl}/{EXIT}")))
    except (OSError, ValueError, TypeError):
        return None


def begin(ctl: str, supervisor: ProcessId, time: float, cgroup: Optional[str]) -> int:
    """Write running.json; returns the descriptor for `add_child`. OSError when it could not be, and is not there."""
    return _put(ctl, RUNNING, {"supervisor": vars(supervisor), "boot": boot_id(), "time": time, "cgroup": cgroup})


def add_child(fd: int, child: ProcessId) -> None:
    """Complete running.json. Best effort: without it the command is found by its marker."""
    try:
        os.write(fd, _line({"child": vars(child)}))
    except OSError:
        pass


def write_exit(ctl: str, exit: Exit) -> None:
    """OSError, and no such file, when it cannot be written."""
    os.close(_put(ctl, EXIT, vars(exit)))


def write_stop(ctl: str, cause: str, grace: Optional[float] = None) -> None:
    """Say why the run is to be ended (one of STOP_CAUSES), then send its supervisor a SIGTERM. The last word counts.

    `grace` overrides the order's; 0 = kill at once.
    """
    if cause not in STOP_CAUSES:
        raise ValueError(f"a run is ended as one of {sorted(STOP_CAUSES)}, not {cause!r}")
    os.close(_put(ctl, STOP, {"cause": cause, "grace": grace}))


def read_stop(ctl: str) -> Optional[Stop]:
    """What was written last; None when nothing was. A run whose directory is gone is to be ended at once."""
    if not os.access(f"{ctl}/{STOP}", os.F_OK):
        return None if os.access(ctl, os.F_OK) else Stop("cancelled", 0.0)
    try:
        stop = Stop(**json.loads(_read(f"{ctl}/{STOP}")))
    except (OSError, ValueError, TypeError):
        return None
    return stop if stop.cause in STOP_CAUSES else None


def _put(ctl: str, name: str, body: Dict[str, Any]) -> int:
    path = f"{ctl}/{name}"
    raw = _line(body)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path + ".tmp", flags, 0o600)
    try:
        while raw:
            raw = raw[os.write(fd, raw) :]
        os.rename(path + ".tmp", path)
    except OSError:
        os.close(fd)
        raise
    return fd


def _line(body: Dict[str, Any]) -> bytes:
    return _json(body).encode() + b"\n"


def _json(value: Union[str, int, float, Dict[str, Any], None]) -> str:
    """As json.dumps, which wakes so much of its module that each waiting supervisor would be 0.2 MB larger."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_json(name)}: {_json(entry)}" for name, entry in value.items()]) + "}"
    return repr(value)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
