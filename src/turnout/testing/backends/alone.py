"""What shows only where there is one worker."""

from __future__ import annotations

import threading
from concurrent import futures

from turnout.compat.openff import ComputeResources
from turnout.testing.backends import tasks
from turnout.testing.backends.bench import THREADS, Bench, raises
from turnout.testing.contract.bench import expect


class Alone(Bench):
    def test_a_worker_makes_one_task_at_a_time(self) -> None:
        """With one worker, nothing begins while a task goes on: it has all that the worker has."""
        first = self.long_task(self.lone_backend)
        second = self.lone_backend.submit_task(tasks.begin_and_wait, str(self.folder / "b"), str(self.folder / "go"))
        threading.Event().wait(0.3)  # in which it would begin, if it did
        expect(not (self.folder / "b").exists(), "the second task has not begun")
        self.go()
        expect(self.value(first) and self.value(second), "then both end")

    def test_who_waits_for_another_keeps_no_worker(self) -> None:
        """With one worker, a chain of tasks that wait for each other ends."""
        self.needs("resolves")
        first = self.long_task(self.lone_backend)
        last = self.lone_backend.submit_task(len, [first])
        for _ in range(5):
            last = self.lone_backend.submit_task(tasks.add, last, 1)
        self.go()
        expect(self.value(last) == 6, "the last has the right value")

    def test_what_was_not_begun_can_be_cancelled(self) -> None:
        """`cancel` of a task that waits is True, the task is never made, and its result is a CancelledError."""
        self.needs("cancels")
        first = self.long_task(self.lone_backend)
        never = self.lone_backend.submit_task(tasks.touch, str(self.folder / "never"))
        expect(never.cancel() and never.cancelled() and never.done(), "it is cancelled")
        with raises(futures.CancelledError, "its result"):
            never.result()
        self.go()
        expect(self.value(first) and not first.cancelled(), "the other one is not")
        self.works(self.lone_backend)
        expect(not (self.folder / "never").exists(), "it was never made")

    def test_a_future_that_was_cancelled_fails_who_needs_it(self) -> None:
        """They end, with a CancelledError."""
        self.needs("resolves", "cancels")
        first = self.long_task(self.lone_backend)
        never = self.lone_backend.submit_task(pow, 1, 1)
        after = self.lone_backend.submit_task(tasks.add, never)
        expect(never.cancel(), "it can be cancelled")
        self.go()
        self.error(after, futures.CancelledError)
        expect(self.value(first), "the other one ends")

    def test_a_task_is_told_its_resources(self) -> None:
        """Who takes `available_resources`, by that name or by ``**kwargs``, gets those of the worker."""
        self.needs("tells_resources")
        backend, has = self.lone_backend, ComputeResources(number_of_threads=THREADS)
        word, told, indices = self.value(backend.submit_task(tasks.told, "hello"))
        expect((word, told, indices) == ("hello", has, None), f"it gets {has}, not {told}")
        names = self.value(backend.submit_task(tasks.told_much, other=1))
        expect(names == ["available_resources", "other"], f"also beside others, not {names}")
        expect(self.value(backend.submit_task(tasks.add, 1)) == 1, "who does not take them is not given them")
        mine = ComputeResources(number_of_threads=7)
        future = backend.submit_task(tasks.told, "x", available_resources=mine)
        expect(self.value(future)[1] == mine, "what the caller gives comes first")

    def test_libraries_start_as_many_threads(self) -> None:
        """Workers of two threads: ``OMP_NUM_THREADS`` is 2."""
        self.needs("limits_threads")
        found = self.value(self.lone_backend.submit_task(tasks.variable, "OMP_NUM_THREADS"))
        expect(found == str(THREADS), f"OMP_NUM_THREADS is {THREADS}, not {found}")
