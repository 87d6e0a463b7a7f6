"""How a backend starts and stops."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from turnout.compat.openff import CalculationBackend
from turnout.testing.backends import tasks
from turnout.testing.backends.bench import Bench, raises
from turnout.testing.contract.bench import expect


class Ending(Bench):
    def test_it_tells_whether_it_has_started(self) -> None:
        """`started` is False before `start`, and True after it; a second `start` is a RuntimeError."""
        fresh = self.unstarted()
        expect(not fresh.started, "one that is new has not started")
        fresh.stop()
        expect(self.backend.started, "it has started")
        with raises(RuntimeError, "a second start"):
            self.backend.start()
        expect(self.backend.started, "it goes on")
        self.works(self.backend)

    def test_nothing_is_taken_before_the_start(self) -> None:
        """`submit_task` of a backend that has not started is a RuntimeError."""
        self.needs("guards")
        with raises(RuntimeError, "submitting before the start"):
            self.unstarted().submit_task(pow, 1, 1)

    def test_it_starts_again(self) -> None:
        """The same object may be started again after it was stopped, however often; between, it takes nothing."""
        self.needs("restarts")
        backend = self.backend
        self.works(backend)
        for _ in range(2):
            backend.stop()
            expect(not backend.started, "it is stopped")
        if self.guards is True:
            with raises(RuntimeError, "submitting after the stop"):
                backend.submit_task(pow, 1, 1)
        backend.start()
        self.works(backend)

    def test_an_interrupt_within_ends_what_goes_on(self) -> None:
        """Ctrl-C within ``with`` goes on; no worker is left, and every future has an outcome."""
        self.needs("ends_tasks")
        with raises(KeyboardInterrupt, "the interrupt"), self.another() as backend:
            expect(backend.started, "`with` gives the backend, started")
            going = self.long_task(backend)
            waiting = backend.submit_task(pow, 1, 1)
            raise KeyboardInterrupt
        expect(not backend.started, "it is stopped")
        self.until(lambda: going.done() and waiting.done(), "both futures have an outcome")
        self.error(going, BaseException)
        self.error(waiting, BaseException)
        self._is_gone(int((self.folder / "begun").read_text()))

    def test_an_error_within_leaves_nothing(self) -> None:
        """What is raised within ``with`` goes on; no worker is left, and the temporary folder and the working directory
        are as before."""
        folder, process = self.folder / "tmp", 0
        folder.mkdir()
        with _working_in(str(folder)):
            with raises(LookupError, "the error within"), self.another() as backend:
                process = self.value(backend.submit_task(tasks.process))
                there = os.listdir(folder)
                raise LookupError("mine")
            expect(not backend.started, "it is stopped")
            self._is_gone(process)
            if self.clears is True:
                self.until(lambda: not os.listdir(folder), f"nothing is left of {', '.join(there)}")

    def test_nothing_is_left_of_one_that_is_forgotten(self) -> None:
        """Workers of a backend that nobody has any more, and that nobody stopped, end."""
        self.needs("isolates", "owns")
        backend = self.make()
        backend.start()
        process = self.value(backend.submit_task(tasks.process))
        del backend
        gc.collect()
        self._is_gone(process)

    def test_it_scales(self) -> None:
        """`scale(2)`: two tasks at once. `scale(1)`: one again."""
        self.needs("scales")
        with self.another(1) as backend:
            self.works(backend)
            backend.scale(2)
            mine, other = str(self.folder / "a"), str(self.folder / "b")
            both = [backend.submit_task(tasks.meet, mine, other), backend.submit_task(tasks.meet, other, mine)]
            expect(all(self.value(each) for each in both), "two workers meet")
            backend.scale(1)
            self._is_one(backend)

    def _is_one(self, backend: CalculationBackend) -> None:
        """Only one worker makes tasks, some time after it should be so."""
        self.until(lambda: len(self._busy(backend)) == 1, "one worker is left")

    def _busy(self, backend: CalculationBackend) -> set[int]:
        these = [backend.submit_task(tasks.process) for _ in range(10)]
        threading.Event().wait(0.05)
        return {self.value(each) for each in these}

    def _is_gone(self, process: int) -> None:
        if self.isolates is True and self.owns is True:
            expect(process != os.getpid(), "a task is made in another process")
            self.until(lambda: not _is_alive(process), f"the worker {process} ends")


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Temporary files go there, too."""
    here, usual = os.getcwd(), (tempfile.tempdir, os.environ.get("TMPDIR"))
    tempfile.tempdir, os.environ["TMPDIR"] = folder, folder
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        tempfile.tempdir = usual[0]
        if usual[1] is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = usual[1]


def _is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
