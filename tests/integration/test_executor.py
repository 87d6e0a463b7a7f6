"""`turnout.Executor` on processes of this machine: as Python's own executors, and what is beyond them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import operator
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness import wait_until
from turnout import Executor, Future, TaskTimeout, WorkerDied
from turnout.errors import InvalidInput, Unavailable
from turnout.futures.record import Record

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor(workers=2) as made:
        yield made


def _greet(word: str) -> None:
    os.environ["TO_GREET"] = word


def touch_and_wait(begun: str, until: str) -> str:
    Path(begun).touch()
    while not os.path.exists(until):
        time.sleep(0.002)
    return begun


def pid_after(path: str) -> int:
    """Says who it is, then kills it."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def kills_once(path: str) -> str:
    if not os.path.exists(path):
        Path(path).touch()
        os._exit(7)
    return "survived"


class TestAsPythonsOwn:
    def test_calls_give_futures(self, pool: Executor) -> None:
        future = pool.submit(pow, 2, 10)
        assert isinstance(future, futures.Future)
        assert future.result(30) == 1024 and future.done() and future.exception() is None

    def test_keywords_arrive(self, pool: Executor) -> None:
        assert pool.submit(int, "ff", base=16).result(30) == 255

    def test_errors_come_back_with_where_they_were_raised(self, pool: Executor) -> None:
        future = pool.submit(operator.truediv, 1, 0)
        with pytest.raises(ZeroDivisionError) as caught:
            future.result(30)
        assert "Traceback" in str(caught.value.__cause__) and "packing.py" in str(caught.value.__cause__)
        assert pool.submit(abs, -1).result(30) == 1

    def test_map_keeps_the_order(self, pool: Executor) -> None:
        assert list(pool.map(abs, range(-500, 500))) == [abs(each) for each in range(-500, 500)]
        assert list(pool.map(operator.add, [1, 2, 3], (10, 20))) == [11, 22]
        assert list(pool.map(abs, [])) == []

    def test_map_yields_up_to_the_error_and_raises_it(self, pool: Executor) -> None:
        found: list[int] = []
        with pytest.raises(ZeroDivisionError):
            found.extend(pool.map(lambda x: 1 // (5 - x), range(10), chunksize=4))
        assert len(found) == 5

    def test_as_completed_and_wait_know_them(self, pool: Executor) -> None:
        these = [pool.submit(abs, -each) for each in range(20)]
        assert sorted(each.result() for each in futures.as_completed(these, 30)) == list(range(20))
        assert not futures.wait(these).not_done

    def test_after_the_end_nothing_is_taken(self) -> None:
        made = Executor(workers=1)
        assert made.submit(abs, -1).result(30) == 1
        made.shutdown()
        with pytest.raises(RuntimeError, match="after shutdown"):
            made.submit(abs, -1)
        with pytest.raises(RuntimeError, match="after shutdown"):
            made.map(abs, [1])

    def test_the_end_waits_for_what_was_asked_for(self, tmp_path: Path) -> None:
        with Executor(workers=2) as made:
            made.map(Path.touch, [tmp_path / str(each) for each in range(50)])  # nobody takes the results
            future = made.submit(abs, -1)
        assert future.done() and len(list(tmp_path.iterdir())) == 50

    def test_also_of_what_is_read_slowly(self, tmp_path: Path) -> None:
        with Executor(workers=2) as made:
            made.map(Path.touch, (tmp_path / str(each) for each in range(500)))
        assert len(list(tmp_path.iterdir())) == 500

    def test_what_was_not_begun_can_be_cancelled_at_the_end(self, tmp_path: Path) -> None:
        made = Executor(workers=1)
        first = made.submit(touch_and_wait, str(tmp_path / "begun"), str(tmp_path / "go"))
        wait_until((tmp_path / "begun").exists)
        others = [made.submit(abs, -each) for each in range(5)]
        threading.Timer(0.1, (tmp_path / "go").touch).start()
        made.shutdown(cancel_futures=True)
        assert first.result(0) and all(each.cancelled() for each in others)

    def test_the_end_need_not_be_waited_for(self, tmp_path: Path) -> None:
        made = Executor(workers=1)
        future = made.submit(touch_and_wait, str(tmp_path / "begun"), str(tmp_path / "go"))
        made.shutdown(wait=False)
        (tmp_path / "go").touch()
        assert future.result(30)

    def test_one_that_waits_can_be_cancelled(self, tmp_path: Path) -> None:
        with Executor(workers=1) as made:
            made.submit(touch_and_wait, str(tmp_path / "begun"), str(tmp_path / "go"))
            wait_until((tmp_path / "begun").exists)
            waiting = made.submit(Path.touch, tmp_path / "never")
            assert waiting.cancel() and waiting.cancelled()
            (tmp_path / "go").touch()
        assert not (tmp_path / "never").exists()

    def test_each_worker_begins_with_the_initializer(self) -> None:
        with Executor(workers=2, initializer=_greet, initargs=("hello",)) as made:
            assert set(made.map(os.getenv, ["TO_GREET"] * 20, chunksize=1)) == {"hello"}

    def test_an_initializer_that_fails_breaks_it(self) -> None:
        made = Executor(workers=1, initializer=operator.truediv, initargs=(1, 0))
        with made, pytest.raises(futures.BrokenExecutor, match="ZeroDivisionError"):
            made.submit(abs, -1).result(30)

    def test_what_was_submitted_is_done_before_the_program_ends(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import turnout, time, pathlib\n"
            "def slow(path):\n"
            "    time.sleep(0.2)\n"
            "    pathlib.Path(path).touch()\n"
            f"turnout.Executor(workers=1).submit(slow, {str(tmp_path / 'there')!r})\n"
        )
        subprocess.run([sys.executable, str(script)], check=True, timeout=30)
        assert (tmp_path / "there").exists()


class TestCoroutines:
    def test_a_future_can_be_awaited(self, pool: Executor) -> None:
        async def main() -> list[int]:
            first = await pool.submit(abs, -1)
            others = await asyncio.gather(*(pool.submit(abs, -each) for each in range(3)))
            return [first, *others, await asyncio.wait_for(pool.submit(abs, -9), 30)]

        assert asyncio.run(main()) == [1, 0, 1, 2, 9]

    def test_errors_are_raised_there(self, pool: Executor) -> None:
        async def main() -> None:
            await pool.submit(operator.truediv, 1, 0)

        with pytest.raises(ZeroDivisionError):
            asyncio.run(main())

    def test_the_loop_runs_functions_there(self, pool: Executor) -> None:
        async def main() -> int:
            return await asyncio.get_running_loop().run_in_executor(pool, abs, -4)

        assert asyncio.run(main()) == 4


class TestFutures:
    def test_those_among_the_arguments_are_waited_for(self, pool: Executor) -> None:
        first = pool.submit(pow, 2, 3)
        nested = pool.submit(sum, [pool.submit(abs, -1), first])
        deep: Future[Any] = pool.submit(dict, a=[{"b": (nested,)}])
        assert nested.result(30) == 9 and deep.result(30) == {"a": [{"b": (9,)}]}

    def test_one_that_fails_fails_who_needs_it(self, pool: Executor) -> None:
        broken = pool.submit(operator.truediv, 1, 0)
        with pytest.raises(ZeroDivisionError):
            pool.submit(sum, [1, broken]).result(30)

    def test_one_that_is_cancelled_cancels_who_needs_it(self, pool: Executor) -> None:
        never: Future[int] = Future()
        needs = pool.submit(abs, never)
        never.cancel()
        with pytest.raises(futures.CancelledError):
            needs.result(30)

    def test_who_waits_for_another_keeps_no_worker(self, tmp_path: Path) -> None:
        with Executor(workers=1) as made:
            gate: Future[int] = Future()
            waiting = [made.submit(abs, gate) for _ in range(5)]
            assert made.submit(abs, -3).result(30) == 3
            gate.set_result(-7)
            assert [each.result(30) for each in waiting] == [7] * 5

    def test_callbacks_may_submit(self, pool: Executor) -> None:
        found: futures.Future[int] = futures.Future()
        pool.submit(abs, -1).add_done_callback(
            lambda done: pool.submit(operator.add, done, 1).add_done_callback(
                lambda last: found.set_result(last.result())
            )
        )
        assert found.result(30) == 2

    def test_a_callback_can_be_removed(self, tmp_path: Path) -> None:
        said: list[object] = []
        with Executor(workers=1) as made:
            future = made.submit(touch_and_wait, str(tmp_path / "begun"), str(tmp_path / "go"))
            future.add_done_callback(said.append)
            assert future.remove_done_callback(said.append) == 1 and future.remove_done_callback(print) == 0
            (tmp_path / "go").touch()
        assert not said

    def test_a_result_that_is_released_is_gone(self, pool: Executor) -> None:
        future = pool.submit(np.zeros, 10)
        assert len(future.result(30)) == 10
        future.release()
        with pytest.raises(futures.CancelledError):
            future.result()


class TestWhatTravels:
    def test_functions_without_a_name(self, pool: Executor) -> None:
        seven = 7

        def inner(x: int) -> int:
            return x + seven

        assert pool.submit(lambda x: x * 2, 21).result(30) == 42
        assert pool.submit(inner, 1).result(30) == 8 and list(pool.map(inner, [1, 2])) == [8, 9]
        seven = 8
        assert pool.submit(inner, 1).result(30) == 9

    def test_scripts_and_what_is_in_them(self, tmp_path: Path) -> None:
        """No ``if __name__ == "__main__"`` is needed; what a function refers to is as it is when it is called."""
        script = tmp_path / "script.py"
        script.write_text(
            "import dataclasses, turnout\n"
            "factor = 2\n"
            "@dataclasses.dataclass\n"
            "class Point:\n"
            "    x: int\n"
            "def times(x): return x * factor\n"
            "def move(point): return Point(times(point.x))\n"
            "ex = turnout.Executor(workers=1)\n"
            "print(ex.submit(times, 4).result(), ex.submit(move, Point(3)).result() == Point(6))\n"
            "factor = 10\n"
            "print(ex.submit(times, 4).result(), list(ex.map(times, [1, 2])))\n"
            "def times(x): return -x\n"
            "print(ex.submit(move, Point(3)).result())\n"
        )
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout.splitlines() == ["8 True", "40 [10, 20]", "Point(x=-3)"]

    def test_modules_beside_the_script(self, tmp_path: Path) -> None:
        (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
        (tmp_path / "script.py").write_text(
            "import beside, turnout\nprint(turnout.Executor(workers=1).submit(beside.double, 4).result())\n"
        )
        done = subprocess.run(
            [sys.executable, str(tmp_path / "script.py")],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert done.stdout == "8\n"

    def test_arrays_are_as_they_were(self, pool: Executor) -> None:
        given = np.arange(1 << 17, dtype="f8")
        found = pool.submit(np.multiply, given, 2).result(30)
        assert np.array_equal(found, given * 2) and found.flags.writeable
        found[0] = 5
        frozen = given.copy()
        frozen.flags.writeable = False
        assert not pool.submit(_is_writable, frozen).result(30) and pool.submit(_is_writable, given).result(30)

    def test_many_arrays_may_be_kept(self, pool: Executor) -> None:
        """More than there may be open files for them."""
        files = len(os.listdir("/proc/self/fd"))
        kept = [each.result(30) for each in [pool.submit(np.full, 1 << 14, value) for value in range(2000)]]
        assert all(array[-1] == value for value, array in enumerate(kept))
        assert len(os.listdir("/proc/self/fd")) < files + 700
        del kept
        gc.collect()
        assert pool.submit(np.full, 1 << 14, 3).result(30)[0] == 3

    def test_what_cannot_be_sent_is_said(self, pool: Executor) -> None:
        with pytest.raises(TypeError, match="pickle"):
            pool.submit(abs, threading.Lock()).result(30)
        with pytest.raises(TypeError, match="pickle"):
            pool.submit(threading.Lock).result(30)
        assert pool.submit(abs, -1).result(30) == 1

    def test_an_error_that_cannot_be_sent_says_what_it_was(self, pool: Executor) -> None:
        with pytest.raises(RuntimeError, match="Peculiar: oh"):
            pool.submit(_raise_peculiar).result(30)

    def test_what_workers_print_is_seen(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import turnout\nwith turnout.Executor(workers=1) as ex: ex.submit(print, 'hello').result()\n"
        )
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout == "hello\n"


def _is_writable(array: Any) -> bool:
    return bool(array.flags.writeable)


class Peculiar(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def _raise_peculiar() -> None:
    raise Peculiar("oh", "no")


class TestTerms:
    def test_a_call_that_takes_too_long_is_killed(self, tmp_path: Path) -> None:
        with Executor(workers=1) as made:
            began = time.monotonic()
            late = made.options(timeout=0.3).submit(_write_pid_and_hang, str(tmp_path / "pid"))
            with pytest.raises(TaskTimeout, match=r"0\.3 s"):
                late.result(30)
            assert time.monotonic() - began < 10
            pid = int((tmp_path / "pid").read_text())
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
            assert made.submit(abs, -1).result(30) == 1
            assert made.options(timeout="1m").submit(abs, -2).result(30) == 2

    def test_time_counts_from_when_it_begins(self, tmp_path: Path) -> None:
        with Executor(workers=1, timeout=1.0) as made:
            these = [made.submit(time.sleep, 0.4) for _ in range(4)]
            assert all(each.result(30) is None for each in these)

    def test_calls_may_need_more_than_the_others(self) -> None:
        with Executor(workers=2) as made:
            usual = made.submit(os.getenv, "OMP_NUM_THREADS")
            large = made.options(cpus=2).submit(os.getenv, "OMP_NUM_THREADS")
            after = made.submit(os.getenv, "OMP_NUM_THREADS")
            assert [usual.result(30), large.result(30), after.result(30)] == ["1", "2", "1"]

    def test_what_nobody_has_is_refused(self, pool: Executor) -> None:
        with pytest.raises(InvalidInput, match="needs 3 processors, and the executor has 2"):
            pool.options(cpus=3).submit(abs, -1)
        with pytest.raises(InvalidInput, match="unknown resource 'cpu'"):
            pool.options(cpu=1)

    def test_who_takes_too_much_memory_is_ended(self) -> None:
        with Executor(workers=1, resources={"memory": "200M"}) as made:
            with pytest.raises(WorkerDied, match="may have 200 MB"):
                made.submit(_fill, 400 << 20).result(30)
            assert made.submit(abs, -1).result(30) == 1

    def test_how_many_there_are_can_change(self) -> None:
        with Executor(workers=1) as made:
            assert len(_pids(made, 1)) == 1
            made.scale(3)
            assert len(_pids(made, 3)) == 3
            made.scale(1)
            wait_until(lambda: len(set(made.map(_pid_slowly, range(4), chunksize=1))) == 1)

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"workers": 0}, "workers"), ({"resources": {"cpus": 0}}, "cpus"),
            ({"resources": {"memory": "x"}}, "memory"), ({"timeout": -1}, "timeout"),
            ({"timeout": "soon"}, "timeout"), ({"retries": -1}, "retries"), ({"target": 4}, "4 cannot make calls"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_refused(self, given: dict[str, Any], what: str) -> None:
        with pytest.raises(InvalidInput, match=what):
            Executor(**given)


def _write_pid_and_hang(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(1000)


def _fill(size: int) -> int:
    kept = bytearray(size)
    time.sleep(20)
    return len(kept)


def _pid_slowly(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def _pids(made: Executor, count: int) -> set[int]:
    def look() -> set[int]:
        found = set(made.map(_pid_slowly, range(2 * count), chunksize=1))
        return found if len(found) == count else set()

    return wait_until(look)


class TestWhenWorkersDie:
    def test_the_call_is_made_again(self, tmp_path: Path) -> None:
        with Executor(workers=1) as made:
            assert made.submit(kills_once, str(tmp_path / "mark")).result(30) == "survived"

    def test_one_that_kills_three_is_poison(self, tmp_path: Path) -> None:
        with Executor(workers=2) as made:
            with pytest.raises(WorkerDied, match="killed by SIGKILL; so did 2 before it"):
                made.submit(pid_after, str(tmp_path / "pids")).result(30)
            assert len(set((tmp_path / "pids").read_text().split())) == 3
            assert made.submit(abs, -1).result(30) == 1

    def test_one_may_be_made_only_once(self, tmp_path: Path) -> None:
        with Executor(workers=1, retries=0) as made, pytest.raises(WorkerDied, match="exit code 7"):
            made.submit(kills_once, str(tmp_path / "mark")).result(30)

    def test_sys_exit_ends_the_call_and_nothing_else(self, pool: Executor) -> None:
        before = pool.submit(os.getpid).result(30)
        with pytest.raises(WorkerDied, match=r"sys.exit\(3\)"):
            pool.submit(sys.exit, 3).result(30)
        assert pool.submit(os.getpid).result(30)
        assert Path(f"/proc/{before}/stat").exists(), "the worker that made the first call is still there"

    def test_of_many_only_the_guilty_fails(self, tmp_path: Path) -> None:
        with Executor(workers=2) as made:
            found: list[int] = []
            with pytest.raises(WorkerDied):
                found.extend(made.map(_dies_at_60, range(100), chunksize=20))
            assert found == list(range(60))

    def test_what_waits_behind_it_is_made_elsewhere(self, tmp_path: Path) -> None:
        """Short calls are sent ahead; then one is long."""
        with Executor(workers=2) as made:
            for _ in range(20):
                [each.result() for each in [made.submit(abs, -1) for _ in range(200)]]
            long = made.submit(touch_and_wait, str(tmp_path / "begun"), str(tmp_path / "go"))
            behind = [made.submit(abs, -each) for each in range(300)]
            assert [each.result(20) for each in behind] == list(range(300))
            assert not long.done()
            (tmp_path / "go").touch()

    def test_nothing_is_left_of_it(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import turnout, os, subprocess, time\n"
            "def begin(path):\n"
            "    child = subprocess.Popen(['sleep', '1000'])\n"
            "    open(path, 'w').write(f'{os.getpid()} {child.pid}')\n"
            "    while True: sum(range(10**6))\n"
            "ex = turnout.Executor(workers=1)\n"
            f"ex.submit(begin, {str(tmp_path / 'pids')!r})\n"
            "time.sleep(1000)\n"
        )
        process = subprocess.Popen([sys.executable, str(script)])
        wait_until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
        process.kill()
        process.wait()
        pids = (tmp_path / "pids").read_text().split()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))

    def test_ctrl_c_ends_all_at_once(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import turnout, os, time\n"
            "def begin(path):\n"
            "    open(path, 'w').write(str(os.getpid()))\n"
            "    time.sleep(1000)\n"
            "with turnout.Executor(workers=1) as ex:\n"
            f"    ex.submit(begin, {str(tmp_path / 'pid')!r}).result()\n"
        )
        process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        assert "KeyboardInterrupt" in said
        pid = (tmp_path / "pid").read_text()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def _dies_at_60(number: int) -> int:
    if number == 60:
        os._exit(1)
    return number


class TestMap:
    def test_no_more_is_read_than_is_taken(self, pool: Executor) -> None:
        read = []

        def numbers() -> Iterator[int]:
            for each in range(100_000):
                read.append(each)
                yield each

        results = pool.map(abs, numbers(), buffersize=100)
        for _ in range(10):
            next(results)
        assert len(read) <= 200
        results.close()  # type: ignore[attr-defined]

    def test_results_may_come_as_they_are_there(self, tmp_path: Path) -> None:
        (tmp_path / "1").touch()
        with Executor(workers=2) as made:
            given = [(str(tmp_path / "a"), str(tmp_path / "0")), (str(tmp_path / "b"), str(tmp_path / "1"))]
            results = made.map(lambda pair: touch_and_wait(*pair), given, ordered=False, chunksize=1)
            assert next(results).endswith("b")
            (tmp_path / "0").touch()
            assert next(results).endswith("a")

    def test_it_may_take_only_so_long(self, pool: Executor) -> None:
        with pytest.raises(TimeoutError):
            list(pool.map(time.sleep, [0.5, 0.5, 0.5], timeout=0.1))

    def test_who_stops_taking_stops_it(self, pool: Executor, tmp_path: Path) -> None:
        results = pool.map(_pid_slowly, range(10_000), chunksize=1)
        next(results)
        results.close()  # type: ignore[attr-defined]
        assert pool.submit(abs, -1).result(20) == 1

    def test_an_input_that_fails_says_so(self, pool: Executor) -> None:
        def numbers() -> Iterator[int]:
            yield 1
            raise LookupError("no more")

        with pytest.raises(LookupError, match="no more"):
            list(pool.map(abs, numbers()))


class TestGpus:
    """Which ones there are is what the program was given; nothing here has to be one."""

    @pytest.fixture(autouse=True)
    def two(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        own = f"{os.getpid()}-{tmp_path.name}"  # tests beside this one have others
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"GPU-a-{own},GPU-b-{own}")

    def test_each_worker_has_its_own(self) -> None:
        with Executor(workers=2, resources={"gpus": 1}) as made:
            assert set(made.map(_gpus_slowly, range(8), chunksize=1)) == set(
                os.environ["CUDA_VISIBLE_DEVICES"].split(",")
            )

    def test_no_two_executors_have_the_same(self) -> None:
        with Executor(workers=2, resources={"gpus": 1}):
            other = Executor(workers=1, resources={"gpus": 1})
            with pytest.raises(Unavailable, match="are another executor's"):
                other.submit(abs, -1)
        with Executor(workers=1, resources={"gpus": 2}) as made:
            assert made.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result(30) == os.environ["CUDA_VISIBLE_DEVICES"]

    def test_a_directory_that_another_user_made_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        folder = tmp_path / f"turnout-gpus-{os.getuid()}"
        folder.mkdir()
        os.chown(folder, 65534, 65534)
        with pytest.raises(Unavailable, match="another user's"):
            Executor(workers=1, resources={"gpus": 1}).submit(abs, -1)

    def test_workers_may_share_one(self) -> None:
        with Executor(workers=4, resources={"gpus": 1}, workers_per_gpu=2) as made:
            assert len(set(made.map(_gpus_slowly, range(16), chunksize=1))) == 2

    def test_more_than_there_are_cannot_be_had(self) -> None:
        with pytest.raises(InvalidInput, match="need 3 GPUs, and CUDA_VISIBLE_DEVICES names 2"):
            Executor(workers=3, resources={"gpus": 1}).submit(abs, -1)


def _gpus_slowly(_: int) -> str | None:
    time.sleep(0.05)
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def test_how_far_it_is_can_be_seen(tmp_path: Path) -> None:
    """On a terminal, and only there."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time, turnout\n"
        "with turnout.Executor(workers=2) as ex:\n"
        "    list(ex.map(time.sleep, [0.1] * 20, progress=True))\n"
        "    these = [ex.submit(time.sleep, 0.1) for _ in range(10)]\n"
        "    print(len(list(turnout.as_completed(these, progress=True))))\n"
    )
    control, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is closed when its last program ended
        while piece := os.read(control, 4096):
            shown += piece
    os.close(control)
    said, _ = process.communicate(timeout=30)
    assert said == b"10\n" and b" of 20, " in shown and b" of 10, " in shown
    quiet = subprocess.run([sys.executable, str(script)], capture_output=True, check=True, timeout=30)
    assert quiet.stderr == b""


class Mute(Exception):
    """One that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("not even that")


def raise_mute(_: object = None) -> None:
    raise Mute


def test_an_error_that_cannot_say_what_it_is_fails_its_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path))
    record = Record("mute")
    with Executor(workers=1) as made:
        made._pool.record = record
        assert isinstance(made.submit(raise_mute).exception(60), Mute)
        with pytest.raises(Mute):
            list(made.map(raise_mute, [1, 2]))
        assert made.submit(abs, -1).result(60) == 1
        made._pool.record = None
    (kept,) = tmp_path.glob("calls/*/calls.json")
    assert "Mute, which cannot say what it is" in kept.read_text()


INTERRUPTED = """
import os, signal, sys
from turnout import Executor

with Executor(workers=1) as ex:
    assert list(ex.map(abs, range(10))) == list(range(10))
    engine, count = ex._pool.engine, 0
    submit = engine.submit

    def submit_amid_an_interrupt(task):
        global count
        count += 1
        if count == 3:
            os.kill(os.getpid(), signal.SIGINT)
        submit(task)

    engine.submit = submit_amid_an_interrupt
    try:
        print(len(list(ex.map(abs, iter(range(1000)), chunksize=5, ordered=sys.argv[1] == "ordered"))))
    except KeyboardInterrupt:
        print("interrupted")
    print(sum(ex.map(abs, range(100))))
"""


@pytest.mark.parametrize("way", ["ordered", "unordered"])
def test_an_interrupt_amid_a_map_is_not_lost_and_nor_are_results(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, way], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\n4950\n", done.stderr
