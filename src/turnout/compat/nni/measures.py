"""What trials measure: between NNI's JSON text and the records in which runs here tell metrics."""

from __future__ import annotations

import json
from typing import Any

#: The metric that NNI's tuners look at.
DEFAULT = "default"
_KINDS = ("PERIODICAL", "FINAL")


def records_of(text: object, now: float) -> list[dict[str, Any]]:
    """The record of one metric, as a listener gets it: NNI's own form, or a plain number or object. None of what is not
    a metric: NNI's trials ask for parameters by the same way."""
    content = _decoded(text)
    step = None
    if isinstance(content, dict) and content.get("type") is not None and "trial_job_id" in content:
        if content["type"] not in _KINDS:
            return []
        sequence = content.get("sequence")
        step = sequence if content["type"] == "PERIODICAL" and type(sequence) is int else None
        content = _decoded(content.get("value"))
    values = _numbers(content)
    if not values:
        return []
    return [{"t": now, "m": values} if step is None else {"t": now, "m": values, "s": step}]


def _decoded(text: object) -> Any:
    """JSON in text, text itself, or what was never text."""
    if isinstance(text, bytes | bytearray):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return None


def _numbers(content: object) -> dict[str, float]:
    given = content if isinstance(content, dict) else {DEFAULT: content}
    return {str(name): each for name, each in given.items() if isinstance(each, int | float) and type(each) is not bool}


def told(trial: str, parameter: object, kind: str, sequence: int, values: dict[str, float]) -> str:
    """What a trial's own library would have told. The value is text in text, as there."""
    value: object = values[DEFAULT] if list(values) == [DEFAULT] else values
    record = {"parameter_id": parameter, "trial_job_id": trial, "type": kind, "sequence": sequence}
    return json.dumps({**record, "value": json.dumps(value)})
