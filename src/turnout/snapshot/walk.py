"""The walk over a directory tree: what is in it, what of it is already known, and what has to be read.

Nothing is opened for reading here, so a tree that is too large is refused for the price of its listing.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from turnout.snapshot.cache import Folder, Folders, Identity
from turnout.snapshot.ignore import GIT_RULES, MOST, OUR_RULES, VENV_MARK, RuleFile, Rules, rules_above
from turnout.snapshot.policy import Policy, in_words
from turnout.snapshot.problems import Kind, Problems
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MARKS = frozenset((GIT_RULES, OUR_RULES, VENV_MARK))
_NOTHING = Folder()
Item = os.DirEntry[str]
Looked = tuple[str, Identity]
"""a file by name, and what it was when it was looked at"""


class TooMany(Exception):
    """The cap on the number of files is reached: no use in looking further."""


@dataclass(slots=True)
class Tree:
    """What a walk found below `root`, a real path. `pending` are the files to be read, by directory."""

    root: str
    folders: Folders = field(default_factory=dict)
    links: list[Entry] = field(default_factory=list)
    pending: dict[str, list[Looked]] = field(default_factory=dict)
    total: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """files by top-level directory"""


def walk(root: str, known: Folders, policy: Policy, problems: Problems) -> Tree:
    """Look at everything below `root` that the rules keep; what must not be taken goes to `problems`."""
    walker = _Walker(root, known, policy, problems)
    rules = rules_above(root) if policy.honours_ignore_files else Rules(is_all=True)
    if policy.omit:
        rules = rules.extended([RuleFile("\n".join(policy.omit), ours=True)], repr(policy.omit))
    try:
        walker.enter(None, root, "", rules)
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
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                self._look_through(fd, path, rules)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return  # gone by now
        except OSError as error:
            self._problems.add(path or ".", f"cannot be read ({error.strerror})", Kind.ACCESS)

    def check_total(self) -> None:
        """Refuse a tree over the cap, naming what makes it large."""
        cap = self._policy.limits.total_bytes
        if self.tree.total <= cap:
            return
        sizes = [
            (known[0], path + name) for path, here in self.tree.folders.items() for name, known in here.files.items()
        ]
        sizes += [(seen[0], path + name) for path, here in self.tree.pending.items() for name, seen in here]
        most = ", ".join(f"{path} ({in_words(size)})" for size, path in sorted(sizes)[:-4:-1])
        reason = f"{in_words(self.tree.total)} in all is over the cap of {in_words(cap)}; most is {most}"
        self._problems.add(".", reason, Kind.TOTAL)

    def _look_through(self, fd: int, path: str, rules: Rules) -> None:
        with os.scandir(fd) as listing:
            items = list(listing)
        marks = _MARKS.intersection([item.name for item in items])
        if VENV_MARK in marks and path and self._policy.honours_ignore_files:
            return
        if marks and self._policy.honours_ignore_files:
            rules = rules.adding(path, _rule_texts(fd, marks))
        known = self._known.get(path, _NOTHING)
        if known.rules != rules.key:  # the files are still known, but not what to do with them
            known = Folder(files=known.files)
        folder = self.tree.folders[path] = Folder(rules.key)
        changed, others = _take_files(items, path, rules, known, folder)
        self._add(path, folder, changed)
        for item in others:
            self._take_other(fd, item, path, rules, known, folder)

    def _take_other(self, fd: int, item: Item, path: str, rules: Rules, known: Folder, folder: Folder) -> None:
        """Go into a directory, note a link, refuse the rest; unless the rules leave it out."""
        name, full = item.name, path + item.name
        is_dir = item.is_dir(follow_symlinks=False)
        key = name + "/" if is_dir else name
        if key in known.left_out or (key not in known.kept and rules.leave_out(full, name, is_dir)):
            if is_dir and rules.reach_into(full, name):
                self.enter(fd, name, full + "/", rules.inside(left_out=True))
            else:
                folder.left_out.add(key)
            return
        folder.kept.add(key)
        if is_dir:
            self.enter(fd, name, full + "/", rules.inside(left_out=False))
        elif item.is_symlink():
            self._take_link(fd, name, full)
        else:
            self._problems.add(full, "is neither a file, a directory nor a link")

    def _take_link(self, fd: int, name: str, full: str) -> None:
        """Keep a link that stays inside; one that says so in a roundabout way is straightened."""
        try:
            target = os.readlink(name, dir_fd=fd)
        except FileNotFoundError:
            return
        try:
            self.tree.links.append(manifest.link_entry(full, target))
            return
        except BadManifest:
            pass
        root = self.tree.root
        leads_to = os.path.realpath(os.path.join(root, full))
        if leads_to == root or leads_to.startswith(root + "/"):
            straight = os.path.relpath(leads_to, os.path.dirname(os.path.join(root, full)))
            self.tree.links.append(manifest.link_entry(full, straight))
        elif not os.path.exists(os.path.join(leads_to, VENV_MARK)):  # a link to a virtual environment counts as one
            self._problems.add(full, f"is a symlink out of the tree (to {target})")

    def _add(self, path: str, folder: Folder, changed: list[Looked]) -> None:
        """Count what is in one directory, and note what of it has to be read."""
        cap = self._policy.limits.file_bytes
        small = [looked for looked in changed if looked[1][0] <= cap]
        if len(small) < len(changed):
            for name, now in changed:
                self._policy.refuses_size(path + name, now[0], self._problems)
        if small:
            self.tree.pending[path] = small
        self.tree.total += sum([seen[0] for seen in folder.files.values()]) + sum([now[0] for _, now in small])
        self.tree.counts[path.partition("/")[0]] += len(folder.files) + len(small)
        if self.tree.counts.total() > self._policy.limits.files:
            raise TooMany


def identity(now: os.stat_result) -> Identity:
    """What stays the same for as long as the file does; no write goes by without a new ctime."""
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino


def _take_files(
    items: list[Item], path: str, rules: Rules, known: Folder, folder: Folder
) -> tuple[list[Looked], list[Item]]:
    """Put the files that are as they were into `folder`; return the files to be read and whatever is not a file.

    This is what every file costs, every time; hence no calls, and the comparison written out.
    """
    changed, others = [], []
    decided = known.files if known.rules else {}
    for item in items:
        name = item.name
        seen = decided.get(name)
        if seen is None:
            if not item.is_file(follow_symlinks=False):
                others.append(item)
                continue
            if name in known.left_out or (rules.concerns(name) and rules.leave_out(path + name, name, False)):
                folder.left_out.add(name)
                continue
            seen = known.files.get(name)
        try:
            now = item.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if (
            seen is not None
            and now.st_mtime_ns == seen[1]
            and now.st_ctime_ns == seen[2]
            and now.st_size == seen[0]
            and now.st_ino == seen[3]
        ):
            folder.files[name] = seen
        elif stat.S_ISREG(now.st_mode):
            changed.append((name, identity(now)))
        else:
            others.append(item)
    return changed, others


def _rule_texts(fd: int, marks: Set[str]) -> dict[str, bytes]:
    texts = {}
    for name in (GIT_RULES, OUR_RULES):
        if name in marks:
            try:
                rules = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            except OSError:
                continue  # as a file of the tree it will be refused
            with os.fdopen(rules, "rb") as file:
                texts[name] = file.read(MOST)
    return texts
