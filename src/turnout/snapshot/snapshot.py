"""Freezing a directory: look, refuse, read what is new, and say what it all is."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnout import errors
from turnout.model.acyclic import acyclic
from turnout.snapshot import cache as remembered
from turnout.snapshot.cache import Folder
from turnout.snapshot.git import GitProbe
from turnout.snapshot.listed import Listed
from turnout.snapshot.policy import Limits, Policy
from turnout.snapshot.problems import Problems
from turnout.snapshot.reading import read_pending
from turnout.snapshot.walk import Tree, identity, walk
from turnout.wire.manifest import Entry


@dataclass(frozen=True, kw_only=True)
class Snapshot(Listed):
    """The files of `root` at one moment, by content. `git` as `git_state` tells it; `empty` are the directories that
    held nothing, and so are not in it.

    The content itself stays where it is: `deliver` brings to a store what that does not have.
    """

    root: str
    entries: tuple[Entry, ...]
    git: dict[str, object] | None
    policy: Policy
    contents: dict[str, bytes] = field(repr=False)
    empty: tuple[str, ...] = ()


def capture(
    root: Path,
    *,
    cache: Path,
    limits: Limits | None = None,
    allow_secrets: Collection[str] = (),
    omit: Sequence[str] = (),
    honours_ignore_files: bool = True,
) -> Snapshot:
    """What is in the directory `root`, leaving out what its rules leave out, and what `omit` does.

    `cache` is a directory where it may remember what it has read; without it everything is only slower. Reads `root`
    and writes nothing there. SnapshotRefused names everything that must not be taken, all at once; `allow_secrets` are
    paths (or globs over paths) relative to `root` that are taken although they look like secrets.
    """
    where = os.path.realpath(root)
    if not os.path.isdir(where):
        raise errors.InvalidInput(f"{root} is not a directory", hint="go to the directory that holds your code")
    policy = Policy(limits or Limits(), tuple(allow_secrets), tuple(omit), honours_ignore_files)
    git = GitProbe(where)
    problems, now_ns = Problems(), time.time_ns()
    try:
        with acyclic():
            known = remembered.load(cache, where)
            tree = walk(where, known, policy, problems)
            snapshot = _read(tree, policy, problems, now_ns)
            if tree.folders != known and not problems.over_cap:
                remembered.save(cache, where, tree.folders)
            problems.raise_if_any(where)
        return replace(snapshot, git=git.result())
    finally:
        git.cancel()


def capture_file(path: Path, *, policy: Policy) -> Snapshot:
    """One file, under its own name; a link is followed. InvalidInput when it is none, SnapshotRefused."""
    where, name = os.path.split(os.path.realpath(path))
    problems = Problems()
    tree = Tree(where, folders={"": Folder()})
    try:
        looked = os.stat(os.path.join(where, name))
    except OSError as error:
        raise errors.InvalidInput(f"{path} cannot be read: {error.strerror}", hint="check the path") from error
    if not stat.S_ISREG(looked.st_mode):
        raise errors.InvalidInput(f"{path} is neither a file nor a directory", hint="give a file or a directory")
    if not policy.refuses_size(name, looked.st_size, problems):
        tree.pending[""] = [(name, identity(looked))]
    snapshot = _read(tree, policy, problems, time.time_ns())
    problems.raise_if_any(where)
    return snapshot


def _read(tree: Tree, policy: Policy, problems: Problems, now_ns: int) -> Snapshot:
    contents = read_pending(tree, problems, now_ns=now_ns) if not problems.over_cap else {}
    entries = _entries(tree, policy, problems)
    empty = tuple(
        path.rstrip("/")
        for path, folder in tree.folders.items()
        if path and not (folder.files or folder.kept or folder.left_out)
    )
    return Snapshot(root=tree.root, entries=entries, git=None, policy=policy, contents=contents, empty=empty)


def _entries(tree: Tree, policy: Policy, problems: Problems) -> tuple[Entry, ...]:
    """All of the tree; a remembered file is held to today's policy, too."""
    entries = list(tree.links)
    cap = policy.limits.file_bytes
    for path, folder in tree.folders.items():
        for name, (size, _, _, _, mode, digest, verdict) in folder.files.items():
            entries.append(Entry(path + name, mode, size, digest))
            if verdict or size > cap:
                policy.refuses_size(path + name, size, problems)
                policy.refuses_secret(path + name, verdict, problems)
    return tuple(entries)
