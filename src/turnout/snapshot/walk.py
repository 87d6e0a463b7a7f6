"""The walk over a directory tree: what is in it, what of it is already known, and what has to be read.

Nothing is opened for reading here, so a tree that is too large is refused for the price of its listing.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from turnout.snapshot.cache import Folder, Folders
from turnout.snapshot.ignore import GIT_RULES, NEVER_TAKEN, OUR_RULES, VENV_MARK, Rules, rules_above
from turnout.snapshot.policy import Policy, in_words
from turnout.snapshot.problems import Kind, Problems
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MARKS = frozenset((GIT_RULES, OUR_RULES, VENV_MARK))
_NOTHING = Folder()


class TooMany(Exception):
    """The cap on the number of files is reached: no use in looking further."""


@dataclass(slots=True)
class Tree:
    """What a walk found. `pending` are the files to be read, by directory: name and what its lstat said."""

    root: str
    folders: Folders = field(default_factory=dict)
    links: list[Entry] = field(default_factory=list)
    pending: dict[str, list[tuple[str, os.stat_result]]] = field(default_factory=dict)
    total: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """files by top-level directory"""


def walk(root: str, known: Folders, policy: Policy, problems: Problems) -> Tree:
    """Look at everything below `root` that the rules keep; what must not be taken goes to `problems`."""
    walker = _Walker(root, known, policy, problems)
    try:
        walker.enter(None, root, "", rules_above(root))
    except TooMany:
        most = ", ".join(f"{top or '.'} ({count})" for top, count in walker.tree.counts.most_common(3))
        problems.add(".", f"more than {policy.limits.files} files; most are in {most}", Kind.COUNT)
    walker.check_total()
    return walker.tree


class _Walker:
    def __init__(self, root: str, known: Folders, policy: Policy, problems: Problems) -> None:
        self.tree = Tree(root)
        self._known = known
        self._policy = policy
        self._problems = problems

    def enter(self, parent: int | None, name: str, path: str, rules: Rules) -> None:
        """Go into the directory `name` of the open directory `parent`; `path` ends with ``/`` or is the root's ""."""
        if path.count("/") >= manifest.MAX_DEPTH:
            self._problems.add(path, "is nested too deeply")
            return
        try:
            # The root may be a link: it is what the user said.
            fd = os.open(name, _DIRECTORY if path else _DIRECTORY & ~os.O_NOFOLLOW, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems.add(path or ".", f"cannot be read ({error.strerror})", Kind.ACCESS)
            return
        try:
            self._look_through(fd, path, rules)
        finally:
            os.close(fd)

    def check_total(self) -> None:
        cap = self._policy.limits.total_bytes
        if self.tree.total > cap:
            sizes = [(known[0], path + name) for path, at in self.tree.folders.items() for name, known in at.files.items()]
            sizes += [(seen.st_size, path + name) for path, at in self.tree.pending.items() for name, seen in at]
            most = ", ".join(f"{path} ({in_words(size)})" for size, path in sorted(sizes)[:-4:-1])
            self._problems.add(".", f"{in_words(self.tree.total)} is over the cap of {in_words(cap)}; most: {most}", Kind.TOTAL)

    def _look_through(self, fd: int, path: str, rules: Rules) -> None:
        with os.scandir(fd) as listing:
            items = list(listing)
        marks = _MARKS.intersection([item.name for item in items])
        if VENV_MARK in marks and path:
            return
        if marks:
            rules = rules.adding(path, _rule_texts(fd, marks))
        known = self._known.get(path, _NOTHING)
        folder = self.tree.folders[path] = Folder(rules.key)
        decided = known.rules == rules.key
        trusted, left_out = (known.files, known.left_out) if decided else ({}, set())
        unknown = []
        for item in items:
            seen = trusted.get(item.name)
            if seen is None:
                unknown.append(item)
                continue
            now = item.stat(follow_symlinks=False)
            if (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino) == seen[:4]:
                folder.files[item.name] = seen
            else:
                unknown.append(item)
        ...
