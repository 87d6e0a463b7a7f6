"""For work that makes very many small objects, and no cycles of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def acyclic() -> Iterator[None]:
    """Nobody looks for cycles meanwhile: of making a hundred thousand things, that would be up to half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
