"""Spaces in words, for people who look at a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MOST_VALUES = 12


def in_words(plain: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Each parameter of a space as it is kept, with the values it can take; those of branches by their paths."""
    for name, parameter in plain.items():
        yield above + name, _words(parameter)
        for value in parameter.get("choice", ()):
            if "branch" in value:
                yield from in_words(value["space"], f"{above}{name}.{value['branch']}.")


def _words(parameter: Mapping[str, Any]) -> str:
    if "choice" in parameter:
        values = [str(value["branch"] if "branch" in value else value["value"]) for value in parameter["choice"]]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        return ", ".join(values[:_MOST_VALUES]) + more
    notes = [
        "by magnitude" if parameter["log"] else "",
        "whole numbers" if parameter.get("whole") else "",
        f"in steps of {parameter['step']:g}" if parameter["step"] else "",
    ]
    if "normal" in parameter:
        mean, deviation = parameter["normal"]
        span = f"around {mean:g}, give or take {deviation:g}"
    else:
        low, high = parameter["range"]
        span = f"{low:g} to {high:g}"
    return ", ".join([span, *filter(None, notes)])
