"""``when:``: whether a step, or which of its runs, is done at all.

====================  ==========================================================================================
``success``           all that it waits for completed; as without a condition
``not failure``       nothing that it waits for failed; what was skipped does not count
``failure``           something that it waits for failed
``always``            however that ended
``k > 3``             a filter on its values: the runs for which it does not hold are left out
``train.acc > 0.9``   a filter on what another step came to: a metric, ``train.params.lr``, ``train.state``,
                      ``train.exit_code``. Of a search, that is its best run
====================  ==========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnout import query
from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.model.pipeline import SKIPPED
from turnout.pipeline.plan import COMPLETED, Left, Value

_FIELD = query.Field(query.Kind.ANY, "")
_SUCCESS, _NOT_FAILURE, _FAILURE, _ALWAYS = "success", "not failure", "failure", "always"
_WORDS = (_SUCCESS, _NOT_FAILURE, _FAILURE, _ALWAYS)
#: What may be one of these words, misspelt: it compares nothing.
_BARE = re.compile(r"(not )?[\w.-]+")
#: What YAML makes of these is no word of ours.
_CONSTANTS = {
    "true": "leave it out, or write `always`: it is done however the steps before it ended",
    "false": "leave the step out, and what needs it",
}
#: What can be asked of a run that did not complete.
_OF_ANY_END = ("state", "exit_code")


class _Names(query.Table):
    """Any name without a dot is a value; those with one begin with a step."""

    def canonical(self, written: str) -> str | None:
        first, dot, rest = written.partition(".")
        return written if not dot or (first in self.namespaces and rest) else None

    def field_of(self, column: str) -> query.Field:
        return _FIELD


@dataclass(frozen=True, slots=True)
class Condition:
    """`expression` is None for one of the words. `values` and `steps` are what it asks about."""

    text: str
    expression: query.Expression | None
    values: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    asks: tuple[tuple[str, str], ...] = ()
    """what it asks of which step"""

    @property
    def waits(self) -> bool:
        """Whether it can be told only when other steps are over."""
        return bool(self.steps) or self.text in (_NOT_FAILURE, _FAILURE, _ALWAYS)

    @property
    def bears_failures(self) -> bool:
        """Whether what it waits for need not have completed."""
        if self.expression is None:
            return self.text != _SUCCESS
        return any(what in _OF_ANY_END for _, what in self.asks)

    def is_content_without(self, step: str, asked: Sequence[str]) -> bool:
        """Whether it asks only if these are there at all."""
        return not {f"{step}.{what}" for what in asked} & _compared(self.expression)

    def holds_after(self, left: Mapping[str, Sequence[Left]]) -> bool:
        """Of one of the words."""
        states = [run.state for runs in left.values() for run in runs]
        has_failed = any(state not in (COMPLETED, SKIPPED) for state in states)
        if self.text == _SUCCESS:
            return all(state == COMPLETED for state in states)
        return self.text == _ALWAYS or has_failed == (self.text == _FAILURE)

    def holds(self, values: Mapping[str, Value], ends: Mapping[str, Mapping[str, object]]) -> bool:
        """For a run with these values, and what the steps came to that it asks about."""
        if self.expression is None:
            return True
        return query.matches(self.expression, {**values, **ends}, table=_Names(columns={}))


def _compared(expression: query.Expression | None) -> set[str]:
    match expression:
        case query.Compare(column):
            return {column}
        case query.Not(item):
            return _compared(item)
        case query.And(items) | query.Or(items):
            return set().union(*map(_compared, items))
    return set()


def read(text: str, steps: Collection[str]) -> Condition:
    """InvalidInput points at the place."""
    words = " ".join(text.split())
    if words in _WORDS:
        return Condition(words, None)
    if _BARE.fullmatch(words):
        raise InvalidInput(f"{words} is no condition", hint=_instead_of_word(words))
    expression = query.parse(text, _Names(columns={}, namespaces=dict.fromkeys(steps, _FIELD)))
    names = sorted(query.columns_of(expression))
    asks = tuple((first, rest) for first, dot, rest in (name.partition(".") for name in names) if dot)
    return Condition(
        text, expression, values=tuple(name for name in names if "." not in name),
        steps=tuple(dict.fromkeys(step for step, _ in asks)), asks=asks,
    )  # fmt: skip


def _instead_of_word(words: str) -> str:
    near = nearest(words, _WORDS)
    if words in _CONSTANTS or near:
        return _CONSTANTS.get(words, f"did you mean `{near}`?")
    return f"write one of {', '.join(_WORDS)}, or compare it: `{words.removeprefix('not ')} > 3`"


def instead_of(name: str, known: Collection[str]) -> str:
    """What may have been meant by a value that the step has not."""
    near = nearest(name, [*known, *_WORDS])
    if near:
        return f"did you mean {near}?"
    values = f"its values are {', '.join(known)}; " if known else "it has no values; "
    return f"{values}write STEP.METRIC for what another step came to, or one of {', '.join(_WORDS)}"
