"""What can be asked about a run. Only names in these tables ever reach the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnout.model.likeness import nearest
from turnout.model.state import Reason, RunState
from turnout.query.expression import Op


class Kind(StrEnum):
    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    SPAN = "span"  # seconds; may be written 90s, 15m, 2h
    SIZE = "size"  # bytes; may be written 500K, 1.5G
    TIME = "time"
    STATE = "state"
    ANY = "any"  # text, number or boolean, as it was recorded


@dataclass(frozen=True, slots=True)
class Field:
    """`choices`: the only values there are; empty = any."""

    kind: Kind
    meaning: str
    choices: tuple[str, ...] = ()


COLUMNS: Mapping[str, Field] = {
    "name": Field(Kind.TEXT, "the run: run12, or run12.3 for a child"),
    "job": Field(Kind.TEXT, "the submission it belongs to: job7"),
    "experiment": Field(Kind.TEXT, "the experiment it is part of"),
    "workspace": Field(Kind.TEXT, "the workspace of the experiment"),
    "state": Field(Kind.STATE, "where it is in its life", tuple(state.value for state in RunState)),
    "reason": Field(Kind.STATE, "why it ended or went back to the queue", tuple(reason.value for reason in Reason)),
    "exit_code": Field(Kind.INT, "what its command returned"),
    "attempts": Field(Kind.INT, "how often it was begun"),
    "target": Field(Kind.TEXT, "the compute target it was sent to"),
    "node": Field(Kind.TEXT, "the node it ran on last"),
    "label": Field(Kind.TEXT, "the name a person gave it"),
    "parent": Field(Kind.TEXT, "the run it is a child of"),
    "priority": Field(Kind.INT, "higher goes first"),
    "created": Field(Kind.TIME, "when it was submitted"),
    "queued": Field(Kind.TIME, "when it entered the queue last"),
    "started": Field(Kind.TIME, "when a node accepted it last"),
    "ended": Field(Kind.TIME, "when its command was over"),
    "duration": Field(Kind.SPAN, "seconds from started to ended"),
    "origin": Field(Kind.TEXT, "its name where it was exported, if it was imported"),
}

NAMESPACES: Mapping[str, Field] = {
    "metrics": Field(Kind.FLOAT, "the last value logged under a name"),
    "params": Field(Kind.ANY, "a hyperparameter"),
    "tags": Field(Kind.TEXT, "a tag"),
}

ORDER = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_EQUAL = frozenset({Op.EQ, Op.NE, Op.IN, Op.NOT_IN})
PATTERNS = frozenset({Op.MATCH, Op.NO_MATCH})
WILDCARDS = frozenset({Op.LIKE, Op.UNLIKE})
_PATTERN = PATTERNS | WILDCARDS
#: No order on text: run10 would come before run9. No equality on times: nobody knows the microsecond.
OPERATORS: Mapping[Kind, frozenset[Op]] = {
    Kind.TEXT: _EQUAL | _PATTERN,
    Kind.STATE: _EQUAL | _PATTERN,
    Kind.INT: _EQUAL | ORDER,
    Kind.FLOAT: _EQUAL | ORDER,
    Kind.SPAN: _EQUAL | ORDER,
    Kind.SIZE: _EQUAL | ORDER,
    Kind.TIME: ORDER,
    Kind.ANY: _EQUAL | ORDER | _PATTERN,
}

#: a name inside a namespace that needs no quotes
PLAIN_NAME = re.compile(r"[\w/@+-](?:[\w./@+-]*[\w/@+-])?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What can be asked about one kind of thing: its columns, the first words of dotted names, other words for both.

    `shown_only` can be shown, but not sorted or filtered by.
    """

    columns: Mapping[str, Field]
    namespaces: Mapping[str, Field] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    shown_only: frozenset[str] = frozenset()

    def canonical(self, written: str) -> str | None:
        """The column that `written` (``status``, ``hparams.lr``, ``state``) stands for; None when there is none."""
        first, dot, rest = written.partition(".")
        first = self.aliases.get(first, first)
        if dot:
            return f"{first}.{rest}" if first in self.namespaces and rest else None
        return first if first in self.columns else None

    def field_of(self, column: str) -> Field:
        """The description of a canonical column."""
        first, dot, _ = column.partition(".")
        return self.namespaces[first] if dot else self.columns[first]

    def hint_for(self, written: str) -> str:
        """What may have been meant by a name that is no column."""
        first, dot, rest = written.partition(".")
        spaces = [*self.namespaces, *(word for word, meant in self.aliases.items() if meant in self.namespaces)]
        if dot and spaces:
            near = nearest(first, spaces)
            meant = f"{near}.{rest or 'NAME'}"
            return f"did you mean {meant}?" if near else f"names with a dot begin with {', '.join(spaces)}"
        near = nearest(first, [*self.columns, *self.aliases])
        known = [*self.columns, *(f"{space}.NAME" for space in self.namespaces)]
        return f"did you mean {near}?" if near else f"columns are {', '.join(known)}"


RUNS = Table(
    columns=COLUMNS,
    namespaces=NAMESPACES,
    aliases={"status": "state", "run": "name", "hparams": "params"},
    shown_only=frozenset({"command", "message"}),
)
