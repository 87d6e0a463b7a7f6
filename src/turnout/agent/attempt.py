"""One attempt on this node, from grant to the hub's last acknowledgement."""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Any, Dict, List, Optional, Tuple

from turnout.agent.container_command import Runtime
from turnout.agent.rundir import RunDir
from turnout.agent.streams import Streams
from turnout.agent.tree import ProcessId
from turnout.wire.messages import Fact, Grant

Ref = Tuple[int, int]


class Phase(IntEnum):
    STAGING = 1  # its directory is being filled
    READY = 2  # may be started once confirmed and a slot is free
    STARTED = 3  # the launcher was asked
    RUNNING = 4
    ENDED = 5  # over; its files are being captured
    CAPTURED = 6  # all is known; being told
    OVER = 7  # fenced, or told: nothing of it counts any more


class Attempt:
    """What is known of one attempt; for the main thread alone.

    confirmed     a request that named it was answered and did not fence it: its lease was renewed once, it may start
    began         a supervisor was asked for it, by this agent or an earlier one
    carried       a carrier is at work in its directory
    is_clean      its supervisor says that nothing of it is alive
    is_bare       its directory holds no files but ours
    env           names of directories that were put in place for it
    runtime       who executes it, if that is in a container
    result        the body of its last fact, until that was told
    look_at       when its streams are looked at next
    """

    def __init__(self, grant: Grant, after: List[str], directory: RunDir) -> None:
        self.grant = grant
        self.after = after
        self.directory = directory
        self.streams = Streams(grant.run, grant.attempt, directory)
        self.ref: Ref = (grant.run, grant.attempt)
        self.key = f"{grant.run}.{grant.attempt}"
        self.phase = Phase.STAGING
        self.confirmed = False
        self.granted = time.monotonic()
        self.starts = 0
        self.began = False
        self.carried = False
        self.is_fenced = False
        self.is_given_up = False
        self.is_clean = False
        self.is_bare = False
        self.gpus: List[str] = []
        self.env: Dict[str, str] = {}
        self.runtime: Optional[Runtime] = None
        self.supervisor: Optional[ProcessId] = None
        self.pidfd: Optional[int] = None
        self.stop_cause: Optional[str] = None
        self.facts: List[Fact] = []
        self.result: Optional[Dict[str, Any]] = None
        self.refusals = 0
        self.look_at = 0.0

    @property
    def uses_slot(self) -> bool:
        return self.phase in (Phase.STARTED, Phase.RUNNING)

    def result_fact(self) -> Fact:
        """Its last fact: all it left behind is with the hub."""
        lost = self.streams.problems()
        body = dict(self.result or {})
        if lost:
            body["problems"] = [*body.get("problems", ()), *lost]
        return Fact(self.grant.run, self.grant.attempt, "captured", time.time(), body)

    def add_fact(self, kind: str, body: Dict[str, Any]) -> None:
        self.facts.append(Fact(self.grant.run, self.grant.attempt, kind, time.time(), body))
