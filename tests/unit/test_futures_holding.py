"""Engines that keep calls until a worker is free: none is lost, made twice, or waited for in vain."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from turnout import EngineLost, Executor
from turnout.errors import Conflict
from turnout.futures import shelf
from turnout.futures.calling import call_packed
from turnout.futures.engine import Needs
from turnout.futures.holding import Holding
from turnout.futures.remote import Message
from turnout.futures.shelf import Shelf, Shelved


class Clerk(Holding):
    """Makes calls when it is told to."""

    def __init__(self, workers: int | None = 1) -> None:
        super().__init__(Needs())
        self.count = workers
        self.given: list[Message] = []
        self.refuses = False

    @property
    def workers(self) -> int | None:
        return self.count

    def open(self) -> None: ...

    def close(self) -> None: ...

    def scale(self, workers: int) -> None:
        self.count = workers
        self.fill()

    def hand_on(self, message: Message) -> None:
        if self.refuses:
            raise EngineLost("gone")
        self.given.append(message)

    def take_back(self, message: Message) -> bool:
        if message in self.given:
            self.given.remove(message)
        return True

    def make(self, seconds: float = 1.0) -> None:
        """The eldest of those that were given."""
        message = self.given.pop(0)
        ended, data, buffers, _ = pickle.loads(call_packed(message.packed()))
        self.ended(message, (ended, data, buffers, seconds))


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


@pytest.fixture
def pool(clerk: Clerk) -> Iterator[Executor]:
    made = Executor(clerk, workers=1)
    yield made
    made.stop()


def test_a_worker_gets_one_long_call_after_the_other(clerk: Clerk, pool: Executor) -> None:
    calls = [pool.submit(abs, -each) for each in range(5)]
    for each in calls:
        assert len(clerk.given) == 1
        clerk.make()
        assert each.done()
    assert [each.result() for each in calls] == list(range(5))


def test_short_ones_go_ahead(clerk: Clerk, pool: Executor) -> None:
    calls = [pool.submit(abs, -each) for each in range(1000)]
    clerk.make(seconds=0.001)
    assert 10 < len(clerk.given) < 200
    while clerk.given:
        clerk.make(seconds=0.001)
    assert [each.result() for each in calls] == list(range(1000))


def test_one_that_waits_is_never_given(clerk: Clerk, pool: Executor) -> None:
    first, never, last = (pool.submit(abs, -each) for each in range(3))
    assert never.cancel()
    clerk.make()
    clerk.make()
    assert (first.result(), last.result(), clerk.given) == (0, 2, [])


def test_more_workers_get_more(clerk: Clerk, pool: Executor) -> None:
    calls = [pool.submit(abs, -each) for each in range(3)]
    pool.scale(3)
    assert len(clerk.given) == 3
    for _ in calls:
        clerk.make()
    assert all(each.done() for each in calls)


def test_a_refused_call_fails_and_so_do_all_that_wait(clerk: Clerk, pool: Executor) -> None:
    calls = [pool.submit(abs, -each) for each in range(3000)]
    clerk.refuses = True
    clerk.make()
    assert {type(each.exception(0)) for each in calls[1:]} == {EngineLost}


def test_a_long_chain_fails_with_its_first(clerk: Clerk, pool: Executor) -> None:
    chain = [pool.submit(abs, "x")]
    for _ in range(1000):
        chain.append(pool.submit(abs, chain[-1]))
    clerk.make()
    assert {type(each.exception(0)) for each in chain} == {TypeError}


def test_what_is_packed_while_it_is_stopped_is_refused(clerk: Clerk, pool: Executor) -> None:
    amid, go_on = threading.Event(), threading.Event()

    class Slow:
        def __reduce__(self) -> Any:
            amid.set()
            assert go_on.wait(20)
            return int, ()

    refused: list[Exception] = []

    def submit() -> None:
        try:
            pool.submit(abs, Slow())
        except Conflict as error:
            refused.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    assert amid.wait(20)
    pool.stop()
    go_on.set()
    thread.join(20)
    clerk.start()
    clerk.fill()
    assert len(refused) == 1 and clerk.given == []


class TestShelf:
    def test_it_has_only_so_much_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shelf, "_MOST", 250)
        made = Shelf(str(tmp_path))
        put = made.put([pickle.PickleBuffer(bytes(100)) for _ in range(3)])
        assert [isinstance(each, Shelved) for each in put] == [True, True, False]
        made.remove(put)
        assert list(tmp_path.iterdir()) == []
        assert isinstance(made.put([pickle.PickleBuffer(bytes(200))])[0], Shelved)

    def test_who_looks_has_it_to_himself(self, tmp_path: Path) -> None:
        (put,) = Shelf(str(tmp_path)).put([pickle.PickleBuffer(bytearray(b"abc"))])
        mine = put.look()
        mine[0] = 0
        assert bytes(put.take()) == b"abc" and list(tmp_path.iterdir()) == []

    def test_where_nothing_can_be_written_it_goes_another_way(self, tmp_path: Path) -> None:
        buffer = pickle.PickleBuffer(bytes(10))
        assert Shelf(str(tmp_path / "gone")).put([buffer]) == [buffer]


class Bundling(Clerk):
    """Takes up to three short calls at once."""

    most_together = 3

    def __init__(self) -> None:
        super().__init__()
        self.bundles: list[list[Message]] = []

    def hand_on_together(self, messages: Sequence[Message]) -> None:
        self.bundles.append(list(messages))
        self.given += messages


def test_short_calls_go_together_once_they_are_known_to_be_short() -> None:
    engine = Bundling()
    with Executor(engine) as executor:
        made = [executor.submit(abs, -number) for number in range(8)]
        assert len(engine.given) == 1 and not engine.bundles, "nobody knows yet how long they take"
        engine.make(seconds=0.0001)
        assert [len(each) for each in engine.bundles] == [3, 3]
        while engine.given:
            engine.make(seconds=0.0001)
        assert [each.result(5) for each in made] == list(range(8))


@pytest.mark.parametrize("terms", [{"retries": 0}, {"timeout": 60.0}])
def test_what_must_not_be_made_again_goes_alone(terms: dict[str, Any]) -> None:
    engine = Bundling()
    with Executor(engine) as executor:
        made = [executor.options(**terms).submit(abs, -number) for number in range(5)]
        while engine.given:
            engine.make(seconds=0.0001)
        assert [each.result(5) for each in made] == list(range(5)) and not engine.bundles


def test_of_calls_that_died_together_each_is_made_again_alone() -> None:
    engine = Bundling()
    with Executor(engine) as executor:
        made = [executor.submit(abs, -number) for number in range(4)]
        engine.make(seconds=0.0001)
        (bundle,) = engine.bundles
        engine.given.clear()
        made[1].cancel()
        engine.part(bundle)
        assert engine.given == bundle[1:] and len(engine.bundles) == 1, "but for the one that nobody wants any more"
        while engine.given:
            engine.make(seconds=0.0001)
        assert [each.result(5) for each in made if not each.cancelled()] == [0, 2, 3]
