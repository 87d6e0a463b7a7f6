"""Long lists go to the database in pieces, and nothing of them is lost."""

from __future__ import annotations

import pytest

from turnout.store.parts import MOST_IN, in_parts


@pytest.mark.parametrize("count", [0, 1, MOST_IN, MOST_IN + 1, 3 * MOST_IN - 1])
def test_all_of_them_in_their_order(count: int) -> None:
    parts = list(in_parts(range(count)))
    assert [value for part in parts for value in part] == list(range(count))
    assert all(0 < len(part) <= MOST_IN for part in parts)
