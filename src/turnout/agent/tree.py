"""Processes of this machine: which one is meant, who descends from whom, and how a whole tree is ended.

A pid alone names nothing: the kernel gives it to the next process as soon as its owner is gone. Here a process is a
`ProcessId`, its pid and the time it began, and it is signalled through a pidfd that was opened *before* the time was
compared, so that a recycled pid is never hit.

Linux is read from ``/proc``. Elsewhere (macOS) the same facts come from ``ps``: there is no subreaper and no pidfd,
so a process that leaves its parent on purpose (double fork) is out of sight, times have a resolution of one second,
and nothing can be found by its environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import AbstractSet, Callable, Dict, Iterable, List, NamedTuple, Optional, Set

LINUX = sys.platform.startswith("linux")
if not LINUX:
    from turnout.agent import ps
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36
_CHILDREN_FILES = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")  # a kernel option
_NOBODY: AbstractSet[int] = frozenset()

_prctl: Optional[Callable[[int, int, int, int, int], int]] = None
if LINUX:
    try:
        import ctypes

        _prctl = ctypes.CDLL(None).prctl
    except (ImportError, AttributeError, OSError):
        pass  # an interpreter built without libffi: as on macOS, orphans cannot be adopted


@dataclass(frozen=True)
class ProcessId:
    """One process and no other, until the next boot. `start` is in the system's own unit: only equality counts."""

    pid: int
    start: int


class Stat(NamedTuple):
    """The facts about a process that are needed here. `memory` is its resident set in bytes."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start: int
    memory: int

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.pid, self.start)

    @property
    def dead(self) -> bool:
        # The first thread may be a zombie while others still run.
        return self.state in "ZX" and self.threads <= 1


def become_subreaper() -> bool:
    """From now on orphaned descendants become children of this process, not of init. False where that cannot be had."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def boot_id() -> str:
    """A name for the time since the machine's last boot; process ids of another boot mean nothing."""
    return read_whole("/proc/sys/kernel/random/boot_id").decode().strip() if LINUX else ps.boot_id()


def read_stat(pid: int) -> Optional[Stat]:
    """The process that has this pid now, dead but unreaped ones included; None when there is none."""
    if not LINUX:
        return next(iter(_by_ps("-p", str(pid))), None)
    field = _stat_fields(pid)
    if field is None:
        return None
    state, parent, group, session = field[0].decode(), int(field[1]), int(field[2]), int(field[3])
    return Stat(pid, state, parent, group, session, int(field[17]), int(field[19]), int(field[21]) * _PAGE)


def start_time(pid: int) -> Optional[int]:
    """When the process that has this pid now began (see `ProcessId`); None when there is none."""
    if not LINUX:
        stat = read_stat(pid)
        return stat.start if stat else None
    field = _stat_fields(pid)
    return int(field[19]) if field else None


def _stat_fields(pid: int) -> Optional[List[bytes]]:
    """What ``/proc/PID/stat`` has behind the name, which may itself hold anything, brackets and blanks too."""
    try:
        raw = read_whole(f"/proc/{pid}/stat")
    except OSError:
        return None
    return raw[raw.rindex(b")") + 2 :].split(None, 22)


def read_whole(path: str) -> bytes:
    """A file of a kernel file system, in full; OSError when it cannot be read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = part = os.read(fd, 65536)
        while part:  # /proc hands out about a page at a time
            part = os.read(fd, 65536)
            whole += part
        return whole
    finally:
        os.close(fd)


def is_alive(process: ProcessId) -> bool:
    """Whether it still runs. A zombie is dead: it only waits to be noticed."""
    stat = read_stat(process.pid)
    return stat is not None and stat.start == process.start and not stat.dead


def open_pidfd(process: ProcessId) -> Optional[int]:
    """A descriptor that becomes readable when the process ends; the caller closes it.

    None when the process is gone, or when this system has no pidfds: ask `is_alive`, and again later.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        fd: int = os.pidfd_open(process.pid)
    except OSError:
        return None
    if start_time(process.pid) == process.start:
        return fd
    os.close(fd)
    return None


def signal_process(process: ProcessId, sig: int) -> bool:
    """Send `sig` to exactly this process; False when it is gone. PermissionError when it belongs to someone else."""
    fd = open_pidfd(process)
    try:
        if fd is not None:
            signal.pidfd_send_signal(fd, sig)
        elif is_alive(process):
            os.kill(process.pid, sig)
        else:
            return False
    except ProcessLookupError:
        return False
    finally:
        if fd is not None:
            os.close(fd)
    return True


def processes() -> List[Stat]:
    """Every process this user can see."""
    if not LINUX:
        return _by_ps("-A")
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [stat for stat in found if stat is not None]


def walk(root: int, skip: AbstractSet[int] = _NOBODY) -> List[Stat]:
    """The living descendants of a pid, parents before children, without those in `skip` and whatever hangs below them.

    A process that changes its parent while this looks may be missed; it is there when looked at again.
    """
    children = _children_by_file if _CHILDREN_FILES else _children_by_table()
    found: List[Stat] = []
    seen = {root, *skip}
    queue = [root]
    for parent in queue:
        for pid in children(parent):
            if pid in seen:
                continue
            stat = read_stat(pid)
            # Another parent means that the pid was recycled, or that the process is an orphan now: of `root`, maybe.
            if stat is None or stat.dead or stat.parent not in (parent, root):
                continue
            seen.add(pid)
            found.append(stat)
            queue.append(pid)
    return found


def descendants(pid: int) -> List[ProcessId]:
    """As `walk`: children, their children, and so on."""
    return [stat.id for stat in walk(pid)]


def signal_own_tree(sig: int, skip: AbstractSet[int] = _NOBODY) -> List[ProcessId]:
    """Send `sig` once to every living descendant of this process (see `walk`); returns those it found.

    Meant to be repeated by a subreaper that reaps until nothing is left. SIGKILL also goes to whole process groups,
    which the kernel does in one step that no fork escapes. Only groups with a member that is our own child are taken:
    nobody but us can reap that one, hence the group's number cannot have been given to strangers.
    """
    me = os.getpid()
    found = walk(me, skip)
    if sig == signal.SIGKILL:
        for group in {stat.group for stat in found if stat.parent == me} - {os.getpgrp()}:
            try:
                os.killpg(group, sig)
            except OSError:
                pass  # gone meanwhile, or of another user; each process is tried below
    for stat in found:
        _try_signal(stat.id, sig)
    return [stat.id for stat in found]


def kill_tree(root: ProcessId, seconds: float = 2.0) -> bool:
    """SIGKILL a process and its descendants, for a caller who is not their parent. False when `seconds` did not do."""
    return _end_all(lambda: _family(root), seconds)


def find_marked(marker: str) -> List[ProcessId]:
    """The living processes (this one excepted) that were given `marker`, a ``NAME=VALUE``, in their environment.

    A process that wiped its environment, or that another user owns, is not found. Linux only; elsewhere none is.
    """
    wanted = os.fsencode(marker)
    found = []
    for stat in processes() if LINUX else []:
        try:
            marked = stat.pid != os.getpid() and wanted in read_whole(f"/proc/{stat.pid}/environ").split(b"\0")
        except OSError:
            continue
        if marked and not stat.dead:
            found.append(stat.id)
    return found


def end_orphans(child: Optional[ProcessId], marker: str, *, cgroup: Optional[str] = None, seconds: float = 2.0) -> bool:
    """SIGKILL all that a dead supervisor left behind; idempotent. True when nothing is left, False after `seconds`.

    What belongs to the run: the processes that carry `marker`, which has to be unique on this machine; the session of
    `child`, its main command; the members of its `cgroup`; and all their descendants. The session's number is
    believed only while its leader is that child, or while a marked process is in it: else it may be a stranger's by
    now.
    """
    believed = False

    def find() -> List[ProcessId]:
        nonlocal believed
        everyone = {stat.id: stat for stat in processes()}
        roots = set(find_marked(marker)) | _members(cgroup)
        if child is not None:
            inside = {p for p, stat in everyone.items() if child.pid in (stat.session, stat.group)}
            believed = believed or child in everyone or not roots.isdisjoint(inside)
            if believed:
                roots |= inside
        return [p for p in {p for root in roots for p in _family(root)} if p.pid != os.getpid()]

    ended = _end_all(find, seconds)
    if ended and cgroup is not None:
        with suppress(OSError):
            os.rmdir(cgroup)
    return ended


def _end_all(find: Callable[[], List[ProcessId]], seconds: float) -> bool:
    """SIGKILL what `find` finds until it finds nothing twice; False when `seconds` were not enough.

    All are stopped before the first is killed: a stopped process cannot fork, and its children stay where they are
    found. The second look is for a command that was between fork and exec and did not look like itself yet.
    """
    deadline = time.monotonic() + seconds
    quiet = 0
    while quiet < 2:
        victims = _stop_all(find, deadline)
        for process in victims:
            _try_signal(process, signal.SIGKILL)
        quiet = 0 if victims else quiet + 1
        if time.monotonic() > deadline:
            return not find()
        time.sleep(0.01)
    return True


def _stop_all(find: Callable[[], List[ProcessId]], deadline: float) -> Set[ProcessId]:
    stopped: Set[ProcessId] = set()
    while True:
        new = [process for process in find() if process not in stopped]
        for process in new:
            _try_signal(process, signal.SIGSTOP)
        stopped.update(new)
        if not new or time.monotonic() > deadline:
            return stopped


def _family(root: ProcessId) -> List[ProcessId]:
    below = descendants(root.pid)
    return [root, *below] if is_alive(root) else []  # asked last: so the pid was its own all the time


def _try_signal(process: ProcessId, sig: int) -> None:
    try:
        signal_process(process, sig)
    except PermissionError:
        pass  # a set-uid program: beyond us, and visible as a process that stays


def _members(cgroup: Optional[str]) -> Set[ProcessId]:
    try:
        pids = read_whole(os.path.join(cgroup, "cgroup.procs")).split() if cgroup else []
    except OSError:
        return set()
    return {stat.id for stat in map(read_stat, map(int, pids)) if stat is not None and not stat.dead}


def _children_by_file(pid: int) -> Iterable[int]:
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            yield from map(int, read_whole(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:
        return  # it ended while we looked


def _children_by_table() -> Callable[[int], Iterable[int]]:
    table: Dict[int, List[int]] = {}
    for stat in processes():
        table.setdefault(stat.parent, []).append(stat.pid)
    return lambda pid: table.get(pid, ())


def _by_ps(*which: str) -> List[Stat]:
    """What ``ps`` says. It tells neither session nor threads in a way that is the same everywhere."""
    return [Stat(r.pid, r.state, r.parent, r.group, 0, 1, r.start, r.memory) for r in ps.rows(*which)]
