"""A worker, told what an executor may tell it at the worst moments."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.harness import wait_until
from turnout.futures.local.frames import CALL, CALLS, DROP, DROPPED, FUNCTION, LEARN, PLACE, RESULTS, frame
from turnout.futures.local.inbox import Inbox, results
from turnout.futures.local.worker import Worker
from turnout.futures.packing import unpack

pytestmark = pytest.mark.timeout(30)


class Talk:
    """Our end of the lines to a worker in a thread. Its function is `abs`."""

    def __init__(self) -> None:
        self.line, self._theirs = socket.socketpair()
        self._taken, self._tokens = os.pipe()
        os.set_blocking(self._taken, False)
        self._thread = threading.Thread(target=self._run)
        self._found: dict[int, int] = {}
        self.line.setblocking(False)
        self._inbox = Inbox(self.line)
        self.line.sendall(frame(LEARN, [FUNCTION.pack(1), pickle.dumps(abs)]))

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(EOFError):
            Worker(self._theirs.fileno(), self._taken, mmap.mmap(-1, PLACE.size), 4).run()

    def put_tokens(self, epoch: int, count: int) -> None:
        os.write(self._tokens, bytes([epoch]) * count)

    def send_calls(self, *numbers: int) -> None:
        """Each with its own number, less than zero."""
        given = [(number, pickle.dumps(((-number,), {}))) for number in numbers]
        self.line.sendall(frame(CALLS, [CALL.pack(number, 1, len(args), 0) + args for number, args in given]))

    def send_drop(self, count: int, epoch: int) -> None:
        self.line.sendall(frame(DROP, [DROPPED.pack(count, epoch)]))

    def is_drained(self) -> bool:
        """Whether it has drawn all tokens."""
        return not select.select([self._taken], [], [], 0)[0]

    def results(self) -> dict[int, int]:
        """All so far, by the numbers of calls."""
        for heard in self._inbox.take():
            if heard.kind == RESULTS:
                self._found.update({each.number: unpack(each.ended, each.data, ()) for each in results(heard.body)})
        return self._found

    def close(self) -> None:
        self.line.shutdown(socket.SHUT_WR)
        self._thread.join(10)
        is_over = not self._thread.is_alive()
        self.line.close()
        self._theirs.close()
        os.close(self._taken)
        os.close(self._tokens)
        assert is_over


@pytest.fixture
def talk() -> Iterator[Talk]:
    made = Talk()
    yield made
    made.close()


def test_calls_are_made_in_their_order_with_a_token_each(talk: Talk) -> None:
    talk.put_tokens(0, 2)
    talk.send_calls(5, 6, 7)
    talk.start()
    wait_until(lambda: len(talk.results()) == 2)
    assert talk.results() == {5: 5, 6: 6}
    talk.put_tokens(0, 1)
    talk.send_drop(0, 0)  # whatever it hears, it looks again
    wait_until(lambda: talk.results().get(7) == 7)


def test_a_call_that_was_taken_back_is_not_made(talk: Talk) -> None:
    talk.put_tokens(0, 1)
    talk.send_calls(1, 2, 3)
    talk.send_drop(2, 1)
    talk.put_tokens(1, 1)
    talk.send_calls(4)
    talk.start()
    wait_until(lambda: 4 in talk.results())
    assert talk.results() == {1: 1, 4: 4}


def test_a_token_may_come_before_its_call(talk: Talk) -> None:
    """It is drawn for a call that turns out to be taken back; the one that it was meant for is still on its way."""
    talk.put_tokens(0, 1)
    talk.put_tokens(1, 1)
    talk.send_calls(1, 2)
    talk.send_drop(1, 1)
    talk.start()
    wait_until(talk.is_drained)
    talk.send_calls(3)
    wait_until(lambda: 3 in talk.results())
    assert talk.results() == {1: 1, 3: 3}


def test_results_of_short_calls_wait_for_no_more_than_the_next_silence(talk: Talk) -> None:
    talk.put_tokens(0, 200)
    talk.send_calls(*range(1, 201))
    talk.start()
    wait_until(lambda: len(talk.results()) == 200)
    assert talk.results() == {number: number for number in range(1, 201)}
