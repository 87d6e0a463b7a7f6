"""Where checks are made: backends for all checks of a class, others for one, and a folder to meet in."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from turnout.compat.openff import CalculationBackend, ComputeResources
from turnout.testing.backends import tasks
from turnout.testing.contract.bench import Broken, expect

E = TypeVar("E", bound=BaseException)
_pause = threading.Event()  # never set

THREADS = 2

#: True, or why not.
Can = bool | str


class Bench:
    """`make_backend` is yours to write. Workers have to see the temporary folder of this machine."""

    patience: ClassVar[float] = 60.0
    """seconds within which whatever is promised has to come"""
    restarts: ClassVar[Can] = True
    """it can start again after `stop`"""
    scales: ClassVar[Can] = True
    isolates: ClassVar[Can] = True
    """a task has a process beside ours: what cannot be pickled cannot get there, and a task that dies takes only it"""
    ends_tasks: ClassVar[Can] = True
    """`stop` ends also tasks that go on"""
    cancels: ClassVar[Can] = True
    """a task that was not begun can be taken back"""
    waits: ClassVar[Can] = True
    """`result` and `exception` of its futures wait, for `timeout` seconds at most"""
    awaits: ClassVar[Can] = True
    """its futures can be awaited"""
    resolves: ClassVar[Can] = True
    """futures may be arguments"""
    tells_resources: ClassVar[Can] = True
    """a task that takes `available_resources` gets them"""
    limits_threads: ClassVar[Can] = True
    names: ClassVar[Can] = True
    """`key` names a task"""
    releases: ClassVar[Can] = True
    clears: ClassVar[Can] = True
    """it leaves no file behind"""
    guards: ClassVar[Can] = True
    """nothing is taken before `start`"""
    owns: ClassVar[Can] = True
    """it starts and ends the workers"""
    several: ClassVar[Can] = True
    """two of them may be there at once"""

    folder: Path
    _shared: ClassVar[dict[int, CalculationBackend]] = {}

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        """Not started."""
        raise NotImplementedError

    @property
    def backend(self) -> CalculationBackend:
        """With two workers of one thread, started; whatever a check does to it, the next one finds it working."""
        return self._of_all(2, ComputeResources())

    @property
    def lone_backend(self) -> CalculationBackend:
        """As `backend`, with one worker of `THREADS` threads."""
        return self._of_all(1, ComputeResources(number_of_threads=THREADS))

    def _of_all(self, workers: int, resources: ComputeResources) -> CalculationBackend:
        if workers not in self._shared:
            made = self.make(workers, resources)
            made.start()
            self._shared[workers] = made
        return self._shared[workers]

    @contextmanager
    def another(self, workers: int = 1, resources: ComputeResources | None = None) -> Iterator[CalculationBackend]:
        with self.make(workers, resources) as made:
            yield made

    def unstarted(self) -> CalculationBackend:
        """One more, that will not be started."""
        return self.make_backend(1, ComputeResources())

    def make(self, workers: int = 1, resources: ComputeResources | None = None) -> CalculationBackend:
        """One more, to be started."""
        if self.several is not True:
            self.teardown_class()
        return self.make_backend(workers, resources or ComputeResources())

    def setup_method(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="turnout-contract-"))

    def teardown_method(self) -> None:
        (self.folder / "go").touch()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __init_subclass__(cls) -> None:
        cls._shared = {}

    @classmethod
    def teardown_class(cls) -> None:
        while cls._shared:
            cls._shared.popitem()[1].stop()

    def needs(self, *abilities: str) -> None:
        """SkipTest when the backend lacks one."""
        for each in abilities:
            can = getattr(self, each)
            if can is not True:
                raise SkipTest(f"{each}: {can or 'it cannot'}")

    def long_task(self, backend: CalculationBackend, name: str = "begun") -> Any:
        """The future of a task that has begun, and ends after `go`."""
        future = backend.submit_task(tasks.begin_and_wait, str(self.folder / name), str(self.folder / "go"))
        self.until((self.folder / name).exists, "the task begins")
        return future

    def go(self) -> None:
        (self.folder / "go").touch()

    def value(self, future: Any) -> Any:
        """What came of it, however its class waits."""
        self.until(future.done, "the task ends")
        return future.result()

    def error(self, future: Any, kind: type[E]) -> E:
        """The error that it failed with."""
        try:
            value = self.value(future)
        except kind as error:
            return error
        except BaseException as error:
            raise Broken(f"the future fails with {type(error).__name__}, and should with {kind.__name__}") from error
        raise Broken(f"the future has a result ({value!r:.80}), and should have failed with {kind.__name__}")

    def works(self, backend: CalculationBackend) -> None:
        """Both of its workers, if it has two."""
        found = [self.value(backend.submit_task(pow, 2, each)) for each in range(4)]
        expect(found == [1, 2, 4, 8], f"after that, tasks give the right values, not {found}")

    def until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + self.patience
        while not is_so():
            expect(time.monotonic() < deadline, f"within {self.patience:g} s, {what}")
            _pause.wait(0.005)


class raises:
    """Broken when nothing is raised within; what is raised of another kind goes on."""

    def __init__(self, kind: type[BaseException], what: str) -> None:
        self._kind = kind
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        expect(kind is not None, f"{self._what} raises {self._kind.__name__}")
        return kind is not None and issubclass(kind, self._kind)
