"""What trials measure: between NNI's JSON text and the records in which runs here tell metrics."""

from __future__ import annotations

import json
from typing import Any

from turnout.wire import nni


def records_of(data: object, now: float) -> list[dict[str, Any]]:
    """The record of one metric, as a listener gets it: NNI's own form, or a plain number or object. None of what is not
    a metric: NNI's trials ask for parameters by the same way."""
    content = nni.decoded(data) if isinstance(data, str | bytes | bytearray) else data
    if isinstance(content, dict) and content.get("type") is not None and "trial_job_id" in content:
        record = nni.record(content, now)
        return [] if record is None else [record]
    values = nni.numbers(content)
    return [{"t": now, "m": values}] if values else []


def told(trial: str, parameter: object, kind: str, sequence: int, values: dict[str, float]) -> str:
    """What a trial's own library would have told. The value is text in text, as there."""
    value: object = values[nni.OBJECTIVE] if list(values) == [nni.OBJECTIVE] else values
    record = {"parameter_id": parameter, "trial_job_id": trial, "type": kind, "sequence": sequence}
    return json.dumps({**record, "value": json.dumps(value)})
