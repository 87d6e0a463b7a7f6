"""What may have been meant by a name that no run has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from turnout.model.likeness import nearest

_NOUNS = {"metrics": "metric", "params": "parameter", "tags": "tag"}


def unknown_names(columns: Iterable[str], recorded: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each of `columns` (``metrics.los``) under which no run recorded anything."""
    for column in columns:
        space, dot, name = column.partition(".")
        known = recorded.get(space, ())
        if not dot or name in known:
            continue
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "`turnout list runs --available` lists what there is"
        yield f"no run here has a {_NOUNS[space]} {name!r}; {hint}"
