"""``metapipe.models.Queue``: who hears what becomes of jobs, and decides what to do when none can proceed."""

from __future__ import annotations

from typing import Any, ClassVar


class Queue:
    """Subclasses say what to do; each method may be left out. A class without this base is a queue as well.

    `queue` are the jobs that wait, `running` those that were submitted, `complete` and `failed` those that are over.
    """

    MAX_CONCURRENT_JOBS: ClassVar[int] = 10

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.queue: list[Any] = []
        self.running: list[Any] = []
        self.complete: list[Any] = []
        self.failed: list[Any] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: jobs={len(self.active_jobs)}>"

    @property
    def active_jobs(self) -> list[Any]:
        """Those that wait or were submitted."""
        return [*self.queue, *self.running]

    @property
    def all_jobs(self) -> list[Any]:
        return [*self.complete, *self.failed, *self.active_jobs]

    @property
    def is_empty(self) -> bool:
        return not self.active_jobs

    @property
    def progress(self) -> int:
        """How many of all jobs are over, in percent."""
        total = len(self.all_jobs)
        return 100 * (total - len(self.active_jobs)) // total if total else 0

    def push(self, job: Any) -> None:
        """Puts a job to those that wait; also while the pipeline runs."""
        self.queue.append(job)

    # --- events -----------------------------------------------------------------------------------------------------

    def on_start(self) -> None:
        """The queue starts."""

    def on_end(self) -> None:
        """The queue ends, however it went."""

    def on_locked(self) -> bool:
        """Nothing runs, and what waits depends on what is not complete. True: what failed is submitted again, as if for
        the first time. Else the queue ends. As it does when that was of no use several times in a row."""
        return False

    def on_tick(self) -> None:
        """All jobs were looked at once."""

    def on_ready(self, job: Any) -> None:
        """A job is about to be submitted."""

    def on_submit(self, job: Any) -> None:
        """A job was submitted."""

    def on_complete(self, job: Any) -> None:
        """A job is complete."""

    def on_error(self, job: Any) -> None:
        """A job errored, or could not be submitted. It is submitted again, unless that was enough."""

    def on_fail(self, job: Any) -> None:
        """A job errored, and is not submitted again. (Metapipe's document does not have it, its code does.)"""


class JobQueue(Queue):
    """What a pipeline has that names no other."""


#: As Metapipe's own code calls it.
BaseQueue = Queue
