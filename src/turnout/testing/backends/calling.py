"""What tasks are, and what they get."""

from __future__ import annotations

import operator
import os
import threading

from turnout.testing.backends import tasks
from turnout.testing.backends.bench import Bench
from turnout.testing.contract.bench import expect


class Calling(Bench):
    def test_a_task_gets_its_arguments(self) -> None:
        """`submit_task(function, *args, **kwargs)` calls `function(*args, **kwargs)` on a worker."""
        future = self.backend.submit_task(tasks.add, 1, 2, more=4)
        expect(self.value(future) == 7, "the result is what the function returned")

    def test_tasks_are_made_elsewhere(self) -> None:
        """A task is not made in the process that submits it."""
        self.needs("isolates")
        expect(self.value(self.backend.submit_task(tasks.process)) != os.getpid(), "another process makes the task")

    def test_many_tasks_give_the_right_values(self) -> None:
        """200 tasks at once: each future has the value of its own task."""
        these = [self.backend.submit_task(pow, each, 2) for each in range(200)]
        expect([self.value(each) for each in these] == [each**2 for each in range(200)], "each value is its task's")

    def test_workers_are_busy_at_the_same_time(self) -> None:
        """Two workers make two tasks at once: each of these ends only when the other has begun."""
        mine, other = str(self.folder / "a"), str(self.folder / "b")
        first = self.backend.submit_task(tasks.meet, mine, other)
        second = self.backend.submit_task(tasks.meet, other, mine)
        expect(self.value(first) and self.value(second), "both end")

    def test_functions_without_a_name(self) -> None:
        """A lambda, and a function that refers to what is around it, with what that is when it is submitted."""
        base = 7

        def inner(x: int) -> int:
            return x + base

        first = self.backend.submit_task(lambda x: x * 2, 21)
        second = self.backend.submit_task(inner, 1)
        expect(self.value(first) == 42 and self.value(second) == 8, "they are called as they are")

    def test_large_arrays_travel(self) -> None:
        """10 MB there and back."""
        import numpy

        array = numpy.arange(1_250_000, dtype=numpy.float64)
        back = self.value(self.backend.submit_task(operator.mul, array, 2))
        expect(back.nbytes == 10_000_000 and bool((back == array * 2).all()), "all of it, and right")

    def test_a_task_may_start_processes(self) -> None:
        """A task may use processes of its own."""
        expect(self.value(self.backend.submit_task(tasks.start_a_process)) == 3, "its process ends with its code")

    def test_futures_are_arguments(self) -> None:
        """Futures among the arguments, also deep inside lists and dictionaries, come as what they are of."""
        self.needs("resolves")
        one, two = self.backend.submit_task(pow, 1, 1), self.backend.submit_task(pow, 2, 1)
        nested = self.backend.submit_task(tasks.total, [one, {"a": (two, [one])}, 3])
        expect(self.value(nested) == 7, "those inside are resolved")
        expect(self.value(self.backend.submit_task(tasks.add, one, more=nested)) == 8, "and those at the top")

    def test_equal_tasks_are_made_each(self) -> None:
        """Two tasks with the same function and arguments are two tasks."""
        path = str(self.folder / "count")
        found = {self.value(self.backend.submit_task(tasks.count, path)) for _ in range(3)}
        expect(found == {1, 2, 3}, f"three tasks are made three times, not {found}")

    def test_tasks_have_keys(self) -> None:
        """The same `key` gives the same future while that is there; without one, a task has a key of its own."""
        self.needs("names")
        path = str(self.folder / "count")
        first = self.backend.submit_task(tasks.count, path, key="one")
        again = self.backend.submit_task(tasks.count, path, key="one")
        expect(again is first and first.key == "one", "the same key gives the same future")
        expect(self.value(first) == 1, "which is made once")
        expect(self.value(self.backend.submit_task(tasks.count, path, key="two")) == 2, "another key, another task")
        plain = [self.backend.submit_task(pow, 1, 1).key for _ in range(2)]
        expect(all(plain) and plain[0] != plain[1], "other tasks have keys of their own")
        first.release()
        after = self.backend.submit_task(tasks.count, path, key="one")
        expect(after is not first and self.value(after) == 3, "after its release, the key is free")

    def test_any_thread_may_submit(self) -> None:
        """Four threads submit at once."""
        found: list[int] = []

        def submit(base: int) -> None:
            these = [self.backend.submit_task(tasks.add, base, each) for each in range(10)]
            found.extend(self.value(each) for each in these)

        self.backend.submit_task(pow, 1, 1)
        threads = [threading.Thread(target=submit, args=(100 * each,)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(self.patience)
        expect(sorted(found) == [100 * base + each for base in range(4) for each in range(10)], "all values are right")
