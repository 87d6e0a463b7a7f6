"""The memory limit of a run, and how it is known that a run ended for want of memory.

Where this user may make a cgroup (v2, or the memory controller of v1) the kernel holds the limit: `CgroupLimit`.
Elsewhere the supervisor looks at its tree every half second and ends it when it has grown too large: `SampledLimit`.
Without a limit nothing is set up, only the machine's own count of OOM kills is compared: `NoLimit`. macOS has neither
cgroups nor such a count.
"""

from __future__ import annotations

import os
import time
from typing import Dict, List, NamedTuple, Optional

from turnout.agent import tree

SAMPLE_SECONDS = 0.5
_LEAST = 4 << 20  # the supervisor itself has to fit in for the moment in which it starts the command


class NoLimit:
    """Nothing is limited; also the interface of the limits."""

    cgroup: Optional[str] = None
    interval: Optional[float] = None
    """how often `exceeded` wants to be asked; None = never"""

    def __init__(self) -> None:
        self._before = _machine_kills()

    def enter(self) -> None:
        """What this process starts from here on is limited."""

    def leave(self) -> None:
        """This process itself is not limited any more; what it started since `enter` stays so."""

    def exceeded(self) -> bool:
        """Whether the tree has to be ended now because it is over the limit."""
        return False

    def explains(self, killed: bool) -> bool:
        """Whether want of memory is why the command failed; `killed`: by a SIGKILL that was not ours.

        The kernel's count is the machine's, so it only means something together with such a kill.
        """
        return killed and _machine_kills() > self._before

    def remove(self) -> None:
        """Give back what was set up, once the tree is empty. Idempotent."""


class SampledLimit(NoLimit):
    """Has the tree ended when it is found over `limit` bytes. Can be late by `interval`; a short peak may pass unseen.

    Resident sets count a shared page once for each process, so before a tree is ended its proportional sets are added
    up.
    """

    interval = SAMPLE_SECONDS

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._next = 0.0

    def exceeded(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SAMPLE_SECONDS
        found = tree.walk(os.getpid())
        if sum(stat.memory for stat in found) <= self._limit:
            return False
        return sum(map(_proportional_set, found)) > self._limit


class _Version(NamedTuple):
    """The files of a memory cgroup: of the limit, of the one on swap (or the first is dodged by it), of the counts."""

    limit: str
    swap: str
    swap_value: str
    counts: str


_V1 = _Version("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "{}", "memory.oom_control")
_V2 = _Version("memory.max", "memory.swap.max", "0", "memory.events")


class Place(NamedTuple):
    """Where cgroups can be tried: we live in `home`, new ones go into `parent`."""

    home: str
    parent: str
    version: _Version


class CgroupLimit(NoLimit):
    """The kernel holds the limit and kills in the tree when it cannot. A limit below 4 MiB is taken as that.

    The supervisor only steps in to start the command: were it inside, it could be the one that is killed.
    """

    def __init__(self, place: Place, name: str, limit: int) -> None:
        """Make the cgroup. OSError when that is not allowed here; then nothing is left behind."""
        self._place = place
        self._path = self.cgroup = os.path.join(place.parent, name)
        os.mkdir(self._path)
        try:
            self._set(max(limit, _LEAST))
            self.enter()  # a rehearsal: stepping in and out need rights of their own
            self.leave()
        except OSError:
            self.remove()
            raise

    def enter(self) -> None:
        _write(os.path.join(self._path, "cgroup.procs"), str(os.getpid()))

    def leave(self) -> None:
        _write(os.path.join(self._place.home, "cgroup.procs"), str(os.getpid()))

    def explains(self, killed: bool) -> bool:
        kills = _numbers(os.path.join(self._path, self._place.version.counts)).get(b"oom_kill")
        if kills is not None:
            return kills > 0
        # Before Linux 4.13 there is only the count of times that the limit was reached.
        return killed and _number(os.path.join(self._path, "memory.failcnt")) > 0

    def remove(self) -> None:
        remove_cgroup(self._path)

    def _set(self, limit: int) -> None:
        version = self._place.version
        _write(os.path.join(self._path, version.limit), str(limit))
        try:
            _write(os.path.join(self._path, version.swap), version.swap_value.format(limit))
        except OSError:
            pass  # swap is not accounted on this machine


def limit_memory(limit: Optional[int], name: str) -> NoLimit:
    """The best limit there is on this machine; `name` must be new (it becomes a cgroup's)."""
    if limit is None:
        return NoLimit()
    place = find_place()
    if place is not None:
        try:
            return CgroupLimit(place, name, limit)
        except OSError:
            pass
    return SampledLimit(limit)


def remove_cgroup(path: str) -> None:
    """Remove an empty cgroup; one that is gone, or is not empty, is left as it is."""
    try:
        os.rmdir(path)
    except OSError:
        pass


def find_place(proc: str = "/proc/self") -> Optional[Place]:
    """Where this process could make cgroups that limit memory; None when nowhere.

    Only below our own cgroup, so that nobody's limit is escaped. v2 has a rule that a cgroup with processes has no
    limited children: there it is beside ours, as long as ours sets no memory limit itself.
    """
    try:
        ours, mounts = _lines(f"{proc}/cgroup"), _lines(f"{proc}/mountinfo")
    except OSError:
        return None
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in ours)}
    v1 = next((path for names, path in paths.items() if "memory" in names.split(",")), None)
    if v1 is not None:
        home = _locate(v1, mounts, "cgroup", "memory")
        return Place(home, home, _V1) if home else None
    home = _locate(paths.get("", "/"), mounts, "cgroup2", "")
    parent = home and _v2_parent(home)
    return Place(home, parent, _V2) if home and parent else None


def _v2_parent(home: str) -> Optional[str]:
    candidates = [home]
    if _text(os.path.join(home, _V2.limit)).strip() == "max":
        candidates.append(os.path.dirname(home))
    return next((c for c in candidates if "memory" in _text(os.path.join(c, "cgroup.subtree_control")).split()), None)


def _locate(path: str, mounts: List[str], kind: str, option: str) -> Optional[str]:
    """The directory of a cgroup, through the first mount of that kind under which it can be seen."""
    for line in mounts:
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        fstype, _, options = right.split(" ", 2)
        if fstype != kind or (option and option not in options.split(",")):
            continue
        inside = os.path.relpath(path, root)
        if not inside.startswith(".."):
            return os.path.normpath(os.path.join(point, inside))
    return None


def _machine_kills() -> int:
    # Asked for every run, so the other two hundred lines are not looked at.
    try:
        _, found, rest = tree.read_whole("/proc/vmstat").partition(b"\noom_kill ")
    except OSError:
        return 0
    return int(rest.split(None, 1)[0]) if found else 0


def _proportional_set(stat: tree.Stat) -> int:
    pss = _numbers(f"/proc/{stat.pid}/smaps_rollup").get(b"Pss:")
    return stat.memory if pss is None else pss * 1024


def _numbers(path: str) -> Dict[bytes, int]:
    """A file of lines ``NAME NUMBER ...``; empty when it cannot be read."""
    try:
        fields = [line.split() for line in tree.read_whole(path).splitlines()]
    except OSError:
        return {}
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdigit()}


def _number(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def _text(path: str) -> str:
    try:
        return tree.read_whole(path).decode()
    except OSError:
        return ""


def _lines(path: str) -> List[str]:
    return tree.read_whole(path).decode(errors="surrogateescape").splitlines()


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
