"""`turnout.Executor` over Parsl, Celery, Ray and Dask: each the real one, each with the same promises."""

from __future__ import annotations

import base64
import contextlib
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import redis

from tests import components
from tests.harness import wait_until
from turnout import Executor, TaskTimeout, WorkerDied
from turnout.errors import InvalidInput, Unavailable
from turnout.futures import dask as dask_engine
from turnout.futures import shelf
from turnout.futures.celery import CeleryEngine
from turnout.futures.celery_app import TASK, make_app, prefix
from turnout.futures.dask import DaskLocal
from turnout.futures.engine import Engine, Needs
from turnout.futures.errors import EngineLost
from turnout.futures.local.devices import VISIBLE
from turnout.futures.parsl import ParslEngine
from turnout.futures.ray import RayEngine
from turnout.futures.remote import Remote

pytestmark = pytest.mark.timeout(120)
_MARK = "TO_TEST_ENGINES"
_PATIENCE = 60.0  # seconds for any one call


def touch_and_wait(begun: Path, until: Path) -> str:
    begun.touch()
    while not until.exists():
        time.sleep(0.005)
    return os.environ.get(VISIBLE, "")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path: Path) -> str:
    if not path.exists():
        path.touch()
        die()
    return "survived"


def touch_and_give(begun: Path, go: Path) -> Any:
    touch_and_wait(begun, go)
    return np.ones(1 << 17)


_much: list[Any] = []


def give_beside_much(size: int) -> Any:
    """Its process has so much in memory."""
    if not _much:
        _much.append(np.ones((size - psutil.Process().memory_info().rss) // 8))
    return np.ones(1 << 15)


def add_one(array: Any) -> Any:
    array += 1
    return array


class Site:
    """An executor, on one engine for as long as this lives; once it was ended, it is started again when asked for."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="te-"))
        self.mark = uuid.uuid4().hex
        self._before = tempfile.tempdir
        os.environ[_MARK] = self.mark
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.folder)
        self.engine = make()
        self._pool: Executor | None = None

    @property
    def pool(self) -> Executor:
        if self._pool is None:
            self._pool = Executor(target=self.engine, workers=2)
        return self._pool

    def end(self) -> None:
        if self._pool is not None:
            self._pool.stop()
        self._pool = None

    def processes(self) -> list[str]:
        """Those with our mark, other than this one and those that it did not start for the engine."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                marked = f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
                dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
                if marked and not dead and int(entry.name) != os.getpid():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        return [each for each in found if "resource_tracker" not in each]

    def shelved(self) -> list[str]:
        """What lies on the shelf of the engine."""
        assert isinstance(self.engine, Remote) and self.engine.shelf is not None
        return [each.name for each in Path(self.engine.shelf.folder).glob("[!.]*")]

    def close(self) -> None:
        self.end()
        tempfile.tempdir = self._before
        for name in (_MARK, "TMPDIR"):
            os.environ.pop(name, None)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def site_of(make: Callable[[], Engine]) -> Iterator[Site]:
    made = Site(make)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session", autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The folders of tests are elsewhere than those of engines."""
    tmp_path_factory.getbasetemp()


class Promises:
    """What every engine keeps. A subclass has a fixture `site`, with two workers."""

    def test_map_keeps_the_order(self, site: Site) -> None:
        assert list(site.pool.map(abs, range(-50, 50))) == [abs(each) for each in range(-50, 50)]

    def test_arrays_go_and_come_and_can_be_written_to(self, site: Site) -> None:
        sent = np.arange(1 << 17, dtype=np.float64)
        ways = [site.pool, site.pool.options(timeout=_PATIENCE)]
        for got in [way.submit(add_one, sent).result(_PATIENCE) for way in ways]:
            got += 1
            assert np.array_equal(got, sent + 2)
        assert site.shelved() == []

    def test_arrays_for_which_there_is_no_room_go_another_way(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shelf, "_MOST", 0)
        sent = np.arange(1 << 17, dtype=np.float64)
        assert np.array_equal(site.pool.submit(add_one, sent).result(_PATIENCE), sent + 1)

    def test_modules_that_the_program_finds_are_found(self, site: Site) -> None:
        assert site.pool.submit(touch_and_wait, site.folder, site.folder).result(_PATIENCE) == os.environ.get(
            VISIBLE, ""
        )

    def test_a_call_that_takes_too_long_is_ended(self, site: Site) -> None:
        with pytest.raises(TaskTimeout):
            site.pool.options(timeout=0.5).submit(time.sleep, 600).result(_PATIENCE)
        assert site.pool.options(timeout=30).submit(abs, -1).result(_PATIENCE) == 1

    def test_a_call_whose_process_dies_is_made_again(self, site: Site, tmp_path: Path) -> None:
        assert site.pool.submit(die_once, tmp_path / "died").result(_PATIENCE) == "survived"

    def test_but_not_for_ever_and_the_others_are_made(self, site: Site) -> None:
        many = [site.pool.submit(abs, -each) for each in range(150)]
        killers = [site.pool.options(retries=each).submit(die) for each in range(2)]
        many += [site.pool.submit(abs, -each) for each in range(150, 300)]
        assert [type(each.exception(_PATIENCE)) for each in killers] == [WorkerDied, WorkerDied]
        assert [each.result(_PATIENCE) for each in many] == list(range(300))

    def test_what_nobody_takes_does_not_stay_on_the_shelf(self, site: Site, tmp_path: Path) -> None:
        first = [site.pool.submit(touch_and_wait, tmp_path / f"{each}", tmp_path / f"{1 - each}") for each in range(2)]
        assert all(each.exception(_PATIENCE) is None for each in first), "both have imported what imports need"
        call = site.pool.submit(touch_and_give, tmp_path / "begun", tmp_path / "go")
        wait_until((tmp_path / "begun").exists, _PATIENCE)
        site.engine.drop_waiting()
        assert call.cancelled()
        (tmp_path / "go").touch()
        assert len([each.result(_PATIENCE) for each in [site.pool.submit(time.sleep, 0.05) for _ in range(8)]]) == 8
        wait_until(lambda: site.shelved() == [], _PATIENCE)

    def test_its_end_leaves_nothing(self, site: Site, tmp_path: Path) -> None:
        call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "never")
        wait_until((tmp_path / "begun").exists, _PATIENCE)
        site.end()
        assert isinstance(call.exception(0), (WorkerDied, EngineLost))
        wait_until(lambda: not site.processes(), 60, f"no process is left of {site.processes()}")
        gc.collect()
        assert sorted(each.name for each in site.folder.iterdir()) == []


@pytest.mark.xdist_group("dask")
class TestDask(Promises):
    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        with site_of(lambda: DaskLocal(2, Needs())) as made:
            yield made

    def test_it_listens_to_this_machine_alone(self, site: Site) -> None:
        assert site.pool.submit(abs, -1).result(_PATIENCE) == 1
        assert _listening() == {"127.0.0.1"}

    def test_a_call_may_not_have_more_than_a_worker(self, site: Site) -> None:
        for asked, what in (({"memory": "1G"}, "has no limit"), ({"cpus": 2}, "needs 2 processors")):
            with pytest.raises(InvalidInput, match=what):
                site.pool.options(**asked).submit(abs, -1)

    def test_when_the_process_of_its_workers_is_gone_calls_fail(self, tmp_path: Path) -> None:
        with site_of(lambda: DaskLocal(1, Needs())) as site:
            call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "never")
            wait_until((tmp_path / "begun").exists, _PATIENCE)
            _kill_children("dask_host")
            assert isinstance(call.exception(_PATIENCE), EngineLost)
            assert isinstance(site.pool.submit(abs, -1).exception(_PATIENCE), EngineLost)

    def test_what_dask_puts_on_disk_is_not_lost(self) -> None:
        with site_of(lambda: DaskLocal(1, Needs(memory=1000 << 20))) as site:  # from 70 % of it on
            calls = [site.pool.submit(give_beside_much, 750 << 20) for _ in range(100)]
            assert all(each.result(_PATIENCE).sum() == 1 << 15 for each in calls)

    def test_calls_end_also_when_dask_tells_nothing_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dask_engine, "_listen", lambda *_: None)
        with site_of(lambda: DaskLocal(1, Needs())) as site:
            assert [each.result(_PATIENCE) for each in [site.pool.submit(abs, -each) for each in range(50)]][-1] == 49


@pytest.mark.xdist_group("ray")
class TestRay(Promises):
    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        with site_of(lambda: RayEngine(2, Needs())) as made:
            yield made

    def test_when_its_processes_are_gone_calls_fail_and_the_program_goes_on(self, site: Site, tmp_path: Path) -> None:
        call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "never")
        wait_until((tmp_path / "begun").exists, _PATIENCE)
        _kill_children("gcs_server")
        assert isinstance(call.exception(_PATIENCE), EngineLost)
        assert isinstance(site.pool.submit(abs, -1).exception(_PATIENCE), EngineLost)
        site.end()
        wait_until(lambda: not site.processes(), 60, f"no process is left of {site.processes()}")


def _listening() -> set[str]:
    """At which addresses this process and all that it started can be reached."""
    mine = psutil.Process()
    found = []
    for process in (mine, *mine.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.net_connections("tcp")
    return {each.laddr.ip.removeprefix("::ffff:") for each in found if each.status == psutil.CONN_LISTEN}


def _kill_children(command: str) -> None:
    for each in _children(command):
        os.kill(each, signal.SIGKILL)


def _children(command: str) -> list[int]:
    """Those of this process in whose command line `command` is; at least one."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", command], capture_output=True, text=True, check=True)
    return [int(each) for each in found.stdout.split()]


def _semaphores(process: int) -> set[Path]:
    """Those with names, that it has in its memory, where they have others."""
    lines = [line for line in Path(f"/proc/{process}/maps").read_text().splitlines() if "/sem." in line]
    numbers = {int(line.split()[4]) for line in lines}
    return {each for each in Path("/dev/shm").glob("sem.mp-*") if each.stat().st_ino in numbers}


@pytest.mark.xdist_group("parsl")
class TestParsl(Promises):
    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        with site_of(lambda: ParslEngine(2, Needs())) as made:
            yield made

    def test_it_grows_and_shrinks(self, site: Site, tmp_path: Path) -> None:
        site.pool.scale(3)
        busy = [site.pool.submit(touch_and_wait, tmp_path / f"{each}", tmp_path / "go") for each in range(3)]
        wait_until(lambda: all((tmp_path / f"{each}").exists() for each in range(3)), _PATIENCE)
        site.pool.scale(2)
        (tmp_path / "go").touch()
        assert [each.result(_PATIENCE) for each in busy] == [os.environ.get(VISIBLE, "")] * 3
        assert site.pool.submit(abs, -1).result(_PATIENCE) == 1

    def test_it_listens_to_this_machine_alone(self, site: Site) -> None:
        assert site.pool.submit(abs, -1).result(_PATIENCE) == 1
        assert _listening() == {"127.0.0.1"}

    def test_its_processes_share_nothing_any_more_when_they_are_gone(self, site: Site) -> None:
        assert site.pool.submit(abs, -1).result(_PATIENCE) == 1
        shared = {each for process in _children("process_worker_pool") for each in _semaphores(process)}
        assert shared and all(each.exists() for each in shared)
        site.end()
        wait_until(lambda: not any(each.exists() for each in shared), _PATIENCE)

    def test_a_lost_manager_costs_no_call(self, site: Site, tmp_path: Path) -> None:
        call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "go")
        wait_until((tmp_path / "begun").exists, _PATIENCE)
        _kill_children("process_worker_pool")
        (tmp_path / "go").touch()
        assert call.result(_PATIENCE) == os.environ.get(VISIBLE, "")

    def test_a_lost_interchange_fails_calls(self, site: Site, tmp_path: Path) -> None:
        call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "never")
        wait_until((tmp_path / "begun").exists, _PATIENCE)
        _kill_children("interchange")
        assert isinstance(call.exception(_PATIENCE), EngineLost)
        assert isinstance(site.pool.submit(abs, -1).exception(_PATIENCE), EngineLost)
        site.end()
        wait_until(lambda: not site.processes(), 60, f"no process is left of {site.processes()}")

    def test_each_process_has_gpus_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VISIBLE, "GPU-a,GPU-b")
        with site_of(lambda: ParslEngine(2, Needs(gpus=1))) as site:
            assert _seen_gpus(site.pool, tmp_path) == ["GPU-a", "GPU-b"]

    def test_a_limit_that_nobody_keeps_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="memory: nobody keeps"):
            ParslEngine(1, Needs(memory=1 << 30))

    def test_what_is_not_of_parsl_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="dict cannot be used"):
            Executor(target=ParslEngine(1, Needs(), config={})).submit(abs, -1)


def _seen_gpus(pool: Executor, folder: Path) -> list[str]:
    calls = [pool.submit(touch_and_wait, folder / f"{each}", folder / "go") for each in range(2)]
    wait_until(lambda: (folder / "0").exists() and (folder / "1").exists(), _PATIENCE)
    (folder / "go").touch()
    return sorted(each.result(_PATIENCE) for each in calls)


class Server:
    """A Redis that keeps nothing, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [components.redis_server(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
             "no", "--dir", str(self._folder)], stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(self._answers)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def client(self) -> Any:
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return bool(client.ping())
        return False


@pytest.mark.xdist_group("celery")
class TestCelery(Promises):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        made = Server(tmp_path_factory.mktemp("redis"))
        yield made
        made.stop()

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, server: Server) -> Iterator[Site]:
        with site_of(lambda: CeleryEngine(server.url, Needs(), workers=2)) as made:
            yield made

    def test_it_grows(self, site: Site, tmp_path: Path) -> None:
        site.pool.scale(3)
        busy = [site.pool.submit(touch_and_wait, tmp_path / f"{each}", tmp_path / "go") for each in range(3)]
        wait_until(lambda: all((tmp_path / f"{each}").exists() for each in range(3)), _PATIENCE)
        (tmp_path / "go").touch()
        assert len([each.result(_PATIENCE) for each in busy]) == 3
        site.pool.scale(2)

    def test_its_end_leaves_nothing_in_redis(self, site: Site, server: Server) -> None:
        assert site.pool.submit(abs, -1).result(_PATIENCE) == 1
        site.end()
        assert server.client().keys("*") == []

    def test_connections_that_break_cost_no_call(self, site: Site, server: Server) -> None:
        calls = [site.pool.submit(abs, -each) for each in range(200)]
        server.client().client_kill_filter(skipme=True, _type="normal")
        calls += [site.pool.submit(abs, -each) for each in range(200, 400)]
        outcomes = [each.exception(_PATIENCE) or each.result() for each in calls]
        assert outcomes == list(range(400))

    def test_a_redis_that_starts_anew_loses_calls_and_none_waits(self, server: Server, tmp_path: Path) -> None:
        with site_of(lambda: CeleryEngine(server.url, Needs(), workers=2)) as site:
            call = site.pool.submit(touch_and_wait, tmp_path / "begun", tmp_path / "go")
            wait_until((tmp_path / "begun").exists, _PATIENCE)
            waiting = [site.pool.submit(abs, -each) for each in range(20)]
            server.stop()
            server.start()
            outcomes = [each.exception(_PATIENCE) for each in [call, *waiting]]
            assert {type(each) for each in outcomes[1:]} <= {EngineLost, type(None)}
            assert isinstance(outcomes[0], EngineLost)
            (tmp_path / "go").touch()
            assert site.pool.submit(abs, -1).result(_PATIENCE) == 1

    def test_a_worker_that_is_gone_is_replaced(self, site: Site, tmp_path: Path) -> None:
        again = site.pool.submit(touch_and_wait, tmp_path / "0", tmp_path / "go")
        once = site.pool.options(retries=0).submit(touch_and_wait, tmp_path / "1", tmp_path / "go")
        wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), _PATIENCE)
        waiting = site.pool.options(retries=0).submit(abs, -1)
        _kill_children("celery")
        assert isinstance(once.exception(_PATIENCE), WorkerDied)
        (tmp_path / "go").touch()
        assert again.result(_PATIENCE) == os.environ.get(VISIBLE, "")
        assert waiting.result(_PATIENCE) == 1

    def test_a_redis_that_is_not_there_is_told(self) -> None:
        with pytest.raises(Unavailable, match="Redis"):
            Executor(target=CeleryEngine("redis://127.0.0.1:1/0", Needs(), workers=1)).submit(abs, -1)

    def test_each_process_has_gpus_of_its_own(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VISIBLE, "GPU-a,GPU-b")
        with site_of(lambda: CeleryEngine(server.url, Needs(gpus=1), workers=2)) as site:
            assert _seen_gpus(site.pool, tmp_path) == ["GPU-a", "GPU-b"]

    def test_workers_elsewhere_make_only_what_is_signed(self, server: Server, tmp_path: Path) -> None:
        key = tmp_path / "key"
        key.touch(0o600)
        key.write_text(uuid.uuid4().hex)
        argv = [sys.executable, "-m", "turnout.futures.celery_worker", "--queue", "mine", "--key-file", str(key)]
        worker = subprocess.Popen(
            [*argv, "--workers", "1"], env={**os.environ, "CELERY_BROKER_URL": server.url}, start_new_session=True,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            engine = CeleryEngine(server.url, Needs(), queue="mine", key=key.read_bytes())
            other = CeleryEngine(server.url, Needs(), queue="mine", key=b"another key that nobody has")
            with Executor(target=engine) as pool:
                _forge(server.url, "mine", tmp_path / "forged")
                strange = Executor(target=other)
                wrong = strange.submit(Path.touch, tmp_path / "wrong")
                assert pool.submit(abs, -1).result(_PATIENCE) == 1
                assert pool.submit(len, bytes(1 << 20)).result(_PATIENCE) == 1 << 20
                assert server.client().keys(prefix("mine") + "call:*") == [], "what was large is gone"
            assert not wrong.done() and wrong.cancel()
            strange.stop()
            assert worker.stderr is not None
            assert [worker.stderr.readline()[:8] for _ in range(2)] == ["refused:"] * 2
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.communicate()
        assert not (tmp_path / "forged").exists() and not (tmp_path / "wrong").exists()
        late = server.client().keys(prefix("mine") + "*outcomes*")
        assert all(server.client().ttl(each) > 0 for each in late), "what comes after the end goes by itself"

    def test_a_key_that_others_can_read_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(uuid.uuid4().hex)
        argv = [sys.executable, "-m", "turnout.futures.celery_worker", "--key-file", str(tmp_path / "key")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "others can read the key" in done.stderr


class Touch:
    """What touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


def _forge(url: str, queue: str, path: Path) -> None:
    """Puts a call into Redis that would touch `path`, as one can who does not have the key."""
    import pickle

    text = base64.b64encode(bytes(32) + pickle.dumps(Touch(path), 5)).decode()
    make_app(url, queue).send_task(TASK, (text,), task_id=uuid.uuid4().hex)
