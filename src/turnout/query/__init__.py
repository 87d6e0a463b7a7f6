"""One language to choose runs, for the command line, the API and the browser.

::

    state = failed and metrics.loss < 0.3 or not tags.keep exists
    experiment like vision-* and params.optimizer in (adam, sgd), started < 2h

A condition is a column, an operator and a value. Columns are those of :data:`COLUMNS`, and ``metrics.NAME``,
``params.NAME``, ``tags.NAME``; a name with other characters is quoted: ``metrics."val loss"``.

=====================  ==========================================================================================
``= == != <>``         equal, not equal; text as it is written, upper and lower case differ
``< <= > >=``          numbers and times
``~ !~``               a regular expression, found somewhere in the text; also XT's ``:regex:``
``like``               the whole text against a pattern: ``*`` is anything, ``?`` one character; also ``not like``
``in (a, b)``          one of them; also ``not in``
``exists``             there is a value; also ``not exists`` and XT's ``:exists:``
``not and or , ( )``   in this order of strength; a comma is the weakest *and*
=====================  ==========================================================================================

A value is a word, a number, or in quotes. A time is ``2024-05-01``, ``2024-05-01T10:30`` (UTC unless it says
otherwise), or an age such as ``90s 15m 2h 3d 1w``: ``started < 2h`` is *less than two hours ago*. ``= none`` is
``not exists``.

**Missing values.** A comparison with a value that is not there (or is NaN) is false, whatever the operator:
``tags.stage != final`` finds runs tagged with another stage. `not` turns the answer round as everywhere:
``not tags.stage = final`` finds the untagged ones as well. There is no third truth value.
"""

from turnout.query.arranging import arrange
from turnout.query.columns import COLUMNS, NAMESPACES, RUNS, Field, Kind, Table
from turnout.query.expression import (
    Age,
    And,
    Compare,
    Exists,
    Expression,
    Not,
    Op,
    Or,
    Scalar,
    Value,
    columns_of,
)
from turnout.query.kinds import BOXES, EXPERIMENTS, FILES, JOBS, NODES, SHARES, TARGETS, WORKSPACES
from turnout.query.listing import Column, Sort, expand_columns, parse_columns, parse_sort
from turnout.query.matching import like, look_up, matches, resolve
from turnout.query.parser import parse, parse_all
from turnout.query.writing import unparse

__all__ = [
    "BOXES", "COLUMNS", "EXPERIMENTS", "FILES", "JOBS", "NAMESPACES", "NODES", "RUNS", "SHARES", "TARGETS",
    "WORKSPACES", "Age", "And", "Column", "Compare", "Exists", "Expression", "Field", "Kind", "Not", "Op", "Or",
    "Scalar", "Sort", "Table", "Value", "arrange", "columns_of", "expand_columns", "like", "look_up", "matches",
    "parse", "parse_all", "parse_columns", "parse_sort", "resolve", "unparse",
]  # fmt: skip
