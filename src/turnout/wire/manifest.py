"""A snapshot on the wire: a sorted list of files by content, never an archive.

The canonical JSON of a manifest is itself a blob; its digest names the snapshot. What a manifest may name is decided
here and only here: plain relative paths, regular files of mode 0644 or 0755, and links that stay inside the tree.
"""

from __future__ import annotations

import hashlib
import json
import re
from operator import itemgetter
from typing import Iterable, List, NamedTuple, Sequence, Set

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
MAX_PATH = 4096
MAX_PART = 255
MAX_DEPTH = 128
MAX_ENTRIES = 200_000
MAX_BYTES = 64 << 20  # of the manifest itself
FILE_MODES = (0o644, 0o755)
LINK_MODE = 0o777


class Entry(NamedTuple):
    """One file: where, permission bits (0o644 or 0o755), size and content; or a link inside the tree (`link` set)."""

    path: str
    mode: int
    size: int
    digest: str
    link: str = ""


class BadManifest(ValueError):
    """The manifest names something that must not be written."""


def link_entry(path: str, link: str) -> Entry:
    """A link as a manifest holds it; BadManifest when it leads out of the tree."""
    check_link(path, link)
    return Entry(path, LINK_MODE, 0, "", link)


def file_mode(st_mode: int) -> int:
    """The mode a manifest keeps of a file's permission bits: executable by its owner, or not."""
    return 0o755 if st_mode & 0o100 else 0o644


def is_digest(text: str) -> bool:
    return bool(_DIGEST.match(text))


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_path(path: str) -> str:
    """A relative path of plain parts, or BadManifest: no absolute path, ``.``, ``..``, empty part or NUL."""
    parts = path.split("/")
    if "\0" in path or len(parts) > MAX_DEPTH:
        raise BadManifest(f"unsafe path {_shown(path)}")
    for part in parts:
        if part in ("", ".", "..") or (len(part) > 63 and len(os_bytes(part)) > MAX_PART):
            raise BadManifest(f"unsafe path {_shown(path)}")
    if not path.isascii() or len(path) > MAX_PATH:
        if len(os_bytes(path)) > MAX_PATH:
            raise BadManifest(f"unsafe path {_shown(path)}")
    return path


def os_bytes(text: str) -> bytes:
    """The name as the file system has it; BadManifest for text that no file name can be."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadManifest(f"unsafe path {_shown(text)}") from error


def check_link(path: str, link: str) -> None:
    """A relative link that stays inside the tree, or BadManifest.

    ``..`` is allowed only at its beginning: behind a name that is itself a link it would climb from somewhere else than
    the text shows.
    """
    depth = path.count("/")
    down = False
    if not link or link.startswith("/") or "\0" in link or len(os_bytes(link)) > MAX_PATH:
        raise BadManifest(f"link {_shown(path)} points outside")
    for part in link.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0 or down:
                raise BadManifest(f"link {_shown(path)} points outside")
        elif part not in ("", "."):
            down = True


def check(entries: Sequence[Entry], *, max_entries: int = MAX_ENTRIES) -> None:
    """BadManifest for anything a hostile sender could try: unsafe paths, twins, odd types and modes, too many."""
    if len(entries) > max_entries:
        raise BadManifest(f"{len(entries)} files are over the limit of {max_entries}")
    paths: Set[str] = set()
    for entry in entries:
        _check_entry(entry)
        if entry.path in paths:
            raise BadManifest(f"{_shown(entry.path)} twice")
        paths.add(entry.path)
    directories: Set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in directories:
            if parent in paths:
                raise BadManifest(f"{_shown(parent)} is a file and a directory")
            directories.add(parent)
            parent = parent.rpartition("/")[0]


def encode(entries: Iterable[Entry]) -> bytes:
    """Canonical bytes: sorted by path, one line per entry. Equal sets of entries give equal bytes."""
    quote = json.encoder.encode_basestring_ascii
    lines = [
        f'[{quote(path)},{mode},{size},"{digest}"]' if not link else f'[{quote(path)},{mode},0,"",{quote(link)}]'
        for path, mode, size, digest, link in sorted(entries, key=itemgetter(0))
    ]
    return ("[" + ",\n".join(lines) + "]\n").encode("ascii")


def decode(content: bytes, *, max_entries: int = MAX_ENTRIES) -> List[Entry]:
    """The entries, checked as :func:`check` does; BadManifest when it is not a manifest at all."""
    # Counted before parsing: three bytes of hostile JSON can cost sixty of memory.
    if len(content) > MAX_BYTES or sum(map(content.count, (b",", b"[", b"{"))) > 8 * max_entries + 64:
        raise BadManifest("the manifest is over the limits")
    try:
        rows = json.loads(content)
        if not isinstance(rows, list) or not all(type(row) is list for row in rows):
            raise BadManifest("not a manifest")
        entries = [Entry(*row) for row in rows]
    except (ValueError, TypeError, RecursionError) as error:
        raise BadManifest("not a manifest") from error
    check(entries, max_entries=max_entries)
    return entries


def _check_entry(entry: Entry) -> None:
    path, mode, size, digest, link = entry
    if not (type(path) is type(digest) is type(link) is str and type(mode) is type(size) is int):
        raise BadManifest("not a manifest")
    check_path(path)
    if link:
        check_link(path, link)
        if mode != LINK_MODE or size or digest:
            raise BadManifest(f"{_shown(path)} is a link and a file")
    elif mode not in FILE_MODES or not 0 <= size < 1 << 63:
        raise BadManifest(f"bad mode or size for {_shown(path)}")
    elif not is_digest(digest):
        raise BadManifest(f"bad digest for {_shown(path)}")


def _shown(path: str) -> str:
    """A path as an error may print it: no control characters, not endless."""
    return repr(path if len(path) <= 200 else path[:200] + "…")
