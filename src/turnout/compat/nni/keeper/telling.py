"""What the hub knows of a trial, and is still to know: told until it is answered."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from turnout.compat.nni.keeper.streams import Streams
from turnout.compat.nni.keeper.talking import CONFLICT, DENIED, Hub, Refused
from turnout.wire.http import Unreachable
from turnout.wire.messages import Chunk, Fact, Grant, Orders

_RETRY_SECONDS = 0.5
_TRIES = 3


def fact(grant: Grant, kind: str, body: dict[str, Any]) -> Fact:
    return Fact(grant.run, grant.attempt, kind, time.time(), body)


@dataclass
class Told:
    """For one thread. `facts` are those that were not answered yet."""

    hub: Hub
    grant: Grant
    streams: Streams
    must_greet: bool = False
    facts: list[Fact] = field(default_factory=list)
    is_over: bool = False
    """the hub has all, or does not want it any more"""
    is_wanted: bool = True
    heard: float = field(default_factory=time.monotonic)
    _next: float = 0.0
    _refusals: int = 0
    _sealed: tuple[int, str | None] | None = None

    @property
    def attempt(self) -> tuple[int, int]:
        return self.grant.run, self.grant.attempt

    def seconds_left(self) -> float:
        """Until there may be something to tell again."""
        return 0.0 if self.is_over else max(0.0, self._next - time.monotonic())

    def end(self, body: dict[str, Any]) -> None:
        """It is over: what is in its files now is all."""
        self.facts.append(fact(self.grant, "ended", body))
        self._sealed = self.streams.seal()
        self._next = 0.0

    def tell(self) -> None:
        """One report of what is new, if it is time for one. Whatever becomes of it, nothing is lost."""
        if time.monotonic() < self._next or self.is_over:
            return
        try:
            if self.must_greet:
                self._hear_fences(self.hub.hello([self.attempt]).fenced)
                self.must_greet = False
            self._report()
        except Unreachable:
            self._put_off()
        except Refused as error:
            self.refused(error)
            self._put_off()

    def refused(self, error: Refused) -> None:
        self.must_greet = self.must_greet or error.status == CONFLICT
        if error.status in DENIED:
            self._let_go()

    def take(self, orders: Orders) -> list[str]:
        """Why it is to end, if the hub says so."""
        self.heard = time.monotonic()
        self._hear_fences(orders.fenced)
        return [stop.cause for stop in orders.stops if (stop.run, stop.attempt) == self.attempt]

    def _report(self) -> None:
        pieces = [
            (Chunk(*self.attempt, name, offset, len(content)), content)
            for name, offset, content in self.streams.pieces()
        ]  # fmt: skip
        facts = list(self.facts)
        is_last = self._sealed is not None and self.streams.is_all_offered()
        if is_last:
            facts.append(self._captured())
        if not facts and not pieces:
            return
        orders = self.hub.report([self.attempt], facts, pieces)
        prefix = f"{self.attempt[0]}.{self.attempt[1]}/"
        acks = {key[len(prefix) :]: have for key, have in orders.acks.items() if key.startswith(prefix)}
        self.streams.acknowledge(acks)
        self.facts = []
        self.take(orders)
        if is_last and f"{prefix}captured" not in orders.refused:
            self.is_over = True
        elif is_last:
            self._refusals += 1
            self._put_off()

    def _captured(self) -> Fact:
        """With what the hub has as the output, if it cannot be brought to have what is here: the trial changed it."""
        assert self._sealed is not None
        size, sha256 = self._sealed if self._refusals < _TRIES else (self.streams.taken(), None)
        body = {"files": 0, "bytes": 0, "output_bytes": size, "output_sha256": sha256}
        return fact(self.grant, "captured", body)

    def _hear_fences(self, fenced: list[tuple[int, int]]) -> None:
        if self.attempt in fenced:
            self._let_go()

    def _let_go(self) -> None:
        self.is_over, self.is_wanted = True, False

    def _put_off(self) -> None:
        self.streams.acknowledge({})
        self._next = time.monotonic() + _RETRY_SECONDS
