"""What a trial needs of NNI's library, over the same files: for tests where NNI is not installed. Its name is nni."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_directory = Path(os.environ["NNI_SYS_DIR"])
_told: dict[str, Any] = {}
_sequence = 0


def get_next_parameter() -> Any:
    _told.update(json.loads((_directory / "parameter.cfg").read_text()))
    return _told["parameters"]


def get_experiment_id() -> str:
    return os.environ["NNI_EXP_ID"]


def get_trial_id() -> str:
    return os.environ["NNI_TRIAL_JOB_ID"]


def get_sequence_id() -> int:
    return int(os.environ["NNI_TRIAL_SEQ_ID"])


def report_intermediate_result(metric: Any) -> None:
    global _sequence
    _report("PERIODICAL", _sequence, metric)
    _sequence += 1


def report_final_result(metric: Any) -> None:
    _report("FINAL", 0, metric)


def _report(kind: str, sequence: int, metric: Any) -> None:
    assert _told, "get_next_parameter comes first"
    told = {
        "parameter_id": _told["parameter_id"], "trial_job_id": get_trial_id(), "type": kind, "sequence": sequence,
        "value": json.dumps(metric),
    }  # fmt: skip
    line = json.dumps(told).encode() + b"\n"
    (_directory / ".nni").mkdir(exist_ok=True)
    with (_directory / ".nni" / "metrics").open("ab", buffering=0) as file:
        file.write(b"ME%06d%b" % (len(line), line))
