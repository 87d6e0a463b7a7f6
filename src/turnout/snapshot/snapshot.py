"""Freezing a directory: look, refuse, read what is new, and say what it all is."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from turnout import errors
from turnout.snapshot import cache as remembered
from turnout.snapshot.git import GitProbe
from turnout.snapshot.policy import Limits, Policy
from turnout.snapshot.problems import Problems
from turnout.snapshot.reading import read_pending
from turnout.snapshot.walk import Tree, walk
from turnout.wire import manifest
from turnout.wire.manifest import Entry


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The files of `root` at one moment, by content. `git` as `git_state` tells it.

    The content itself stays where it is: `deliver` brings to a store what that does not have.
    """

    root: str
    entries: tuple[Entry, ...]
    git: dict[str, object] | None
    policy: Policy
    contents: dict[str, bytes] = field(repr=False)

    @cached_property
    def manifest(self) -> bytes:
        """The manifest, itself a blob."""
        return manifest.encode(self.entries)

    @cached_property
    def digest(self) -> str:
        """The digest of the manifest: the name of the snapshot."""
        return manifest.digest_of(self.manifest)

    @property
    def files(self) -> int:
        return len(self.entries)

    @property
    def total_bytes(self) -> int:
        return sum(entry.size for entry in self.entries)


def capture(root: Path, *, cache: Path, limits: Limits | None = None, allow_secrets: Collection[str] = ()) -> Snapshot:
    """What is in the directory `root`, leaving out what its rules leave out.

    `cache` is a directory where it may remember what it has read; without it everything is only slower. Reads `root`
    and writes nothing there. SnapshotRefused names everything that must not be taken, all at once; `allow_secrets` are
    paths (or globs over paths) relative to `root` that are taken although they look like secrets.
    """
    where = os.path.realpath(root)
    if not os.path.isdir(where):
        raise errors.InvalidInput(f"{root} is not a directory", hint="go to the directory that holds your code")
    policy, problems = Policy(limits or Limits(), tuple(allow_secrets)), Problems()
    contents: dict[str, bytes] = {}
    now_ns = time.time_ns()
    git = GitProbe(where)
    collecting = gc.isenabled()
    gc.disable()  # so many small objects and no cycles: looking for cycles would take a tenth of the time
    try:
        known = remembered.load(cache, where)
        tree = walk(where, known, policy, problems)
        if not problems.over_cap:
            contents = read_pending(tree, problems, now_ns=now_ns)
            if tree.folders != known:
                remembered.save(cache, where, tree.folders)
        entries = _entries(tree, policy, problems)
        problems.raise_if_any(where)
        return Snapshot(root=where, entries=entries, git=git.result(), policy=policy, contents=contents)
    finally:
        if collecting:
            gc.enable()
        git.cancel()


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
