"""Filters for property tests, of whatever columns and values a test is about."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from turnout.query import And, Compare, Exists, Expression, Not, Op, Or, Scalar
from turnout.query.columns import OPERATORS, RUNS

Columns = st.SearchStrategy[str]
ValuesOf = Callable[[str, Op], st.SearchStrategy[Scalar]]
"""the values that a column may be compared with by an operator"""


@st.composite
def comparisons(draw: st.DrawFn, columns: Columns, values_of: ValuesOf) -> Compare:
    column = draw(columns)
    op = draw(st.sampled_from(sorted(OPERATORS[RUNS.field_of(column).kind])))
    value = values_of(column, op)
    if op in (Op.IN, Op.NOT_IN):
        return Compare(column, op, tuple(draw(st.lists(value, min_size=1, max_size=3))))
    return Compare(column, op, draw(value))


def expressions(columns: Columns, values_of: ValuesOf, *, max_leaves: int) -> st.SearchStrategy[Expression]:
    single = comparisons(columns, values_of) | st.builds(Exists, columns)
    return st.recursive(single, _joined, max_leaves=max_leaves)


def _joined(items: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(items, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, items) | st.builds(And, several) | st.builds(Or, several)
