"""What can be written into a run's history, one line each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class EventName(StrEnum):
    CREATED = "created"  # the run exists
    CAPTURE_BEFORE = "capture_before"  # its files were frozen (logged once on the job, shown in every run)
    QUEUED = "queued"  # it entered the queue
    STARTED = "started"  # a node accepted it
    RESTARTED = "restarted"  # ... and it had been tried before
    DOWNLOAD_BEFORE = "download_before"  # the frozen files lie in the run's directory
    SETUP = "setup"  # what its setup installs is there: made now, or found
    PARENT_SCRIPT = "parent_script"  # the script that runs once per node before the children
    RUNNING = "running"  # the command executes
    HPARAMS = "hparams"  # it told its hyperparameters
    METRICS = "metrics"  # it logged metrics under new names
    TAGS = "tags"  # it, or a person, tagged it
    REFUSED = "refused"  # it recorded more parameters or tags than a run may have; said once for each kind
    PROPOSED = "proposed"  # of a search: there are parameters for further children, or there will be no more
    CHILD_CREATED = "child_created"  # a parent made its next child
    DRAINED = "drained"  # other parents of its job made the last children that were left
    REQUEUED = "requeued"  # back into the queue: a parent with children left, or a lost or retried attempt
    NODE_LOST = "node_lost"  # the node fell silent for longer than its lease
    CANCEL_REQUESTED = "cancel_requested"  # a person asked
    STOP_REQUESTED = "stop_requested"  # a stopper asked
    RESTART_REQUESTED = "restart_requested"  # a person asked that it begins anew, as if its node were taken away
    ENDED = "ended"  # the command is over, with its cause
    CAPTURE_AFTER = "capture_after"  # what it left behind was kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    seq: int
    time: datetime
    event: EventName
    data: dict[str, object] = field(default_factory=dict)
