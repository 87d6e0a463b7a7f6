"""Parameters as a command line has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from turnout.search.spaces.drawing import NAME


def with_params(
    argv: Sequence[str], params: Mapping[str, object], *, prefix: str | None, slots: Mapping[str, int]
) -> tuple[str, ...]:
    """The command with these parameters: each in its slot (the argument of that index), or appended, ``--lr=0.1``."""
    filled = list(argv)
    for name, value in flat(params):
        if name in slots:
            filled[slots[name]] = _in_place(filled[slots[name]], value)
        elif prefix is not None:
            filled.append(f"{prefix}{name}={text(value)}")
    return tuple(filled)


def flat(params: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Every parameter with its value; those of a branch are named after it: ``layer`` ``conv``, ``layer.width`` 8."""
    for name, value in params.items():
        if isinstance(value, Mapping) and NAME in value:
            yield above + name, value[NAME]
            yield from flat({key: each for key, each in value.items() if key != NAME}, f"{above}{name}.")
        else:
            yield above + name, value


def text(value: object) -> str:
    """A value as one argument: what is no text as JSON has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _in_place(argument: str, value: object) -> str:
    """``--lr=[.01, .03]`` becomes ``--lr=0.01``; an argument without a name, ``['a=b', 'c=d']``, becomes the value."""
    name, equals, _ = argument.partition("=")
    return f"{name}={text(value)}" if equals and not name.lstrip().startswith("[") else text(value)
