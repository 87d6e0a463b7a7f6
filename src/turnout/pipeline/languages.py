"""The languages in which pipelines are written, for who has to go on with what was written in one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnout.errors import InvalidInput
from turnout.pipeline import metapipe, native
from turnout.pipeline.plan import Late

_LATE: dict[str, Callable[[Mapping[str, Any]], Late]] = {"native": native.late_from, "metapipe": metapipe.late_from}


def late_from(plain: Mapping[str, Any]) -> Late:
    """What `plain` of a late step gave. InvalidInput for anything else."""
    language = str(plain.get("language"))
    if language not in _LATE:
        raise InvalidInput(f"no language {language!r} is known here", hint="upgrade it: pip install --upgrade turnout")
    try:
        return _LATE[language](plain)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"what makes the runs of a step cannot be read: {error!r}"
        raise InvalidInput(what, hint="submit it with `turnout pipeline`") from error
