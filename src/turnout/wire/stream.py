"""How a growing byte stream crosses an unreliable link exactly once.

The sender knows how much the hub has on disk and sends what lies behind; the receiver takes a piece only where it
continues what it has. Pieces may be lost, repeated, cut and reordered; the receiver's copy is always a prefix of the
sender's.
"""

from __future__ import annotations

from typing import Optional


def fresh_part(have: int, offset: int, size: int) -> Optional[int]:
    """Where in a piece of `size` bytes from `offset` the part begins that a receiver with `have` bytes lacks.

    `size` itself when it has all of it; None when the piece lies beyond a gap and must be refused.
    """
    if offset > have:
        return None
    return min(have - offset, size)


class Outgoing:
    """The sender's side of one stream. `acked` only grows; `piece` offers what lies behind what was sent."""

    __slots__ = ("acked", "sent")

    def __init__(self, acked: int = 0) -> None:
        self.acked = acked
        self.sent = acked

    def piece(self, available: int, most: int) -> "tuple[int, int]":
        """The next (offset, size) to send of a stream that is `available` bytes long; size 0: nothing is new."""
        size = max(0, min(available - self.sent, most))
        return self.sent, size

    def mark_sent(self, offset: int, size: int) -> None:
        self.sent = max(self.sent, offset + size)

    def ack(self, have: int) -> None:
        """The hub has `have` bytes on disk."""
        self.acked = max(self.acked, have)
        self.sent = max(self.sent, self.acked)

    def rewind(self) -> None:
        """Nobody knows what became of what was sent: begin again behind what was acknowledged."""
        self.sent = self.acked
