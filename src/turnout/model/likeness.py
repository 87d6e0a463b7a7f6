"""Names that are nearly right, and what to say of them."""

from __future__ import annotations

from collections.abc import Iterable

_COMPARED = 64


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The known name that is most like what was written, if one is. Case and ``_`` do not count."""
    import difflib  # only who errs pays for it

    names = {_folded(each): each for each in known}
    near = difflib.get_close_matches(_folded(written[:_COMPARED]), names, 1)
    return names[near[0]] if near else None


def instead_of(written: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is none of `known`, as a hint."""
    names = sorted(known)
    near = nearest(written, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names)}" if names else "there are none"


def _folded(name: str) -> str:
    return name.lower().replace("_", "")
