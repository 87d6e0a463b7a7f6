"""A keeper's conversation with the hub: that of an agent which has one run. Every request may be repeated."""

from __future__ import annotations

import itertools
import os
import platform
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from turnout import __version__
from turnout.compat.nni.keeper.tickets import Order
from turnout.wire import messages
from turnout.wire.http import Answer, Connection, Unreachable
from turnout.wire.messages import Attempt, Chunk, Fact, Hello, NodeFacts, Orders, Poll, Report, Welcome
from turnout.wire.protocol import PROTOCOL

DENIED, CONFLICT = (401, 403), 409
#: Nobody knows what the platform gave the trial: whatever it needs.
_MEMORY = 1 << 60
_RETRY_SECONDS = 1.0


class Refused(Exception):
    """The hub answered, and said no; see `DENIED` and `CONFLICT` (it wants a hello first) for `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Hub:
    """One connection, for one thread. Requests raise Unreachable or Refused."""

    def __init__(self, order: Order, numbers: Iterator[int] | None = None) -> None:
        self._order = order
        self._connection = Connection(order["address"], order["token"], timeout=30.0)
        self._numbers = numbers or itertools.count(time.time_ns())

    def beside(self) -> Hub:
        """Another connection, for another thread."""
        return Hub(self._order, self._numbers)

    def hello(self, held: Sequence[Attempt]) -> Welcome:
        is_fixed = bool(held)  # else whoever started it may start a newer one for this trial
        message = Hello(PROTOCOL, __version__, _facts(), list(held), next(self._numbers), is_fixed)
        return messages.load_welcome(self._ask("/wire/hello", messages.dump(message)))

    def poll(self, held: Sequence[Attempt], wait: float) -> Orders:
        """One that holds nothing asks for its run."""
        body = messages.dump(self._poll(held, wait))
        return messages.load_orders(self._ask("/wire/poll", body, timeout=wait + 20.0))

    def report(self, held: Sequence[Attempt], facts: list[Fact], pieces: list[tuple[Chunk, bytes]]) -> Orders:
        message = Report(facts, [chunk for chunk, _ in pieces], self._poll(held, 0.0))
        body = messages.pack_report(message, [content for _, content in pieces])
        return messages.load_orders(self._ask("/wire/report", body, timeout=60.0))

    def _poll(self, held: Sequence[Attempt], wait: float) -> Poll:
        given = self._order.get("given") or {}
        room = 0.0 if held else float(given.get("cpus") or 1)
        return Poll(
            slots=room, memory=_MEMORY, gpus=given.get("gpus") or 0, held=list(held), jobs=[], wait=wait,
            number=next(self._numbers), protocol=PROTOCOL,
        )  # fmt: skip

    def _ask(self, path: str, body: bytes, timeout: float = 30.0) -> bytes:
        answer: Answer = self._connection.request("POST", path, body, timeout=timeout)
        content = answer.read()
        if answer.status == 200:
            return content
        text = content.decode("utf-8", "replace")[:300]
        if answer.status >= 500 or answer.status == 429:
            raise Unreachable(f"the hub is in trouble: {text}")
        raise Refused(answer.status, text)


class Listener:
    """Waits at the hub for orders, in a thread of its own, and so keeps the run's lease. What comes is in `news`:
    Orders, or the Refused that it got; `wake` is called then."""

    def __init__(self, hub: Hub, held: Attempt, wait: float, wake: Callable[[], None]) -> None:
        self.news: queue.SimpleQueue[Orders | Refused] = queue.SimpleQueue()
        self._hub, self._held, self._wait, self._wake = hub, held, wait, wake
        threading.Thread(target=self._run, name="listener", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                found: Orders | Refused = self._hub.poll([self._held], self._wait)
            except Refused as error:
                found = error
            except (Unreachable, ValueError, KeyError, TypeError):
                time.sleep(_RETRY_SECONDS)
                continue
            self.news.put(found)
            self._wake()
            if isinstance(found, Refused):
                time.sleep(_RETRY_SECONDS)


def _facts() -> NodeFacts:
    return NodeFacts(
        host=socket.gethostname(), cpus=os.cpu_count() or 1, memory=_MEMORY, gpus=[], boot_id="", pid=os.getpid(),
        python=platform.python_version(), cwd=os.getcwd(),
    )  # fmt: skip
