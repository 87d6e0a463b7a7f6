"""The states of a run, why it left them, and which steps exist."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    CREATED = "created"  # written down, not yet in the queue (held)
    QUEUED = "queued"  # waits for a node
    STARTING = "starting"  # a node accepted it and prepares its directory
    RUNNING = "running"  # the command executes (a parent: its children do)
    FINISHING = "finishing"  # the command ended, its files are being captured
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"  # by a person
    STOPPED = "stopped"  # by a stopper


class Reason(StrEnum):
    """Why a run ended, or went back to the queue."""

    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OOM = "oom"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    REJECTED = "rejected"
    NO_CAPACITY = "no_capacity"
    DEPENDENCY = "dependency"
    PRUNED = "pruned"
    USER = "user"
    BUDGET = "budget"
    INFRA = "infra"
    NO_OUTPUT = "no_output"
    CONDITION = "condition"
    UNMADE = "unmade"


TERMINAL = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.STOPPED})
ON_NODE = frozenset({RunState.STARTING, RunState.RUNNING, RunState.FINISHING})
LIVE = frozenset(RunState) - TERMINAL
#: What people ask for together: what waits, what goes on, what is over.
STAGES = {
    "queued": (RunState.CREATED, RunState.QUEUED),
    "active": (RunState.STARTING, RunState.RUNNING, RunState.FINISHING),
    "completed": (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.STOPPED),
}

#: Every step a run may take. A terminal state has none: it is written once. From running to starting goes only a
#: parent, when its script has to run on one more node, and back to running when that failed while it has children.
STEPS: dict[RunState, frozenset[RunState]] = {
    RunState.CREATED: frozenset({RunState.QUEUED, RunState.CANCELLED, RunState.FAILED}),
    RunState.QUEUED: frozenset({RunState.STARTING, RunState.RUNNING, *TERMINAL}),
    RunState.STARTING: frozenset({RunState.RUNNING, RunState.FINISHING, RunState.QUEUED, *TERMINAL}),
    RunState.RUNNING: frozenset({RunState.FINISHING, RunState.QUEUED, RunState.STARTING, *TERMINAL}),
    RunState.FINISHING: frozenset({RunState.QUEUED, RunState.RUNNING, *TERMINAL}),
    RunState.COMPLETED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
    RunState.STOPPED: frozenset(),
}
