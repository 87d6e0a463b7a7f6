"""Worker processes of an executor are killed at any moment, with it, or amid it: nothing is wrong, nothing is left."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.faults.calls import add_one, add_one_and_die_once, hang, triple, wait_for
from tests.harness import wait_until
from turnout import Executor, WorkerDied

pytestmark = pytest.mark.timeout(120)
_MARK = "TO_TEST_WORKERS"


@dataclass(frozen=True)
class Traces:
    """What executors of this test leave: processes, temporary files, open files."""

    mark: str
    folder: Path
    files: int

    def processes(self) -> list[int]:
        """All that have our mark, other than this one."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes() and _is_alive(int(entry.name)):
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def assert_none(self) -> None:
        gc.collect()
        wait_until(lambda: not self.processes(), 10, "no process is left")
        assert list(self.folder.iterdir()) == []
        gc.collect()
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= self.files, 5, "no open file is left")


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traces:
    folder, mark = tmp_path / "temporary", uuid.uuid4().hex
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv(_MARK, mark)
    gc.collect()
    return Traces(mark, folder, len(os.listdir("/proc/self/fd")))


@contextlib.contextmanager
def killing(traces: Traces, seed: int, every: float = 0.1) -> Iterator[Callable[[], int]]:
    """Kills one of the workers, whichever, again and again; gives how many it were so far."""
    over, count, chance = threading.Event(), 0, random.Random(seed)

    def run() -> None:
        nonlocal count
        while not over.wait(chance.uniform(0, 2 * every)):
            if pids := traces.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(pids), signal.SIGKILL)
                    count += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: count
    finally:
        over.set()
        thread.join()


class TestKilledAtRandom:
    def test_every_future_has_its_result(self, traces: Traces) -> None:
        with Executor(workers=2, retries=5) as made, killing(traces, 1) as killed:
            these = [made.submit(triple, each) for each in range(10_000)]
            assert [each.result(90) for each in these] == [each * 3 for each in range(10_000)]
            wait_until(lambda: killed() >= 3, what="workers were killed")
            assert made.submit(triple, 1).result(90) == 3
        traces.assert_none()

    @pytest.mark.parametrize("is_ordered", [True, False])
    def test_so_has_every_input_of_map(self, traces: Traces, is_ordered: bool) -> None:
        with Executor(workers=2, retries=5) as made, killing(traces, 2):
            found = list(made.map(triple, range(10_000), ordered=is_ordered))
        assert (found if is_ordered else sorted(found)) == [each * 3 for each in range(10_000)]
        traces.assert_none()

    def test_arrays_on_their_way_arrive_as_they_are(self, traces: Traces) -> None:
        with Executor(workers=2, retries=5) as made, killing(traces, 3, every=0.3):
            these = [made.submit(add_one, np.full(50_000, float(each))) for each in range(500)]
            for number, each in enumerate(these):
                array = each.result(90)
                assert array[0] == array[-1] == number + 1 and array.sum() == (number + 1) * 50_000
            for number, array in enumerate(made.map(add_one, (np.full(50_000, float(each)) for each in range(500)))):
                assert array[0] == array[-1] == number + 1 and array.sum() == (number + 1) * 50_000
        del array, each, these
        traces.assert_none()

    def test_it_may_be_stopped_amid_that_and_another_one_started(self, traces: Traces) -> None:
        for seed in range(5):
            made = Executor(workers=2, retries=5)
            with killing(traces, seed):
                these = [made.submit(triple, each) for each in range(2000)]
                these[50 * seed].result(60)
                made.stop()
            for number, each in enumerate(these):
                assert each.done()
                if not each.cancelled():
                    assert isinstance(each.exception(), WorkerDied) or each.result() == number * 3
            traces.assert_none()

    def test_two_executors_do_not_mind_each_other(self, traces: Traces) -> None:
        with Executor(workers=2, retries=5) as one, Executor(workers=1, retries=5) as other, killing(traces, 4):
            ours, theirs = one.map(triple, range(3000)), [other.submit(triple, each) for each in range(1000)]
            assert list(ours) == [each * 3 for each in range(3000)]
            assert [each.result(60) for each in theirs] == [each * 3 for each in range(1000)]
        traces.assert_none()


class TestKilledAmidACall:
    def test_what_it_did_to_its_arrays_is_not_seen_when_it_is_made_again(self, traces: Traces, tmp_path: Path) -> None:
        with Executor(workers=1) as made:
            zeros = np.zeros(50_000)
            assert made.submit(add_one_and_die_once, zeros, str(tmp_path / "died")).result(60) == 50_000
            assert not zeros.any()
        traces.assert_none()

    def test_killed_at_every_start_it_says_so(self, traces: Traces) -> None:
        with Executor(workers=1) as made, killing(traces, 5, every=0.0005):
            assert isinstance(made.submit(hang, "/dev/null").exception(60), WorkerDied)
        traces.assert_none()


class TestUnexpectedlyLong:
    def test_nobody_waits_behind_it_while_a_worker_has_nothing_to_do(self, traces: Traces, tmp_path: Path) -> None:
        there, missing = str(tmp_path), str(tmp_path / "go")
        with Executor(workers=2) as made:
            for _ in range(20):
                [each.result(60) for each in [made.submit(wait_for, there) for _ in range(50)]]
            long = made.submit(wait_for, missing)
            assert [made.submit(wait_for, there).result(20) for _ in range(3)] == [there] * 3
            assert not long.done()
            Path(missing).touch()
        traces.assert_none()


_PARENT = """
import os, sys, time
from tests.faults.calls import hang
from turnout import Executor
made = Executor(workers=2)
these = [made.submit(hang, f"{sys.argv[1]}/{each}") for each in range(2)]
if sys.argv[2] == "fork" and os.fork() == 0:
    time.sleep(600)
these[0].result()
"""

_FORKED = """
import os, sys
from turnout import Executor
made = Executor(workers=1)
worker = made.submit(os.getpid).result()
child = os.fork()
if child == 0:
    for use in (lambda: made.submit(abs, -1), lambda: made.map(abs, [1])):
        try:
            use()
        except RuntimeError as error:
            print(error, flush=True)
    made.shutdown()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert made.submit(os.getpid).result() == worker
made.shutdown()
"""


class TestTheProgram:
    @pytest.mark.parametrize("how", ["alone", "fork"])
    def test_killed_it_takes_its_workers_with_it(self, traces: Traces, tmp_path: Path, how: str) -> None:
        """Also when it had forked itself, and the fork lives on."""
        folder = tmp_path / "begun"
        folder.mkdir()
        argv = [sys.executable, "-c", _PARENT, str(folder), how]
        program = subprocess.Popen(argv, start_new_session=True)
        wait_until(lambda: len(list(folder.iterdir())) == 2 and all(each.read_text() for each in folder.iterdir()))
        workers = [int(each.read_text()) for each in folder.iterdir()]
        program.kill()
        program.wait()
        wait_until(lambda: not any(map(_is_alive, workers)), 10, "its workers end")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        traces.assert_none()

    def test_a_fork_of_it_is_told_that_the_executor_is_not_its_own(self, traces: Traces) -> None:
        done = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=60)
        assert done.stdout == "this executor belongs to another process; make one here\n" * 2, done.stderr
        assert done.returncode == 0, done.stderr
        traces.assert_none()

    def test_an_executor_that_nobody_has_any_more_leaves_nothing(self, traces: Traces) -> None:
        these = [Executor(workers=2).submit(triple, each) for each in range(3)]
        assert [each.result(60) for each in these] == [0, 3, 6]
        del these
        traces.assert_none()

    def test_nor_does_one_whose_results_nobody_takes(self, traces: Traces, tmp_path: Path) -> None:
        begun = tmp_path / "begun"
        begun.mkdir()
        Executor(workers=2).map(Path.touch, [begun / str(each) for each in range(200)])
        wait_until(lambda: len(list(begun.iterdir())) == 200)
        traces.assert_none()
