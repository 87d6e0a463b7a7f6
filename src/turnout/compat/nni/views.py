"""A run as a trial: its status, its details, and what it measured, as NNI tells those."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from turnout.compat.nni.measures import told
from turnout.compat.nni.trials import JobApplicationForm, TrialJobApplicationForm, TrialJobDetail, TrialJobStatus
from turnout.wire.nni import OBJECTIVE

View = dict[str, Any]
#: A tag of a run: the trial's number.
NUMBER = "nni-number"
_STATUSES = {
    "created": TrialJobStatus.WAITING,
    "queued": TrialJobStatus.WAITING,
    "starting": TrialJobStatus.WAITING,
    "running": TrialJobStatus.RUNNING,
    "finishing": TrialJobStatus.RUNNING,
    "completed": TrialJobStatus.SUCCEEDED,
    "failed": TrialJobStatus.FAILED,
    "cancelled": TrialJobStatus.USER_CANCELED,
    "stopped": TrialJobStatus.EARLY_STOPPED,
}
#: Reasons of failures that no trial is to blame for.
_OF_THE_SYSTEM = frozenset({"preempted", "node_lost", "infra"})


def status_of_run(view: View) -> TrialJobStatus:
    """A run that waits again after its node was lost is WAITING again."""
    status = _STATUSES[view["state"]]
    if status is TrialJobStatus.FAILED and view["reason"] in _OF_THE_SYSTEM:
        return TrialJobStatus.SYS_CANCELED
    return status


def detail_of_run(view: View, form: JobApplicationForm, directory: str) -> TrialJobDetail:
    status = status_of_run(view)
    return TrialJobDetail(
        id=view["name"], status=status, submit_time=_milliseconds(view["created"]) or 0,
        start_time=_milliseconds(view["started"]), end_time=_milliseconds(view["ended"]), tags=sorted(view["tags"]),
        url=view.get("monitor_url"), working_directory=directory, form=form,
        sequence_id=int(view["tags"].get(NUMBER, 0)), is_early_stopped=status is TrialJobStatus.EARLY_STOPPED,
    )  # fmt: skip


def form_of_run(view: View) -> TrialJobApplicationForm:
    """As it must have been, for a trial that somebody else submitted."""
    return TrialJobApplicationForm.of(view["params"], number=int(view["tags"].get(NUMBER, 0)))


class Measured:
    """How much of what a run measured was told already. `metric` is the one that NNI calls ``default``."""

    def __init__(self, trial: str, number: int, metric: str) -> None:
        self.is_over = False
        self._trial = trial
        self._number = number
        self._metric = metric
        self._told: dict[str, int] = {}

    def news(self, points: Mapping[str, list[View]], status: TrialJobStatus) -> Iterator[str]:
        """One text for each step that is new; the last values once more as FINAL when the run completed. `is_over` when
        there will be no more; also who asked at the same time, and is answered later, gets nothing then."""
        if self.is_over:
            return
        by_step: dict[int, dict[str, float]] = {}
        for name, series in points.items():
            for point in series[self._told.get(name, 0) :]:
                by_step.setdefault(point["step"], {})[name] = _number(point["value"])
            self._told[name] = max(self._told.get(name, 0), len(series))  # an older answer may come later
        for step in sorted(by_step):
            yield told(self._trial, self._number, "PERIODICAL", step, self._named(by_step[step]))
        if not status.is_final:
            return
        self.is_over = True
        last = {name: _number(series[-1]["value"]) for name, series in points.items() if series}
        if status is TrialJobStatus.SUCCEEDED and last:
            yield told(self._trial, self._number, "FINAL", 0, self._named(last))

    def _named(self, values: dict[str, float]) -> dict[str, float]:
        if self._metric == OBJECTIVE or self._metric not in values:
            return values
        return {OBJECTIVE: values[self._metric], **values}


def _number(value: float | str) -> float:
    """What is not finite comes as text."""
    return float(json.loads(value)) if isinstance(value, str) else value


def _milliseconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp() * 1000
