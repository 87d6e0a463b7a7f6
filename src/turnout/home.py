"""Where things are kept for this user: the state directory, the sockets, and who is the hub.

``TURNOUT_HOME`` (default ``~/.turnout``) holds everything that lasts, 0700. Sockets need short paths and a local file
system, so they live in ``XDG_RUNTIME_DIR`` or in a 0700 directory in the temp folder. A database does not work on a
network file system, so there it goes to a directory on this host's own disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from turnout.errors import InvalidInput, NotFound, Unavailable

#: File systems shared between hosts: SQLite's write-ahead log and locks do not work there.
_NETWORK_FS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "afs", "9p", "fuse.sshfs",
     "glusterfs", "fuse.glusterfs", "panfs", "pvfs2", "orangefs", "fuse.juicefs", "wekafs"}
)  # fmt: skip

_LONGEST_SOCKET_PATH = 103  # macOS; Linux has room for four bytes more


def current_directory() -> Path:
    """NotFound when it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise NotFound("the current directory is gone", hint="cd to one that is there") from error


@dataclass(frozen=True, slots=True)
class Home:
    root: Path

    @classmethod
    def from_env(cls) -> Home:
        given = os.environ.get("TURNOUT_HOME")
        root = Path(given) if given else Path.home() / ".turnout"
        if not root.is_absolute():
            root = current_directory() / root
        return cls(root)

    @property
    def token_file(self) -> Path:
        return self.root / "token"

    @property
    def hub_file(self) -> Path:
        return self.root / "hub.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "hub.lock"

    @property
    def hub_log(self) -> Path:
        return self.root / "logs" / "hub.log"

    @property
    def config_file(self) -> Path:
        return self.root / "config.yaml"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def stat_cache(self) -> Path:
        return self.root / "cache" / "snapshots"

    @property
    def key(self) -> str:
        """Short, and different for each state directory."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]

    def make(self) -> None:
        """Makes the state directory, private from the first instant. Refuses one that others could tamper with."""
        try:
            private_dir(self.root)
            for part in ("logs", "nodes", "cache", "blobs"):
                private_dir(self.root / part)
        except OSError as error:
            raise Unavailable(
                f"the state directory {self.root} cannot be made: {error.strerror}",
                hint="set TURNOUT_HOME to a directory you can write",
            ) from error

    @property
    def socket_dir(self) -> Path:
        """Where a hub started from here has its sockets; a path that fits into a socket's address."""
        base = os.environ.get("XDG_RUNTIME_DIR")
        if base and os.path.isdir(base) and os.stat(base).st_uid == os.getuid():
            place = Path(base).absolute() / "turnout" / self.key
            if len(os.fsencode(place / "agent.sock")) <= _LONGEST_SOCKET_PATH:
                return place
        return Path(tempfile.gettempdir()) / f"turnout-{os.getuid()}" / self.key

    def sockets(self) -> Path:
        """The directory of the sockets, made and checked."""
        private_dir(self.socket_dir.parent)
        return private_dir(self.socket_dir)

    def database_dir(self) -> Path:
        """Where the database lies: in the state directory, or on this host's own disk when that is on a network."""
        if file_system(self.root) not in _NETWORK_FS:
            return self.root
        parent = Path("/var/tmp") / f"turnout-{os.getuid()}"
        return private_dir(private_dir(parent) / self.key)

    def on_network(self) -> bool:
        return file_system(self.root) in _NETWORK_FS


def private_dir(path: Path) -> Path:
    """Makes a 0700 directory (and 0700 ones above it), or checks that the one there is ours and lets nobody else in.

    A link is taken only when it is our own: another user's could lead elsewhere tomorrow.
    """
    for missing in reversed([each for each in (path, *path.parents) if not os.path.lexists(each)]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise InvalidInput(f"{path} is not a directory", hint="set TURNOUT_HOME to another place")
    if {found.st_uid, os.lstat(path).st_uid} != {os.getuid()}:
        raise InvalidInput(f"{path} belongs to another user", hint="set TURNOUT_HOME to a directory of your own")
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def is_private(path: Path) -> bool:
    """Whether what is there is ours, in directories (two levels up) that nobody else can change."""
    for each in (path, path.parent, path.parent.parent):
        found = os.lstat(each)
        if found.st_uid != os.getuid() or (found.st_mode & 0o022 and not stat.S_ISLNK(found.st_mode)):
            return False
    return True


def write_private(path: Path, content: str) -> None:
    """Replaces a file as a whole, 0600 from the first instant, and on the disk when this returns."""
    temp = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:  # which writes all of it, or raises: a disk may be full after a part
            file.write(content.encode())
            file.flush()
            os.fsync(fd)
        os.replace(temp, path)
    finally:
        temp.unlink(missing_ok=True)


def file_system(path: Path, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that `path` (or its nearest existing parent) is on; "" where that cannot be told."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                _, written, found, *_ = line.split(" ")
                point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), written)
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, found
    except (OSError, ValueError):
        return ""
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRecord:
    """Who the hub of a state directory is. Written by it under its lock; one left behind is known by its silence."""

    host: str
    pid: int
    start: str
    boot_id: str
    version: str
    socket: str
    agent_socket: str
    started: float
    tcp: str | None = None

    def save(self, home: Home) -> None:
        write_private(home.hub_file, json.dumps({name: getattr(self, name) for name in self.__slots__}))

    @classmethod
    def load(cls, home: Home) -> HubRecord | None:
        """None when there is none, or it cannot be read as one."""
        try:
            raw = json.loads(home.hub_file.read_text())
            return cls(**raw) if isinstance(raw["socket"], str) and isinstance(raw["host"], str) else None
        except (OSError, ValueError, TypeError, KeyError):
            return None
