"""The results of a search as rows: for programs, and as columns of text."""

from __future__ import annotations

import json
from typing import Any

from turnout.client.studied import Studied, Tried

PARAMS, METRICS = "params.", "metrics."
_LAST = ("started", "ended", "duration", "target")


def as_views(study: Studied) -> list[dict[str, Any]]:
    return [_view(study, each) for each in study.tried]


def as_columns(study: Studied) -> tuple[list[str], list[list[str]]]:
    """Headers and cells; parameters of branches have columns of their own, which are empty in other rows."""
    metrics = [aim.metric for aim in study.aims]
    first = ["number", "run", "state"]
    headers = [*first, *(PARAMS + name for name in study.names), *(METRICS + name for name in metrics), *_LAST]
    rows = []
    for each in study.tried:
        view = _view(study, each)
        known = [each.number, each.run, each.state], [*each.values, *(view[name] for name in _LAST)]
        before, after = ([_cell(value) for value in values] for values in known)
        rows.append([*before, *(text_of(each.flat.get(name, "")) for name in study.names), *after])
    return headers, rows


def text_of(value: object) -> str:
    """A value as one cell of a table; None is a value, too."""
    return value if isinstance(value, str) else json.dumps(value)


def _cell(value: object) -> str:
    return "" if value is None else text_of(value)


def _view(study: Studied, each: Tried) -> dict[str, Any]:
    metrics = {aim.metric: value for aim, value in zip(study.aims, each.values, strict=True)}
    return {
        "number": each.number, "run": each.run, "state": each.state, "params": each.params, "metrics": metrics,
        "started": each.started, "ended": each.ended, "duration": each.seconds, "target": each.target,
    }  # fmt: skip
