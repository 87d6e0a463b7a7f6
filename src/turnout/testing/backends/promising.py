"""What a future does."""

from __future__ import annotations

import asyncio
from typing import Any

from turnout.testing.backends import tasks
from turnout.testing.backends.bench import Bench, raises
from turnout.testing.contract.bench import expect


class Promising(Bench):
    def test_submitting_returns_at_once(self) -> None:
        """The future is there while the task goes on, also when all workers are busy."""
        these = [
            self.backend.submit_task(tasks.begin_and_wait, str(self.folder / str(each)), str(self.folder / "go"))
            for each in range(5)
        ]
        expect(not any(each.done() for each in these), "none is done before it may be")
        self.go()
        expect(all(self.value(each) for each in these) and all(each.done() for each in these), "then all are")

    def test_a_result_is_waited_for(self) -> None:
        """`result(timeout)` raises TimeoutError when it is not there in time, and does not harm the task."""
        self.needs("waits")
        future = self.long_task(self.backend)
        for ask in (future.result, future.exception):
            with raises(TimeoutError, "asking for 10 ms while the task goes on"):
                ask(timeout=0.01)
        self.go()
        expect(future.result(self.patience), "the result comes")
        expect(future.exception() is None, "there was no error")

    def test_an_exception_is_told(self) -> None:
        """`exception()` is the error of the task, once it is done."""
        future = self.backend.submit_task(tasks.fail, "told")
        self.until(future.done, "the task ends")
        error = future.exception()
        expect(isinstance(error, LookupError) and error.args == ("told",), f"it is what was raised, not {error!r}")

    def test_what_is_done_cannot_be_cancelled(self) -> None:
        """`cancel` of a task that has ended is False, and changes nothing."""
        future = self.backend.submit_task(pow, 2, 2)
        expect(self.value(future) == 4, "it has a result")
        expect(not future.cancel() and not future.cancelled() and future.result() == 4, "it keeps it")

    def test_callbacks_are_called(self) -> None:
        """Each once, with the future, whatever came of the task; also those that come late."""
        said: list[Any] = []
        fine, broken = self.long_task(self.backend), self.backend.submit_task(tasks.fail, "x")
        for each in (fine, broken):
            each.add_done_callback(said.append)
        self.go()
        self.until(lambda: len(said) == 2, "both callbacks are called")
        fine.add_done_callback(said.append)
        self.until(lambda: len(said) == 3, "one that comes late is called too")
        expect(said.count(fine) == 2 and said.count(broken) == 1, "each is called with its future")

    def test_a_callback_can_be_removed(self) -> None:
        """`remove_done_callback` says how many it removed; they are not called."""
        said: list[str] = []
        future = self.long_task(self.backend)

        def first(_: Any) -> None:
            said.append("first")

        def second(_: Any) -> None:
            said.append("second")

        future.add_done_callback(first)
        future.add_done_callback(second)
        expect(future.remove_done_callback(first) == 1, "one was removed")
        expect(future.remove_done_callback(first) == 0, "none is left")
        self.go()
        self.until(lambda: said, "the other one is called")
        expect(said == ["second"], f"only that one, not {said}")

    def test_callbacks_may_submit(self) -> None:
        """A task may be submitted from a done-callback."""
        found: list[Any] = []
        self.backend.submit_task(pow, 2, 3).add_done_callback(
            lambda _: found.append(self.backend.submit_task(pow, 3, 2))
        )
        self.until(lambda: found, "the callback is called")
        expect(self.value(found[0]) == 9, "what it submitted is made")

    def test_coroutines_await_them(self) -> None:
        """`await`, `asyncio.wait_for` and `asyncio.gather` take them; errors are raised there."""
        self.needs("awaits")

        async def main() -> list[int]:
            one = await self.backend.submit_task(pow, 1, 1)
            two = await asyncio.wait_for(self.backend.submit_task(pow, 2, 1), self.patience)
            more = await asyncio.gather(*(self.backend.submit_task(pow, each, 1) for each in (3, 4)))
            with raises(LookupError, "awaiting a task that fails"):
                await self.backend.submit_task(tasks.fail, "x")
            return [one, two, *more]

        found = asyncio.run(main())
        expect(found == [1, 2, 3, 4], f"the values are right, not {found}")

    def test_coroutines_do_not_wait_longer(self) -> None:
        """`asyncio.wait_for` gives up in time, and the backend goes on."""
        self.needs("awaits")
        path = str(self.folder / "begun"), str(self.folder / "go")

        async def main() -> None:
            with raises(TimeoutError, "waiting for 50 ms"):
                await asyncio.wait_for(self.backend.submit_task(tasks.begin_and_wait, *path), 0.05)

        asyncio.run(main())
        self.go()
        self.works(self.backend)

    def test_a_result_can_be_released(self) -> None:
        """`release` after `result`: nobody needs it any more. The backend goes on."""
        self.needs("releases")
        future = self.backend.submit_task(pow, 2, 2)
        expect(self.value(future) == 4, "it has a result")
        future.release()
        future.release()
        early = self.long_task(self.backend)
        early.release()
        self.go()
        self.until(early.done, "one that is released early ends")
        self.works(self.backend)
