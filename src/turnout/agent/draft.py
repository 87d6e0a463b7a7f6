"""One report: what of all there is to tell goes into it."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

from turnout.agent.attempt import Attempt, Phase, Ref
from turnout.agent.log import say_error
from turnout.agent.spool import PIECE
from turnout.wire import messages
from turnout.wire.messages import Chunk, Fact, Poll, Report

TAIL_SECONDS = 0.1  # how late output of a running command may leave this node
_TAIL_EACH = 0.0005  # and with very many of them, so much later for each
_REPORT_BYTES = 2 * PIECE


class Told(NamedTuple):
    """What the report says of an attempt: so many of its facts, and whether its result."""

    attempt: Attempt
    facts: int
    result: bool


class Draft:
    """Written by `write`. Everything of it is told again if no answer comes."""

    def __init__(self) -> None:
        self.told: List[Told] = []
        self.first_unserved: Optional[Ref] = None
        """the attempt to begin with the next time: this one's streams had no room"""
        self._facts: List[Fact] = []
        self._chunks: List[Chunk] = []
        self._payloads: List[bytes] = []
        self._room = _REPORT_BYTES

    def write(self, attempts: List[Attempt], now: float, *, only_one: bool) -> None:
        """Takes what these have to tell, in this order. `only_one`: of the first that has anything."""
        tail = max(TAIL_SECONDS, _TAIL_EACH * len(attempts))
        for attempt in attempts:
            is_result_due = self._take_streams(attempt, now, tail)
            if not (attempt.facts or is_result_due):
                if only_one and self._chunks:
                    self.told.append(Told(attempt, 0, False))
                    return
                continue
            self._facts.extend(attempt.facts)
            if is_result_due:
                self._facts.append(attempt.result_fact())
            self.told.append(Told(attempt, len(attempt.facts), is_result_due))
            if only_one:
                return

    @property
    def is_empty(self) -> bool:
        return not (self._facts or self._chunks)

    def pack(self, poll: Poll) -> bytes:
        """The whole report. Once only: the pieces are let go of, the report holds them."""
        body = messages.pack_report(Report(self._facts, self._chunks, poll), self._payloads)
        self._payloads = []
        return body

    def _take_streams(self, attempt: Attempt, now: float, tail: float) -> bool:
        """Whether its result may go with this report: all it refers to is in here or with the hub."""
        if attempt.phase < Phase.RUNNING or now < attempt.look_at or not (attempt.began or attempt.result):
            return False
        if self._room < PIECE:
            self.first_unserved = self.first_unserved or attempt.ref
            return False
        attempt.look_at = now + tail
        try:
            for chunk, content in attempt.streams.pieces(self._room):
                self._chunks.append(chunk)
                self._payloads.append(content)
                self._room -= len(content)
                if len(content) == PIECE:
                    attempt.look_at = 0.0  # there is more
            return attempt.result is not None and attempt.streams.is_all_offered()
        except OSError:
            say_error(f"{attempt.key}: its output could not be read")
            return False
