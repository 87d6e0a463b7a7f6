"""Calls as bytes: what is large goes apart, and futures go as what came of them, however deep they lie."""

from __future__ import annotations

import pickle
import threading
import traceback
from concurrent import futures
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.futures.errors import RemoteTraceback, WorkerDied
from turnout.futures.future import Future
from turnout.futures.packing import LARGE, RAISED, RETURNED, Awaits, make, pack, pack_arguments, unpack


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _unpacked(value: Any, **how: bool) -> Any:
    data, buffers = pack(value, **how)
    return pickle.loads(data, buffers=buffers)


plain = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@st.composite
def nested(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """Something with futures in it, the same without them, and those futures that are not done."""
    missing: list[Any] = []

    def build(depth: int) -> tuple[Any, Any]:
        kind = draw(st.sampled_from(["plain", "done", "missing"] + ["list", "dict", "tuple", "object"] * (depth > 0)))
        if kind == "plain":
            value = draw(plain)
            return value, value
        if kind == "done":
            value = draw(plain)
            return _done(value), value
        if kind == "missing":
            missing.append(Future())
            return missing[-1], None
        pairs = [build(depth - 1) for _ in range(draw(st.integers(0, 3)))]
        given, meant = [each[0] for each in pairs], [each[1] for each in pairs]
        if kind == "list":
            return given, meant
        if kind == "dict":
            return dict(enumerate(given)), dict(enumerate(meant))
        if kind == "tuple":
            return tuple(given), tuple(meant)
        return Holder(given), Holder(meant)

    return *build(3), missing


class Holder:
    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holder) and self.kept == other.kept

    def __hash__(self) -> int:
        return 0


class TestFutures:
    @given(nested())
    def test_however_deep_they_go_as_their_results(self, made: tuple[Any, Any, list[Any]]) -> None:
        given, meant, missing = made
        if missing:
            with pytest.raises(Awaits) as caught:
                pack(given)
            assert set(caught.value.these) == set(missing)
            for each in missing:
                each.set_result(None)
        assert _unpacked(given) == meant

    def test_those_of_others_too(self) -> None:
        future: futures.Future[int] = futures.Future()
        future.set_result(7)
        assert _unpacked([future]) == [7]

    def test_one_that_is_there_twice_is_one_result(self) -> None:
        future = _done([1])
        first, second = _unpacked([future, future])
        assert first == [1] and first is second

    def test_a_future_that_gave_a_future(self) -> None:
        assert _unpacked([_done({"inner": _done(3)})]) == [{"inner": 3}]

    def test_one_that_failed_fails_the_call_with_its_error(self) -> None:
        failed: Future[int] = Future()
        error = KeyError("that one")
        failed.set_exception(error)
        with pytest.raises(KeyError) as caught:
            pack_arguments(([{"deep": failed}],), {})
        assert caught.value is error

    def test_one_that_was_cancelled_cancels_it(self) -> None:
        cancelled: Future[int] = Future()
        cancelled.cancel()
        with pytest.raises(futures.CancelledError):
            pack_arguments((), {"key": cancelled})

    def test_one_that_failed_is_told_before_others_are_waited_for(self) -> None:
        failed: Future[int] = Future()
        failed.set_exception(KeyError("that one"))
        with pytest.raises(KeyError):
            pack([Future(), failed])


class TestBuffers:
    @given(st.integers(0, 3 * LARGE))
    def test_large_ones_go_apart_and_all_arrive(self, size: int) -> None:
        array = np.arange(size, dtype=np.uint8)
        data, buffers = pack([array, size])
        assert len(buffers) == (size >= LARGE) and len(data) < LARGE + 1000
        assert np.array_equal(pickle.loads(data, buffers=buffers)[0], array)

    def test_none_does_when_all_is_to_stay(self) -> None:
        data, buffers = pack(np.zeros(LARGE), keeps_all=True)
        assert not buffers and len(data) > LARGE

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_arrays_of_either_order(self, order: Any) -> None:
        array = np.asarray(np.arange(90_000.0).reshape(300, 300), order=order)
        data, buffers = pack(array)
        back = pickle.loads(data, buffers=buffers)
        assert len(buffers) == 1 and np.array_equal(back, array) and back.flags["F_CONTIGUOUS"] == (order == "F")

    def test_a_part_of_an_array_takes_no_more_than_it_is(self) -> None:
        data, buffers = pack(np.zeros((1000, 1000))[::100, ::100])
        assert not buffers and len(data) < 2000


class TestOutcomes:
    def test_what_is_returned(self) -> None:
        assert unpack(*make(divmod, (7, 2), {})) == (3, 1)

    def test_what_is_raised_comes_with_where(self) -> None:
        ended, data, buffers = make(_deep, (3,), {})
        assert ended == RAISED
        with pytest.raises(ZeroDivisionError) as caught:
            unpack(ended, data, buffers)
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "in _deep" in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
    def test_what_would_end_a_process_does_not_end_ours(self, error: BaseException) -> None:
        with pytest.raises(WorkerDied, match="ended itself"):
            unpack(*make(_raise, (error,), {}))

    def test_a_result_that_cannot_be_pickled_is_an_error(self) -> None:
        with pytest.raises(Exception, match="lock"):
            unpack(*make(threading.Lock, (), {}))

    def test_an_error_that_cannot_be_pickled_says_what_it_was(self) -> None:
        with pytest.raises(RuntimeError, match="Locked: no way"):
            unpack(*make(_raise, (Locked("no way"),), {}))

    def test_a_function_may_be_returned(self) -> None:
        ended, data, buffers = make(lambda: lambda x: x + 1, (), {})
        assert ended == RETURNED and unpack(ended, data, buffers)(1) == 2


class Locked(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def _deep(level: int) -> float:
    return 1 / 0 if level == 0 else _deep(level - 1)


def _raise(error: BaseException) -> None:
    raise error
