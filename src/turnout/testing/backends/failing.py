"""What becomes of tasks that fail."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from turnout import WorkerDied
from turnout.testing.backends import tasks
from turnout.testing.backends.bench import Bench
from turnout.testing.contract.bench import expect


class Failing(Bench):
    def test_errors_come_back(self) -> None:
        """With their type and text, and with where they were raised; the backend goes on."""
        error = self.error(self.backend.submit_task(tasks.fail, "the word"), LookupError)
        expect(error.args == ("the word",), f"it says the same, not {error.args}")
        shown = "".join(traceback.format_exception(error))
        expect("in fail" in shown and "raise LookupError(word)" in shown, "its traceback shows the line")
        self.works(self.backend)

    def test_errors_that_cannot_travel_tell_what_they_say(self) -> None:
        """One that cannot be pickled comes as another that says the same."""
        error = self.error(self.backend.submit_task(tasks.fail_oddly), Exception)
        expect("this and that" in str(error), f"it says the same, not {error}")
        self.works(self.backend)

    def test_a_future_that_failed_fails_who_needs_it(self) -> None:
        """With the same error."""
        self.needs("resolves")
        broken = self.backend.submit_task(tasks.fail, "first")
        after = self.backend.submit_task(tasks.total, [1, {"deep": broken}])
        last = self.backend.submit_task(tasks.add, after)
        expect(self.error(last, LookupError).args == ("first",), "it is the error of the first")

    def test_what_cannot_travel_fails_its_task(self) -> None:
        """An argument or a result that cannot be pickled fails the future, not the backend."""
        self.needs("isolates")
        self.error(self.backend.submit_task(id, threading.Lock()), Exception)
        self.error(self.backend.submit_task(tasks.a_lock), Exception)
        self.works(self.backend)

    def test_an_error_may_be_a_result(self) -> None:
        """A function that returns an exception, or a tuple that begins with one, has not failed."""
        value = self.value(self.backend.submit_task(tasks.an_error_in_a_tuple))
        expect(isinstance(value[0], ValueError) and value[1] == "not a failure", f"it is a result, not {value!r}")

    def test_a_wrong_call_fails_its_task(self) -> None:
        """A call with arguments that the function does not take."""
        self.error(self.backend.submit_task(pow), TypeError)
        self.works(self.backend)

    def test_sys_exit_fails_the_task(self) -> None:
        """`sys.exit` in a task fails its future, and says so."""
        self.needs("isolates")
        error = self.error(self.backend.submit_task(tasks.leave), Exception)
        expect("exit" in str(error) and "3" in str(error), f"it tells of sys.exit(3), not: {error}")
        self.works(self.backend)

    def test_an_interrupt_fails_the_task(self) -> None:
        """As any error."""
        self.needs("isolates")
        error = self.error(self.backend.submit_task(tasks.interrupt), Exception)
        expect("KeyboardInterrupt" in str(error), f"it tells what was raised, not: {error}")
        self.works(self.backend)

    def test_a_worker_that_is_killed_fails_its_task(self) -> None:
        """``kill -9``: the future fails in bounded time with a WorkerDied, and the backend goes on."""
        self.needs("isolates")
        self._dies(tasks.be_killed)

    def test_a_worker_that_ends_itself_fails_its_task(self) -> None:
        """`os._exit`: the same."""
        self.needs("isolates")
        self._dies(tasks.leave_at_once)

    def _dies(self, function: Callable[[], Any]) -> None:
        self.error(self.backend.submit_task(function), WorkerDied)
        self.works(self.backend)
