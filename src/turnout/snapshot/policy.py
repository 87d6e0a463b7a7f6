"""What may be taken: how much, and which secrets were allowed by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from turnout.model.measures import scaled
from turnout.snapshot.problems import Kind, Problems

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps in bytes and files; over one of them a capture is refused before anything is read."""

    file_bytes: int = 100 << 20
    total_bytes: int = 1 << 30
    files: int = 100_000


@dataclass(frozen=True, slots=True)
class Policy:
    """`allow_secrets` are paths relative to the root, or globs over them, that are taken whatever they look like.

    `omit` are patterns, as in a .gitignore, of what to leave out; they are stronger than all rules in files, which
    count only if `honours_ignore_files`: code has things that are made again, data has not.
    """

    limits: Limits = field(default_factory=Limits)
    allow_secrets: Collection[str] = ()
    omit: tuple[str, ...] = ()
    honours_ignore_files: bool = True

    def refuses_secret(self, path: str, verdict: str, problems: Problems) -> bool:
        """Whether `verdict` (of `secrets.judge`) says secret and nobody allowed it; then it is a problem."""
        refused = bool(verdict) and not self._allows(path)
        if refused:
            problems.add(path, verdict, Kind.SECRET)
        return refused

    def refuses_size(self, path: str, size: int, problems: Problems) -> bool:
        """Whether a file is over the cap; then it is a problem."""
        cap = self.limits.file_bytes
        if size > cap:
            problems.add(path, f"{in_words(size)} is over the cap of {in_words(cap)}", Kind.SIZE)
        return size > cap

    def _allows(self, path: str) -> bool:
        return any(path == each.removeprefix("./") or fnmatchcase(path, each) for each in self.allow_secrets)


def in_words(size: float) -> str:
    """A number of bytes as people say it."""
    return scaled(size, 1024, _UNITS)
