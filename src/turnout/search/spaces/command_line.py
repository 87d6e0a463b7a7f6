"""Values that stand in a command itself, as XT has it: ``train.py '--lr=[.01, .03]' '--seed=[$randint()]'``.

Only the value of an option counts (also as the argument after it), and only one that begins with ``[`` and ends with
``]``. In the runs, one of the values takes its place. ``[]`` stays as it is. An argument that has to begin with a
bracket is written with two: what stands between ``[[`` and ``]]`` reaches the script with one, unless there are several
lists, ``[[1, 2], [3]]``, which are values like others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from turnout.errors import InvalidInput
from turnout.plugin.space import Choice, Parameter
from turnout.search.spaces.checking import checked, wrong
from turnout.search.spaces.notation import Call, Unreadable, read_values
from turnout.search.spaces.xt import from_call

_OPTION = re.compile(r"--?([A-Za-z_][\w.:/-]*)")
_VALUED = re.compile(r"--?([A-Za-z_][\w.:/-]*)=\s*(\[.*)", re.DOTALL)


def find_spaces(argv: Sequence[str]) -> tuple[dict[str, Parameter], dict[str, int]]:
    """The parameters, and the index of the argument that each stands in. InvalidInput."""
    space: dict[str, Parameter] = {}
    slots: dict[str, int] = {}
    for index, name, text in _candidates(argv):
        if not text.endswith("]"):
            _refuse_split(name, argv[index:])
            continue
        if not text[1:-1].strip():
            continue
        if name in space:
            raise wrong(name, "it stands in the command twice", "write its values once")
        space[name] = _read(name, text)
        slots[name] = index
    return space, slots


def _candidates(argv: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The index of an argument, the name of the option, and what begins with a bracket."""
    for index, argument in enumerate(argv):
        if found := _VALUED.fullmatch(argument):
            yield index, found[1], found[2].strip()
        elif index and argument.lstrip().startswith("[") and (before := _OPTION.fullmatch(argv[index - 1])):
            yield index, before[1], argument.strip()


def _read(name: str, text: str) -> Parameter:
    inner = text[1:-1].strip()
    try:
        values = read_values(inner)
    except Unreadable as error:
        hint = f"write --{name}=[a, b], put text with brackets or commas in quotes, or double the brackets"
        raise wrong(name, str(error), hint) from error
    if len(values) == 1 and isinstance(values[0], Call):
        return from_call(name, values[0])
    if any(isinstance(value, Call) for value in values):
        raise wrong(name, "a function stands among values", f"write it alone: --{name}=[$uniform(0, 1)]")
    if len(values) == 1 and isinstance(values[0], list):
        return Choice((inner,))
    return checked(name, Choice(tuple(values)))


def _refuse_split(name: str, rest: Sequence[str]) -> None:
    """A list with spaces that the shell took apart: without quotes nobody would see what was meant."""
    if rest[0].rstrip().endswith(",") and any(word.endswith("]") for word in rest[1:]):
        raise InvalidInput(
            f"parameter {name!r}: the shell split its list at the spaces",
            hint=f"put it in quotes, '--{name}=[.01, .03]', or leave the spaces out",
        )
