"""Libraries that a sampler needs and turnout does not bring along."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from turnout.plugin.sampler import BadOption


def need(who: str, libraries: Sequence[str]) -> None:
    """BadOption, with what to type, where one of them is missing. Nothing is imported."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise BadOption(f"{who} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
