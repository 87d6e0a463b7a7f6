"""What engines share whose library does not make a call again by itself when the process that made it died."""

from __future__ import annotations

from turnout.futures.calling import Outcome
from turnout.futures.engine import Needs
from turnout.futures.errors import WorkerDied
from turnout.futures.remote import Message, Remote


class Resending(Remote):
    """A subclass calls `died` in place of `lost` for each process that a call has cost."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self._deaths: dict[Message, int] = {}

    def retries(self, message: Message) -> int:
        """How often it may be made again; 0 of one that nobody wants any more."""
        task = self._tasks.get(message)
        return 0 if task is None else task.terms.retries

    def died(self, message: Message, how: str) -> None:
        """Sends it again, or tells its task that it will not be made."""
        deaths = self._deaths.get(message, 0) + 1
        if deaths <= self.retries(message):
            self._deaths[message] = deaths
            try:
                self.send(message)
            except BaseException as error:
                self.lost(message, error)
        else:
            before = f", as did {deaths - 1} before it" if deaths > 1 else ""
            self.lost(message, WorkerDied(f"the process that made the call died{before}: {how}"))

    def ended(self, message: Message, outcome: Outcome) -> None:
        self._deaths.pop(message, None)
        super().ended(message, outcome)

    def lost(self, message: Message, error: BaseException) -> None:
        self._deaths.pop(message, None)
        super().lost(message, error)
