"""``ctl/record``: what agent and supervisor know of an attempt, across the death of either.

Lines of JSON, only ever added to, each by one write. The last word on a name counts.

=============================  ==========  ======================================================================
line                           written by  meaning
=============================  ==========  ======================================================================
grant, after, secrets          agent       which attempt this is; its directory is ready
gpus, gpus_on                  agent       which ones it was given, in which boot of the machine
container                      agent       the program that executes it in one, and the container's name
supervisor, boot, time, cgroup supervisor  the command may have been executed, hence never will be again in here
child                          supervisor  the command's process
exit                           supervisor  how it ended; nothing of the attempt runs any more
=============================  ==========  ======================================================================

A supervisor holds the file's flock for as long as it looks after the attempt. Beside it may lie ``stop.json``, by the
agent: why the supervisor was told to end the run.

A line that is not whole is none. Nothing is fsync'ed: after a power cut the boot id tells that all is over, and what
the hub has not acknowledged is run again. One file, and the same one for the next attempt in this directory (see
`forget`), because making and deleting files is most of what a short run costs: ext4 does not give out an inode again
for minutes after its deletion, and passes over all of those with each file it makes. The first line, which stays, is
there because file systems hasten to write out what was cut down to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, Dict, List, Optional, Union

from turnout.agent.tree import ProcessId, boot_id, is_alive

RECORD = "record"
STOP = "stop.json"
STOP_CAUSES = frozenset({"cancelled", "stopped", "preempted"})
_FIRST = b'{"turnout": "attempt"}\n'
_BEGUN = b'\n{"supervisor": '
_EXIT = b'\n{"exit": '
#: File systems that know no flock (some Lustre mounts): there only what is recorded stands between two starts.
_LOCKLESS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP})
_PIECE = 1 << 12
_OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


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


def tell(ctl: str, told: Dict[str, Any]) -> None:
    """The agent's words, before there is a supervisor; the first ones make the record. OSError when they cannot be."""
    fd = os.open(f"{ctl}/{RECORD}", _OPEN | os.O_CREAT, 0o600)
    try:
        if os.fstat(fd).st_size == 0:
            _write(fd, _FIRST)
        _write(fd, json.dumps(told).encode() + b"\n")
    finally:
        os.close(fd)


def claim(ctl: str) -> Optional[int]:
    """The record, to begin or to see to it that nobody does: locked until it is closed. None when it is in other hands
    or one has begun; OSError when there is none."""
    fd = os.open(f"{ctl}/{RECORD}", _OPEN)
    claimed = False
    try:
        claimed = _lock(fd) and _BEGUN not in _read_all(fd)
    finally:
        if not claimed:
            os.close(fd)
    return fd if claimed else None


def forget(ctl: str) -> None:
    """As new, for another attempt. Nobody may be using it."""
    fd = os.open(f"{ctl}/{RECORD}", _OPEN)
    try:
        os.ftruncate(fd, len(_FIRST))
    finally:
        os.close(fd)


def read(ctl: str) -> Dict[str, Any]:
    """All that was told, by name; nothing when there is no record."""
    told: Dict[str, Any] = {}
    for line in _read(ctl).split(b"\n")[:-1]:
        try:
            told.update(json.loads(line))
        except (ValueError, TypeError):  # only a power cut can do that
            continue
    return told


def examine(directory: str) -> Union[Running, Exit, Died, None]:
    """How an attempt stands: None = never begun (it may be started), or running, ended, or its supervisor died.

    A running supervisor is recognised by pid, start time and boot.
    """
    ctl = f"{directory}/ctl"
    running = read_running(ctl)
    alive = running is not None and running.boot == boot_id() and is_alive(running.supervisor)
    # Only now: a supervisor records the exit before it is gone, or turns to another attempt.
    raw = _read(ctl)
    ended = _exit(raw)
    if ended is not None:
        return ended
    if alive:
        return running
    return Died(running) if _BEGUN in raw else None


def read_running(ctl: str) -> Optional[Running]:
    """None when none began, or what it told is damaged."""
    told = read(ctl)
    try:
        child = ProcessId(**told["child"]) if "child" in told else None
        return Running(ProcessId(**told["supervisor"]), child, told["boot"], told["time"], told["cgroup"])
    except (TypeError, KeyError):
        return None


def read_exit(ctl: str) -> Optional[Exit]:
    """None when it has not ended."""
    return _exit(_read(ctl))


def _exit(raw: bytes) -> Optional[Exit]:
    at = raw.rfind(_EXIT)
    line, end, _ = raw[at + 1 :].partition(b"\n")
    if at < 0 or not end:
        return None
    try:
        return Exit(**json.loads(line)["exit"])
    except (ValueError, TypeError):  # only a power cut can do that
        return None


def begin(fd: int, supervisor: ProcessId, time: float, cgroup: Optional[str]) -> None:
    """From now on the command may be executed. OSError when that could not be told: then it must not be."""
    _add(fd, {"supervisor": vars(supervisor), "boot": boot_id(), "time": time, "cgroup": cgroup})


def add_child(fd: int, child: ProcessId) -> None:
    """Best effort: without it the command is found by its marker."""
    with suppress(OSError):
        _add(fd, {"child": vars(child)})


def write_exit(fd: int, exit: Exit) -> None:
    """OSError, and no trace of it, when it cannot be written."""
    _add(fd, {"exit": vars(exit)})


def write_stop(ctl: str, cause: str, grace: Optional[float] = None) -> None:
    """Say why the run is to be ended (one of STOP_CAUSES), then send its supervisor a SIGTERM. The last word counts.

    `grace` overrides the order's; 0 = kill at once.
    """
    if cause not in STOP_CAUSES:
        raise ValueError(f"a run is ended as one of {sorted(STOP_CAUSES)}, not {cause!r}")
    path = f"{ctl}/{STOP}"
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _write(fd, _json({"cause": cause, "grace": grace}).encode())
        os.rename(path + ".tmp", path)
    finally:
        os.close(fd)


def read_stop(ctl: str) -> Optional[Stop]:
    """What was written last; None when nothing was. A run whose directory is gone is to be ended at once."""
    if not os.access(f"{ctl}/{STOP}", os.F_OK):
        return None if os.access(ctl, os.F_OK) else Stop("cancelled", 0.0)
    try:
        with open(f"{ctl}/{STOP}", "rb") as file:
            stop = Stop(**json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return None
    return stop if stop.cause in STOP_CAUSES else None


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        return error.errno in _LOCKLESS


def _add(fd: int, told: Dict[str, Any]) -> None:
    _write(fd, _json(told).encode() + b"\n")


def _write(fd: int, raw: bytes) -> None:
    """All of it or, with an OSError, nothing. The file is at its end, and no one else's words come in between."""
    written = os.write(fd, raw)
    if written != len(raw):
        os.ftruncate(fd, os.fstat(fd).st_size - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _json(value: Any) -> str:
    """As json.dumps, which wakes so much of its module that each waiting supervisor would be 0.2 MB larger."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_json(name)}: {_json(entry)}" for name, entry in value.items()]) + "}"
    return repr(value)


def _read(ctl: str) -> bytes:
    """What the record holds; nothing when there is none, or something else in its place."""
    try:
        fd = os.open(f"{ctl}/{RECORD}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _read_all(fd)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    """What the record of this descriptor holds, from its beginning."""
    pieces: List[bytes] = []
    while True:
        pieces.append(os.pread(fd, _PIECE, len(pieces) * _PIECE))
        if len(pieces[-1]) < _PIECE:
            return b"".join(pieces)
