"""What the last capture of a directory saw, so that the next one reads only what has changed.

Per directory: the identity of every file, its digest and verdict, and what the rules decided. In columns rather than
records, because loading it must be cheap beside the walk it saves. It is only ever an optimisation: missing, damaged or
of another version means reading everything once more.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zlib
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from turnout.snapshot.secrets import RULES

RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again without a new time stamp: it is not believed."""

_MAGIC = b"turnout stat cache 1, secrets %d\n" % RULES
_KEPT_CACHES = 200
_COLUMNS = "qqqQq"


Identity = tuple[int, int, int, int]
"""size, mtime_ns, ctime_ns, inode"""

Known = tuple[int, int, int, int, int, str, str]
"""A file as it was read: its identity (four numbers), mode, digest, and why it looks like a secret.

A plain tuple, because a capture makes and compares one for every file. An mtime of -1 is never believed.
"""


@dataclass(slots=True)
class Folder:
    """One directory: its files, what else the rules keep, what they leave out, and which rules those were.

    The names of directories end with ``/`` in `kept` and `left_out`: rules tell them from files.
    """

    rules: str = ""
    files: dict[str, Known] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)


Folders = dict[str, Folder]
"""by path relative to the root, ending with ``/``; "" is the root"""


def load(directory: Path, root: str) -> Folders:
    """What is remembered of `root`; nothing when there is nothing sound."""
    try:
        with open(_path(directory, root), "rb") as file:
            magic, crc, head_size, body = file.readline(), file.read(4), file.read(4), file.read()
        if magic != _MAGIC or zlib.crc32(body).to_bytes(4, "little") != crc:
            return {}
        return _decode(body, int.from_bytes(head_size, "little"), root)
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def save(directory: Path, root: str, folders: Folders) -> None:
    """Remember `folders`; says nothing when that cannot be written."""
    head, columns = _encode(folders, root)
    body = b"".join([head, *columns])
    path = _path(directory, root)
    temporary = f"{path}.{secrets.token_hex(4)}"
    with suppress(OSError):
        _make(directory)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(_MAGIC + zlib.crc32(body).to_bytes(4, "little") + len(head).to_bytes(4, "little"))
                file.write(body)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        _forget_oldest(directory)


def _encode(folders: Folders, root: str) -> tuple[bytes, list[bytes]]:
    files = [known for folder in folders.values() for known in folder.files.values()]
    names = "\0".join([name for folder in folders.values() for name in folder.files])
    raw_names = names.encode("utf-8", "surrogateescape")
    head = {
        "root": root,
        "names": len(raw_names),
        "folders": [
            (path, folder.rules, len(folder.files), sorted(folder.kept), sorted(folder.left_out))
            for path, folder in folders.items()
        ],
        "verdicts": [(at, known[6]) for at, known in enumerate(files) if known[6]],
    }
    numbers = [known[:5] for known in files]
    columns = [array(kind, [known[at] for known in numbers]).tobytes() for at, kind in enumerate(_COLUMNS)]
    digests = bytes.fromhex("".join([known[5] for known in files]))
    return json.dumps(head).encode(), [raw_names, *columns, digests]


def _decode(body: bytes, head_size: int, root: str) -> Folders:
    head = json.loads(body[:head_size])
    if head["root"] != root:
        return {}
    at = head_size + head["names"]
    names = body[head_size:at].decode("utf-8", "surrogateescape").split("\0")
    count = sum(row[2] for row in head["folders"])
    columns = []
    for kind in _COLUMNS:
        column = array(kind)
        column.frombytes(body[at : at + 8 * count])
        columns.append(column)
        at += 8 * count
    digits = body[at:].hex()
    digests = [digits[start : start + 64] for start in range(0, 64 * count, 64)]
    verdicts = [""] * count
    for index, verdict in head["verdicts"]:
        verdicts[index] = verdict
    files = iter(zip(names, zip(*columns, digests, verdicts, strict=True), strict=False))
    return {
        path: Folder(rules, dict(islice(files, files_here)), set(kept), set(left_out))
        for path, rules, files_here, kept, left_out in head["folders"]
    }


def _path(directory: Path, root: str) -> str:
    name = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(directory, name + ".stat")


def _make(directory: Path) -> None:
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def _forget_oldest(directory: Path) -> None:
    """Directories come and go; their caches must not pile up."""
    names = [name for name in os.listdir(directory) if ".stat" in name]
    if len(names) > _KEPT_CACHES:
        paths = sorted((os.path.join(directory, name) for name in names), key=os.path.getmtime)
        for path in paths[: len(paths) - _KEPT_CACHES]:
            os.unlink(path)
