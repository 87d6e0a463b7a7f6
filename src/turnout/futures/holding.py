"""What engines share that keep calls here until a worker is free for them."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

from turnout.futures.calling import Outcome
from turnout.futures.engine import Needs
from turnout.futures.remote import Message, Remote

_AHEAD = 0.05  # seconds of work that each worker is sent beyond the call it is at
_MOST_AHEAD = 100  # calls
_SHORT = 0.001  # seconds; calls that take less on average may go together


class Holding(Remote):
    """So that they can be taken back, and more workers have something to do. Short calls go ahead, as many as take a
    moment together. A subclass has `workers`, `hand_on` and `take_back` in place of `send` and `recall`; one whose
    library has much to do for each call has `hand_on_together`, too, and says how many that may be."""

    most_together: ClassVar[int] = 1

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self._gate = threading.RLock()
        self._held: OrderedDict[Message, None] = OrderedDict()
        self._out: set[Message] = set()
        self._alone: set[Message] = set()
        self._pace: float | None = None

    @property
    @abstractmethod
    def workers(self) -> int | None:
        """How many there are; None = others see to them, and nothing is kept here."""

    @abstractmethod
    def hand_on(self, message: Message) -> None:
        """As `send`."""

    def hand_on_together(self, messages: Sequence[Message]) -> None:
        """As `hand_on` of each. If the process dies that makes them, `part` is to be called."""
        raise NotImplementedError

    @abstractmethod
    def take_back(self, message: Message) -> bool:
        """As `recall`, of one that was handed on; False when `free` will be called for it later."""

    def start(self) -> None:
        self._held.clear()
        self._out.clear()
        self._alone.clear()
        super().start()

    def send(self, message: Message) -> None:
        with self._gate:
            self._held[message] = None
        self.fill()

    def recall(self, message: Message) -> None:
        with self._gate:
            if message in self._held:
                del self._held[message]
                return
        if self.take_back(message):
            self.free(message)

    def fill(self) -> None:
        """Hands on what there is room for."""
        while True:
            with self._gate:
                if not self._is_on or not self._held or not self._has_room():
                    return
                messages = self._next()
                self._out.update(messages)
            try:
                self.hand_on(messages[0]) if len(messages) == 1 else self.hand_on_together(messages)
            except BaseException as error:
                with self._gate:
                    self._out.difference_update(messages)
                for message in messages:
                    super().lost(message, error)
            for message in messages:
                if message not in self._tasks and self.take_back(message):  # it ended, or was cancelled meanwhile
                    with self._gate:
                        self._out.discard(message)

    def part(self, messages: Sequence[Message]) -> None:
        """The process died that had these together. Nobody knows which of them it was: each is made again, alone."""
        self._alone.update(messages)
        for message in messages:
            self.free(message)
            if message in self._tasks:
                self.send(message)

    def free(self, message: Message, seconds: float | None = None) -> None:
        """No worker has to do with it any more; how long it took. Idempotent."""
        with self._gate:
            self._out.discard(message)
            if seconds is not None:
                self._pace = seconds if self._pace is None else self._pace + 0.1 * (seconds - self._pace)
        self.fill()

    def ended(self, message: Message, outcome: Outcome) -> None:
        self._alone.discard(message)
        self.free(message, outcome[3])
        super().ended(message, outcome)

    def lost(self, message: Message, error: BaseException) -> None:
        self._alone.discard(message)
        self.free(message)
        super().lost(message, error)

    def drop_waiting(self) -> None:
        with self._gate:
            self._held.clear()
        super().drop_waiting()

    def lose_all(self, error: Exception) -> None:
        with self._gate:
            self._held.clear()
        super().lose_all(error)

    def _next(self) -> list[Message]:
        """What is handed on next: one call, or several that are short and may be made again."""
        found = [self._held.popitem(last=False)[0]]
        if self.most_together == 1 or self._pace is None or self._pace > _SHORT or not self._may_go_along(found[0]):
            return found
        while self._held and len(found) < self.most_together and self._may_go_along(next(iter(self._held))):
            found.append(self._held.popitem(last=False)[0])
        return found

    def _may_go_along(self, message: Message) -> bool:
        task = self._tasks.get(message)
        is_simple = not message.buffers and message.seconds is None and message not in self._alone
        return is_simple and task is not None and task.terms.retries > 0

    def _has_room(self) -> bool:
        workers = self.workers
        if workers is None:
            return True
        ahead = 0 if self._pace is None else min(_MOST_AHEAD, int(_AHEAD / max(self._pace, 1e-6)))
        return len(self._out) < workers * (1 + ahead)
