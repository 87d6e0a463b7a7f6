"""The thread that waits at the hub for orders."""

from __future__ import annotations

import threading
import time
from typing import Callable

from turnout.agent.carrier import Mailbox
from turnout.agent.holding import clock
from turnout.agent.hub import HubLine, Refused
from turnout.agent.log import say_error
from turnout.wire.http import Unreachable
from turnout.wire.messages import Orders, Poll

RETRY_LEAST = 0.05
_REPEAT_SECONDS = 0.1
_HAND_OVER_SECONDS = 5.0


class Poller:
    """One long poll after the other, each saying what `ask` says. Orders and troubles go to the main thread."""

    def __init__(
        self, line: HubLine, mailbox: Mailbox, *, ask: Callable[[], Poll],
        take: Callable[[Orders, Poll, float], bool], take_trouble: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        self._line = line
        self._mailbox = mailbox
        self._ask = ask
        self._take = take
        self._take_trouble = take_trouble

    def start(self) -> None:
        threading.Thread(target=self._run, name="poller", daemon=True).start()

    def _run(self) -> None:
        pause = RETRY_LEAST
        while True:
            asked, sent = self._ask(), clock()
            try:
                orders = self._line.poll(asked)
            except Exception as error:
                if not isinstance(error, (Unreachable, Refused)):
                    say_error("a poll failed")
                self._mailbox.post(lambda error=error: self._take_trouble(error))  # type: ignore[misc]
                time.sleep(pause)
                pause = min(pause * 2, self._line.longest_pause)
                continue
            pause = RETRY_LEAST
            self._hand_over(orders, asked, sent)

    def _hand_over(self, orders: Orders, asked: Poll, sent: float) -> None:
        """Waits until they are taken, so that the next poll tells what became of them.

        An answer with orders of which none is new came at once because of what we know and work on already; such are
        not asked for as fast as they come.
        """
        done = threading.Event()
        was_news = True

        def take() -> None:
            nonlocal was_news
            was_news = self._take(orders, asked, sent)
            done.set()

        self._mailbox.post(take)
        done.wait(_HAND_OVER_SECONDS)
        if not was_news and (orders.grants or orders.stops or orders.fenced or orders.exit):
            time.sleep(_REPEAT_SECONDS)
