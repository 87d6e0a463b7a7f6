"""`turnout.Executor` in a notebook: a real Jupyter kernel, whose cells define what is called, and are interrupted."""

from __future__ import annotations

import queue
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.harness import short_folder, wait_until

pytestmark = pytest.mark.timeout(120)

FIRST_CELL = """
    import os, signal, threading, time
    from pathlib import Path
    import turnout
    from turnout.futures.dask import DaskLocal
    from turnout.futures.engine import Needs

    here = turnout.Executor(workers=2)
    dask = turnout.Executor(DaskLocal(1, Needs()), workers=1)

    def touch_and_wait(name):
        Path(name).touch()
        while not os.path.exists("go"):
            time.sleep(0.002)
        with open("made", "a") as file:
            file.write(name)
        return name
"""


@dataclass(frozen=True)
class Cell:
    """What came of one."""

    value: str = ""
    printed: str = ""
    error: str = ""


class Notebook:
    """``notebook("1 + 1").value == "2"``; what cells define is there for the next."""

    def __init__(self, kernel: KernelManager, client: BlockingKernelClient, folder: Path) -> None:
        self.folder = folder
        self._kernel = kernel
        self._client = client

    def __call__(self, code: str) -> Cell:
        return self.end(self.begin(code))

    def begin(self, code: str) -> str:
        return str(self._client.execute(textwrap.dedent(code)))

    def interrupt(self) -> None:
        """As the button with the square does."""
        self._kernel.interrupt_kernel()

    def end(self, cell: str) -> Cell:
        value = printed = error = ""
        while True:
            try:
                said: dict[str, Any] = self._client.get_iopub_msg(timeout=30)
            except queue.Empty:
                raise AssertionError(f"the cell does not end; so far: {value} {printed} {error}") from None
            content = said["content"]
            if said["msg_type"] == "stream":  # also of what is still heard of cells before
                printed += content["text"]
            elif said["parent_header"].get("msg_id") != cell:
                continue
            elif said["msg_type"] == "execute_result":
                value = content["data"]["text/plain"]
            elif said["msg_type"] == "error":
                error = content["ename"]
            elif said["msg_type"] == "status" and content["execution_state"] == "idle":
                return Cell(value, printed, error)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    folder = short_folder()
    kernel = KernelManager(connection_file=str(folder / "kernel.json"), transport="ipc", ip=str(folder / "kernel"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        kernel.start_kernel(cwd=str(folder))
    client = kernel.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        made = Notebook(kernel, client, folder)
        assert made(FIRST_CELL) == Cell()
        yield made
        assert made("here.shutdown(); dask.shutdown()") == Cell()
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
        shutil.rmtree(folder)


@pytest.fixture
def folder(notebook: Notebook) -> Iterator[Path]:
    """Where the notebook is, without what other tests have left there."""
    yield notebook.folder
    for name in ("a", "b", "c", "d", "go", "made"):
        (notebook.folder / name).unlink(missing_ok=True)


@pytest.fixture(params=["here", "dask"])
def executor(request: pytest.FixtureRequest) -> str:
    """What it is called in the notebook."""
    return str(request.param)


def test_what_cells_define_is_called(notebook: Notebook, executor: str) -> None:
    defined = notebook("""
        def double(x):
            return 2 * x

        class Point:
            def __init__(self, x):
                self.x = x

            def moved(self, by):
                return Point(double(self.x) + by)

        def adder(number):
            return lambda x: double(x) + number
    """)
    assert defined == Cell()
    assert notebook(f"{executor}.submit(double, 4).result(30), list({executor}.map(double, range(4)))").value == (
        "(8, [0, 2, 4, 6])"
    )
    moved = f"moved = {executor}.submit(Point(3).moved, 1).result(30); type(moved) is Point, moved.x"
    assert notebook(moved).value == "(True, 7)"
    assert notebook(f"{executor}.submit(adder(100), 4).result(30)").value == "108"
    assert notebook(f"await {executor}.submit(double, 5)").value == "10"


def test_what_a_later_cell_redefines_is_called_anew(notebook: Notebook, executor: str) -> None:
    notebook("""
        def inner(x): return x
        def outer(x): return inner(x), FACTOR
        class Kind:
            def name(self): return "old"
        FACTOR = 1
    """)
    asked = f"""
        calls = [{executor}.submit(inner, 5), {executor}.submit(outer, 5), {executor}.submit(Kind().name)]
        [each.result(30) for each in calls], list({executor}.map(outer, [1]))
    """
    assert notebook(asked).value == "([5, (5, 1), 'old'], [(1, 1)])"
    notebook("def inner(x): return -x\nFACTOR = 2\nclass Kind:\n    def name(self): return 'new'")
    assert notebook(asked).value == "([-5, (-5, 2), 'new'], [(-1, 2)])"


def test_a_call_goes_on_when_the_cell_that_waits_is_interrupted(
    notebook: Notebook, folder: Path, executor: str
) -> None:
    cell = notebook.begin(f"call = {executor}.submit(touch_and_wait, 'a')\ncall.result()")
    wait_until((folder / "a").exists)
    notebook.interrupt()
    assert notebook.end(cell).error == "KeyboardInterrupt"
    (folder / "go").touch()
    assert notebook("call.result(30)").value == "'a'"
    assert notebook(f"{executor}.submit(abs, -1).result(30)").value == "1"
    assert (folder / "made").read_text() == "a"


def test_what_an_interrupted_map_has_not_begun_is_not_made(notebook: Notebook, folder: Path) -> None:
    """Whoever runs the cell again does not wait for what the first one asked for."""
    cell = notebook.begin("list(dask.map(touch_and_wait, 'abcd'))")
    wait_until((folder / "a").exists)
    notebook.interrupt()
    assert notebook.end(cell).error == "KeyboardInterrupt"
    (folder / "go").touch()
    assert notebook("dask.submit(abs, -1).result(30)").value == "1"
    assert (folder / "made").read_text() == "a"


def test_interrupted_amid_a_submission(notebook: Notebook, executor: str) -> None:
    """The cell ends with the interrupt, and the executor goes on as if the call had just been submitted."""
    notebook("""
        class Interrupting:
            def __reduce__(self):
                os.kill(os.getpid(), signal.SIGINT)
                return int, (7,)
    """)
    assert notebook(f"{executor}.submit(abs, -1).result(30)").value == "1"
    assert notebook(f"{executor}.submit(abs, Interrupting())").error == "KeyboardInterrupt"
    assert notebook(f"{executor}.submit(abs, -1).result(30)").value == "1"


def test_interrupted_amid_many_submissions(notebook: Notebook) -> None:
    """Wherever it hits: each call that gave a future has a result. Where Dask looks at what the garbage collector does,
    an interrupt may get lost, so there is an end without it."""
    found = notebook("""
        def interrupted_after(seconds):
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
            calls = []
            try:
                timer.start()
                while len(calls) < 5000:
                    calls.append(here.submit(abs, -len(calls)))
            except KeyboardInterrupt:
                pass
            return [each.result(10) for each in calls] == list(range(len(calls)))

        {interrupted_after(0.001 + number / 10000) for number in range(100)}
    """)
    assert (found.value, found.error) == ("{True}", "")


def test_progress_shows_nothing_where_no_terminal_is(notebook: Notebook, executor: str) -> None:
    cell = f"list({executor}.map(lambda x: time.sleep(0.2) or x, range(6), progress=True))"
    assert notebook(cell) == Cell(value="[0, 1, 2, 3, 4, 5]")
    cell = f"len(list(turnout.as_completed([{executor}.submit(time.sleep, 0.6)], progress=True)))"
    assert notebook(cell) == Cell(value="1")
