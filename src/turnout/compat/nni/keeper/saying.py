"""What NNI's own TrialKeeper says to its manager: one line of output at a time, without a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.compat.nni.keeper.printed import Printed, record
from turnout.errors import InvalidInput

#: Its own lines, of which one tells how the trial ended: "… Exit code is 0. Quit", or that it gave up itself.
_KEEPER, _TRIAL = "trial_keeper", "trial"
_END = re.compile(r"(?:Exit code is|[Ww]ith code) (-?[0-9]{1,9})", re.ASCII)
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Said:
    """What of it concerns the run: bytes of `output`, `metrics` as in the file of NNI's library, and how it ended: an
    exit code, below 0 the signal that killed it."""

    output: bytes = b""
    metrics: bytes = b""
    code: int | None = None
    message: str = ""


def version(told: Mapping[str, Any]) -> Said:
    """Whether its version is its manager's. There is no manager here, so that the answer means nothing."""
    if told.get("tag") not in ("VCSuccess", "VCFail"):
        raise InvalidInput(f"tag {told.get('tag')!r}", hint="VCSuccess or VCFail")
    return Said()


def line(told: Mapping[str, Any]) -> Said:
    """A line that the trial printed, or the keeper itself: of those, how the trial ended is heard."""
    tag, text = told.get("tag"), told.get("msg")
    if tag not in (_KEEPER, _TRIAL) or not isinstance(text, str):
        raise InvalidInput(f"a line of {tag!r}", hint=f"tag is {_TRIAL} or {_KEEPER}, msg the line")
    if len(text) > _LONGEST_LINE:
        raise InvalidInput(f"a line may have at most {_LONGEST_LINE} characters", hint="break it")
    if tag == _KEEPER:
        found = _END.search(text)
        return Said() if found is None else Said(code=int(found[1]), message=text)
    printed = text.encode(errors="replace") + b"\n"
    found_metrics = Printed().take(printed)
    return Said(metrics=found_metrics) if found_metrics else Said(output=printed)


def metrics(told: Mapping[str, Any]) -> Said:
    """Metrics that did not come among its lines."""
    given = told.get("metrics")
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise InvalidInput("metrics is a list of texts", hint="each as the trial's library says it")
    return Said(metrics=b"".join(record(each.strip().encode(errors="replace")) for each in given))
