"""A scheduler of Dask's that goes away: every future gets an outcome, and who comes back is used again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from turnout import EngineLost, Executor
from turnout.futures.dask import DaskExisting
from turnout.futures.engine import Needs

pytestmark = pytest.mark.timeout(120)


class Site:
    """A scheduler with two workers, on this machine."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._scheduler = _run("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
        self._workers = [_run("dask_worker", self.address, *options) for _ in range(2)]

    def kill(self, *, with_workers: bool) -> None:
        assert self._scheduler is not None
        for process in [self._scheduler, *(self._workers if with_workers else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _run(module: str, *options: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", f"distributed.cli.{module}", *options]
    return subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.start()
    yield made
    made.kill(with_workers=True)


def test_a_scheduler_that_is_killed_fails_what_was_asked_of_it(site: Site) -> None:
    with Executor(DaskExisting(site.address, Needs())) as made:
        assert made.submit(abs, -1).result(60) == 1
        these = [made.submit(time.sleep, 30) for _ in range(20)]
        site.kill(with_workers=False)
        for each in these:
            with pytest.raises(EngineLost, match="Dask"):
                each.result(60)
        made.stop()


def test_one_that_is_started_again_is_used_again(site: Site) -> None:
    with Executor(DaskExisting(site.address, Needs())) as made:
        assert made.submit(abs, -1).result(60) == 1
        these = [made.submit(time.sleep, 30) for _ in range(20)]
        site.kill(with_workers=True)
        site.start()
        for each in these:
            assert isinstance(each.exception(60), EngineLost)
        assert made.submit(abs, -2).result(60) == 2


def test_a_scheduler_that_is_not_there_is_said() -> None:
    made = Executor(DaskExisting("tcp://127.0.0.1:1", Needs()))
    with pytest.raises(Exception, match="Dask cannot be reached") as caught:
        made.submit(abs, -1)
    assert getattr(caught.value, "code", "") == "unavailable"
