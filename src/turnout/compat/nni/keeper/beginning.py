"""Before a trial is started: its run is asked for until the hub gives it to us, or says that there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass

from turnout.compat.nni.keeper.bell import Bell
from turnout.compat.nni.keeper.echo import say
from turnout.compat.nni.keeper.talking import Hub, Refused
from turnout.compat.nni.keeper.telling import fact
from turnout.errors import InvalidInput
from turnout.wire import frames
from turnout.wire.http import Unreachable
from turnout.wire.messages import Attempt, Chunk, Grant, JobOrder, Orders

#: What a shell says of a command that cannot be executed.
_NOT_EXECUTED = 126
_RETRY_SECONDS = 0.5
_BEGUN, _BEYOND = "track/begun", 1 << 40


class NotBegun(Exception):
    """Nothing is executed here: why, and the `code` to exit with."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True)
class Claimed:
    """It was named to the hub as ours, which renewed its lease of so many seconds for the first time."""

    grant: Grant
    job: JobOrder
    lease: float


class Beginning:
    """For one thread. It waits for `patience` seconds, for a hub that is away as for one that gives the run to nobody
    yet (its search has as many at once as it may): without the hub there are no parameters, and nobody would hear how
    it ended."""

    def __init__(self, hub: Hub, bell: Bell, run: str, patience: float) -> None:
        self._hub, self._bell, self._run, self._patience = hub, bell, run, patience
        self._deadline = time.monotonic() + patience
        self._waits = False
        self._noted: Attempt | None = None

    def claim(self) -> Claimed:
        """Raises NotBegun, with 0 when there is nothing left to do, and InvalidInput when the hub does not take the
        token."""
        lease: float | None = None
        while True:
            try:
                if lease is None:
                    lease = self._greet()
                orders = self._hub.poll([], _RETRY_SECONDS)
                if orders.grants and self._begins(orders.grants):
                    return Claimed(orders.grants[0], _job_of(orders), lease)
                if orders.grants or orders.exit:
                    raise NotBegun(0, f"nothing to do here: {self._run} is over, or somebody else has it")
                self._wait(f"the hub does not give {self._run} to anybody now; `turnout why {self._run}` tells", 0.0)
            except Unreachable as error:
                self._wait(f"the hub does not answer: {error}", _RETRY_SECONDS)
            except Refused as error:  # it wants another hello
                lease = None
                self._wait(f"the hub refuses: {error}", _RETRY_SECONDS)

    def _greet(self) -> float:
        try:
            return self._hub.hello([]).lease
        except Refused as error:
            hint = "each attempt of a run has its own: `turnout trialkeeper --print-token RUN`"
            raise InvalidInput(f"the hub does not take this token: {error}", hint=hint) from error

    def _begins(self, grants: list[Grant]) -> bool:
        """Whether the first of these may be executed; the others go back.

        A platform may start the same keeper twice. What was begun is noted with the hub, as a stream of the attempt:
        how long that is there is asked for by a piece that lies beyond its end, and is not taken. A note that we sent
        and got no answer to is ours.
        """
        grant, *others = grants
        attempt = grant.run, grant.attempt
        facts = [fact(each, "returned", {}) for each in others]
        facts.append(fact(grant, "staged", {"files": 0, "bytes": 0}))
        asked = Chunk(*attempt, _BEGUN, _BEYOND, 1)
        answer = self._hub.report([(each.run, each.attempt) for each in grants], facts, [(asked, b"?")])
        if attempt in answer.fenced or (answer.acks.get(asked.key, 0) and attempt != self._noted):
            return False
        note = frames.encode(0, b"{}")
        self._noted = attempt
        answer = self._hub.report([attempt], [], [(Chunk(*attempt, _BEGUN, 0, len(note)), note)])
        return attempt not in answer.fenced

    def _wait(self, why: str, seconds: float) -> None:
        if self._bell.signals:
            raise NotBegun(128 + self._bell.signals[0], f"{self._run} was ended before it began")
        if time.monotonic() > self._deadline:
            raise NotBegun(_NOT_EXECUTED, f"{why}. After {self._patience:g} s the command was given up, not executed")
        if not self._waits:
            say(f"{why}; waiting for up to {self._patience:g} s")
        self._waits = True
        self._bell.wait(seconds)


def _job_of(orders: Orders) -> JobOrder:
    return next(job for job in orders.jobs if job.job == orders.grants[0].order)
