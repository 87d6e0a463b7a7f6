"""Everything that keeps a directory from being captured, collected and told at once."""

from __future__ import annotations

from enum import Enum

from turnout import errors

_SHOWN = 20


class Kind(Enum):
    """Why something is refused; the value is what to do about it."""

    SECRET = "if it is no secret: `--allow-secret PATH`"
    SIZE = "to take it: raise `code: max-file-size` in the config"
    TOTAL = "to take it all: raise `code: max-size` in the config"
    COUNT = "to take them all: raise `code: max-files` in the config"
    CHANGING = "if something is writing to it: wait until that is done"
    ACCESS = "to take it: make it readable (`chmod u+r PATH`)"
    SPECIAL = ""


class Problems:
    """Collects while looking goes on, so that the user hears of everything at once."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, Kind]] = []

    def add(self, path: str, reason: str, kind: Kind = Kind.SPECIAL) -> None:
        self._found.append((path, reason, kind))

    @property
    def over_cap(self) -> bool:
        """Whether there is so much that nothing should be read."""
        return any(kind in (Kind.TOTAL, Kind.COUNT) for _, _, kind in self._found)

    def raise_if_any(self, root: str) -> None:
        """Raise the refusal when there is something to refuse."""
        if self._found:
            raise self.refusal(root)

    def refusal(self, root: str) -> errors.SnapshotRefused:
        """The error that names every path (the first 20) and, in its hint, what to type for each kind of problem."""
        found = sorted(self._found, key=lambda problem: problem[0])
        lines = [f"  {_plain(path)}: {reason}" for path, reason, _ in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        what = "1 thing" if len(found) == 1 else f"{len(found)} things"
        hints = ["to leave it out: add its path to .turnoutignore"]
        hints += sorted({kind.value for _, _, kind in found if kind.value})
        message = "\n".join([f"{what} in {_plain(root)} cannot go into the snapshot:", *lines])
        return errors.SnapshotRefused(message, hint="\n".join(hints))


def _plain(path: str) -> str:
    """A path as a terminal may show it: a name with control or undecodable characters is quoted."""
    return path if path.isprintable() else repr(path)
