"""Spaces as XT's users write them: a file with one key above all others, and functions that begin with ``$``.

::

    hyperparameter-distributions:
      seed: $randint()
      lr: [.001, .003, .007]
      beta1: $uniform(.91, .99)
      epochs: 20

``$randint()`` is any seed, ``$randint(n)`` an integer below n. The bounds of ``$loguniform`` are values,
``(1e-4, 0.1)``; where the lower one is not above 0 they can only be logarithms, as hyperopt has them: ``(-9, -2)``.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnout.errors import InvalidInput
from turnout.plugin.space import Choice, Parameter
from turnout.search.spaces import functions
from turnout.search.spaces.branching import read_each
from turnout.search.spaces.checking import checked, wrong
from turnout.search.spaces.notation import Call, Unreadable, meant, read_values

#: What stands above all parameters: of distributions, or of one set of values.
TOPS = ("hyperparameter-distributions", "hyperparameter-runset")
#: What XT's documentation says instead.
OLD_TOP = "hparams"
_LOGARITHMIC = ("loguniform", "qloguniform")


def read_file(content: Mapping[str, object]) -> dict[str, Parameter]:
    """The content of an HP file. InvalidInput names the parameter that is wrong."""
    if len(content) != 1:
        hint = f"put all parameters under {TOPS[0]!r}, or leave that line out"
        raise InvalidInput(f"there is more than {next(iter(content))!r}", hint=hint)
    ((top, entries),) = content.items()
    if not isinstance(entries, Mapping):
        hint = "write `name: value` under it, such as `lr: [0.01, 0.03]`"
        raise InvalidInput(f"there are no parameters under {top!r}", hint=hint)
    return read_each(entries, read_entry)


def read_entry(name: str, value: object) -> Parameter:
    """A list, a function, or a value that does not vary."""
    if isinstance(value, (list, tuple)):
        return checked(name, Choice(tuple(meant(each) for each in value)))
    if isinstance(value, str) and value.lstrip().startswith("$"):
        return read_function(name, value)
    if isinstance(value, Mapping):
        raise wrong(name, "it has names below it", "write a value, a list, or a function: $uniform(0, 1)")
    return checked(name, Choice((meant(value),)))


def read_function(name: str, text: str) -> Parameter:
    """``$uniform(0, 1)``"""
    try:
        found = read_values(text)
    except Unreadable as error:
        raise wrong(name, str(error), "write a function such as $uniform(0, 1)") from error
    if len(found) != 1 or not isinstance(found[0], Call):
        raise wrong(name, f"{text!r} is no function", "write one such as $uniform(0, 1)")
    return from_call(name, found[0])


def from_call(name: str, call: Call) -> Parameter:
    args: list[object] = list(call.args)
    if any(isinstance(each, Call) for each in args):
        raise wrong(name, f"there is a function within {call.name}", "give it numbers, or text in quotes")
    if call.name in _LOGARITHMIC and args and isinstance(args[0], (int, float)) and args[0] <= 0:
        args = functions.from_logarithms(name, args)
    return functions.apply(name, call.name, args)
