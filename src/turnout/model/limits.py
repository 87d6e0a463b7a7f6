"""How much a run may carry in names and values: its parameters, its tags. They are shown in every list of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from turnout.errors import InvalidInput

MOST_NAMES = 1000
MOST_EVENTS = 10_000
"""of a run, before what it records goes into its history no more; its newest values are kept all the same"""
MOST_BYTES = 100 << 10
"""of names and values together; parameters go to the run in one environment variable, which Linux bounds at 128 kB"""


def size_of(named: Mapping[str, object]) -> int:
    """The bytes it takes as JSON. InvalidInput, naming the culprit, for a value that JSON cannot hold."""
    try:
        return len(json.dumps(named, ensure_ascii=False).encode(errors="surrogatepass"))
    except (TypeError, ValueError, RecursionError):
        pass
    for name, value in named.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"the value of {name!r} cannot be written as JSON: {error}"
            raise InvalidInput(what, hint="give numbers, texts, lists of them") from error
    raise InvalidInput("a name that is not text", hint="let names be texts")


def check_amount(named: Mapping[str, object], what: str) -> None:
    """InvalidInput when there are too many, or they are too large; `what` says whose and which: "the tags of run 3"."""
    if len(named) > MOST_NAMES:
        raise InvalidInput(
            f"{what}: {len(named)} are too many, at most {MOST_NAMES} are kept",
            hint="write the rest into a file that the run reads, or keep it as an artifact",
        )
    size = size_of(named)
    if size > MOST_BYTES:
        largest = max(named, key=lambda name: size_of({name: named[name]}))
        raise InvalidInput(
            f"{what}: together they have {size} bytes, at most {MOST_BYTES} are kept; {largest!r} is the largest",
            hint="write large values into a file that the run reads, or keep them as an artifact",
        )
