"""What is left out of a snapshot: ``.gitignore`` and ``.turnoutignore``, nested ones too, read as git reads them.

Of all patterns that match a path the last one counts: a deeper file over a shallower one, and any ``.turnoutignore``
over every ``.gitignore``; ``!`` takes back in. A ``!`` pattern of a ``.turnoutignore`` that names its directory
(``!data/small.csv``) reaches into it even when that is left out; one that does not (``!*.csv``) stays outside.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cached_property

GIT_RULES = ".gitignore"
OUR_RULES = ".turnoutignore"
VENV_MARK = "pyvenv.cfg"
MOST = 1 << 20  # bytes read of a rule file
NEVER_TAKEN = frozenset(
    (".git", ".turnout", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox",
     ".ipynb_checkpoints")
)  # fmt: skip
_WILD = re.compile(r"[*?\[]")
_ALL_BELOW = re.compile(r"/\*\*\Z")
_SPECIAL = re.compile(r"[\[\\]|\*\*\Z")


class RuleFile:
    """One file of patterns and the directory it speaks for.

    A path relative to the root is shown to it as ``lead + path[cut:]``: a file above the root has a lead, a nested one
    cuts.
    """

    def __init__(self, text: str, *, ours: bool, lead: str = "", cut: int = 0) -> None:
        lines = (line if line.endswith("\\ ") else line.rstrip() for line in text.splitlines())
        self._lines = [line for line in lines if line and not line.startswith("#")]
        self._lead, self._cut = lead, cut
        self.ours = ours

    def decides(self, path: str, is_dir: bool) -> bool | None:
        """True: leave out, False: take, None: no pattern matches."""
        return self._decides(self._shown(path, is_dir))

    def decides_above(self, levels: int) -> bool | None:
        """The same for the directory so many levels above the root; 0 is the root itself."""
        shown = self._lead.split("/")[: self._lead.count("/") - levels]
        return self._decides("/".join([*shown, ""])) if shown else None

    def reaches_into(self, path: str) -> bool:
        """Whether a pattern takes something back in from below the directory `path`."""
        below = self._shown(path, True)
        return any(head.startswith(below) or (deep and below.startswith(head)) for head, deep in self._taken_back)

    def _decides(self, shown: str) -> bool | None:
        return next((leave_out for matches, leave_out in self._patterns if matches(shown)), None)

    def _shown(self, path: str, is_dir: bool) -> str:
        return self._lead + path[self._cut :] + "/" * is_dir

    @cached_property
    def _patterns(self) -> list[tuple[Callable[[str], object], bool]]:
        """Each pattern and whether it leaves out, the last one first."""
        return [found for line in reversed(self._lines) if (found := _compile(line)) is not None]

    @cached_property
    def names(self) -> list[str]:
        """Regular expressions for every name that some pattern could match, and a few more.

        Left-out directories are not entered, so what matters of a pattern is its last part.
        """
        parts = {line.removeprefix("!").rstrip("/").rpartition("/")[2] for line in self._lines}
        if any(not part or _SPECIAL.search(part) for part in parts):
            return [".*"]
        return [re.escape(part).replace(r"\*", ".*").replace(r"\?", ".") for part in sorted(parts)]

    @cached_property
    def _taken_back(self) -> list[tuple[str, bool]]:
        """The directory each ``!`` pattern names, and whether a wildcard behind it leads deeper."""
        heads = []
        for line in self._lines:
            if line.startswith("!"):
                literal, *wild = _WILD.split(line[1:].lstrip("/"), maxsplit=1)
                if "/" in literal:
                    heads.append((literal[: literal.rindex("/") + 1], bool(wild)))
        return heads


class Rules:
    """The rule files in force in one directory, the strongest first. `key` changes whenever a decision could. With
    `is_all`, what is never taken of code (caches, ``.git``) is taken, too."""

    def __init__(
        self, files: tuple[RuleFile, ...] = (), key: str = "", *, left_out: bool = False, is_all: bool = False
    ) -> None:
        self._files = files
        self.key = key or ("everything" if is_all else "no rules")
        self._left_out = left_out
        self._is_all = is_all

    def adding(self, directory: str, texts: dict[str, bytes]) -> Rules:
        """As seen from `directory` (relative, ends with ``/``, or "") that holds these rule files, by name."""
        if not texts:
            return self
        return self.extended(
            [
                RuleFile(text.decode("utf-8", "replace"), ours=name == OUR_RULES, cut=len(directory))
                for name, text in texts.items()
            ],
            repr((directory, sorted(texts.items()))),
        )

    def inside(self, *, left_out: bool) -> Rules:
        """The same within a directory that is left out (where only what is taken back in is taken), or is not."""
        if left_out == self._left_out:
            return self
        return Rules(self._files, _digest(f"{self.key} {left_out}"), left_out=left_out, is_all=self._is_all)

    @cached_property
    def concerns(self) -> Callable[[str], object]:
        """Whether a name is worth asking `leave_out` about; spares almost all names that question."""
        if self._left_out:
            return bool
        names = [*map(re.escape, NEVER_TAKEN), r".*\.pyc", *(name for file in self._files for name in file.names)]
        return re.compile("(?s:" + "|".join(names) + ")").fullmatch

    def leave_out(self, path: str, name: str, is_dir: bool) -> bool:
        """Whether to leave out `path`, whose last part is `name` and whose directory these rules are for."""
        if not self._is_all and (name in NEVER_TAKEN or name.endswith(".pyc")):
            return True
        for file in self._files:
            decision = file.decides(path, is_dir)
            if decision is not None:
                return decision
        return self._left_out

    def leave_out_above(self, levels: int, name: str) -> bool:
        """The same for a directory above the root, called `name`, so many levels up; 0 is the root itself."""
        if not self.concerns(name):
            return False
        return next((found for file in self._files if (found := file.decides_above(levels)) is not None), False)

    def reach_into(self, path: str, name: str) -> bool:
        """Whether to look into the directory `path`, whose last part is `name`, although it is left out."""
        return name not in NEVER_TAKEN and any(file.ours and file.reaches_into(path) for file in self._files)

    def extended(self, files: list[RuleFile], what: str) -> Rules:
        """With further rule files, which come from deeper in the tree; `what` tells them from any others."""
        both = (*files, *self._files)  # deeper first; the sort is stable
        strongest_first = sorted(both, key=lambda file: not file.ours)
        return Rules(tuple(strongest_first), _digest(self.key + what), left_out=self._left_out, is_all=self._is_all)


def rules_above(root: str) -> Rules:
    """The rules that the git repository around `root` sets from above it; none outside a repository.

    None either when they leave out `root` itself, as those of a repository over a whole home directory do: the user
    has chosen this directory.
    """
    rules = Rules()
    top = git_top(root)
    if top is None:
        return rules
    where, parts = top, [part for part in root[len(top) :].split("/") if part]
    rules = _extend(rules, os.path.join(top, ".git", "info", "exclude"), parts)
    for depth, part in enumerate(parts):
        rules = _extend(rules, os.path.join(where, GIT_RULES), parts[depth:])
        where = os.path.join(where, part)
    left_out = any(rules.leave_out_above(levels, part) for levels, part in enumerate(reversed(parts)))
    return Rules() if left_out else rules


def _extend(rules: Rules, path: str, below: list[str]) -> Rules:
    """`rules` and those in the file at `path`, whose directory is `below` above the root."""
    try:
        with open(path, "rb") as file:
            text = file.read(MOST)
    except OSError:
        return rules
    lead = "".join(f"{part}/" for part in below)
    return rules.extended([RuleFile(text.decode("utf-8", "replace"), ours=False, lead=lead)], repr((lead, text)))


def git_top(root: str) -> str | None:
    """The directory at or above `root` that holds ``.git``."""
    while True:
        if os.path.exists(os.path.join(root, ".git")):
            return root
        parent = os.path.dirname(root)
        if parent == root:
            return None
        root = parent


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _compile(line: str) -> tuple[Callable[[str], object], bool] | None:
    """A pattern as (does it match this very path, does it leave out); None for one that git passes over, too.

    The library's expressions are made to match what is *below* a matching directory as well. In a walk that asks about
    each directory by itself, this would let ``!*.txt`` take back all of a directory ``old.txt``: so not here.
    """
    # Imported only when a path has to be decided: in an unchanged tree none has, and the import would be felt.
    from pathspec import GitIgnoreSpec

    line = _ALL_BELOW.sub("/**/*", line)
    try:
        (pattern,) = GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    expression = pattern.regex.pattern.replace("(?P<ps_d>/).*", "(?P<ps_d>/)")
    if not expression.startswith("^"):  # a short form for a pattern of stars only
        expression = ".+/" if line.endswith("/") else ".+"
    return re.compile(expression, re.DOTALL).fullmatch, pattern.include
