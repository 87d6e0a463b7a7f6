"""One hub per module: what the tests here do to it must leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.doors import LivingHub, living_hub


@pytest.fixture(scope="module")
def hub() -> Iterator[LivingHub]:
    with living_hub() as running:
        yield running
