"""The plugin host: classes by their path run in a process of their own, and what they do there stays there."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.harness import wait_until
from turnout.engine.host import Host, PluginFailure
from turnout.engine.hosted import HostedForeign, HostedProvider, hosted
from turnout.plugin.foreign import Foreign, StatusQuery
from turnout.plugin.provider import Failure, Finding, Launch, Observation, Phase, Provider, Work
from turnout.plugin.remote import METHODS, Plugin

CLASS = """
import json, os, sys, time
from turnout.plugin.provider import *

class Mine(Provider):
    name = "mine"
    capabilities = Capabilities(launches="runs", wall_time=True)

    def submit(self, launches):
        full = Failure("full", kind="throttled", retry_after=3.0)
        if launches[0].token == "slow":
            print("about to submit", flush=True)
            time.sleep(1)
        return [full if each.token == "no" else each.token + ":" + each.work.run for each in launches]

    def observe(self, handles):
        return {each: Observation(Phase.ACTIVE, id="7", url="https://x", exit_code=2) for each in handles[1:]}

    def cancel(self, handles):
        print("cancelled", *handles)
        raise Failure("log in first", kind="login")

    def find(self, token):
        if token == "pid":
            return str(os.getpid())
        if token == "settings":
            return json.dumps(sorted(self.settings))
        if token == "hang":
            print("about to hang", flush=True)
            time.sleep(60)
        if token == "die":
            print("last words", flush=True)
            os._exit(9)
        if token == "exit":
            sys.exit("enough")
        return None

    def check(self):
        return [Finding("warning", "so so", "look again")]

    def seats(self):
        return ("a", "b")

    def seat_max_runs(self, seat):
        return {"a": 2}.get(seat)
"""
WORK = Work(
    job="job1", run="run1", attempt=1, workspace="w", experiment="e", argv=["a", "b\n"], command=["a"], files="/f"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text(CLASS)
    return tmp_path


@pytest.fixture
def make(project: Path) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(project, [str(project)], project / "logs" / "own.log", **options))
        return made[-1]

    yield make
    for host in made:
        host.close()


def plugin(path: str = "own.mine.Mine", **settings: object) -> Plugin:
    return Plugin(
        path=path, target="t", service="s", settings=settings, definition={}, username="me", records="/nowhere"
    )


def launch(token: str) -> Launch:
    return Launch(token=token, node="n", directory="d", argv=(), stdin=b"\0\xff", env={"K": "v"}, work=WORK)


def test_a_provider_over_there_is_as_here(make: Callable[..., Host]) -> None:
    """Arguments, answers and the kinds of failures arrive as they are."""
    host, settings = make(), {"sku": "G4"}
    provider = hosted(host.call(plugin(**settings), "describe"), settings, host, plugin(**settings))
    assert (provider.name, provider.capabilities.launches, provider.capabilities.wall_time) == ("mine", "runs", True)
    assert (provider.seats(), provider.seat_max_runs("a"), provider.seat_max_runs("b")) == (("a", "b"), 2, None)
    handle, failure = provider.submit([launch("t1"), launch("no")])
    assert handle == "t1:run1"
    assert isinstance(failure, Failure) and (failure.message, failure.kind, failure.retry_after) == (
        "full",
        "throttled",
        3,
    )
    assert provider.observe(["a", "b"]) == {"b": Observation(Phase.ACTIVE, id="7", url="https://x", exit_code=2)}
    assert (provider.find("x"), provider.find("settings")) == (None, '["sku"]')
    assert provider.check() == [Finding("warning", "so so", "look again")]
    with pytest.raises(Failure, match="log in first") as caught:
        provider.cancel(["h"])
    assert caught.value.kind == "login"


@pytest.mark.parametrize(("here", "contract"), [(HostedProvider, Provider), (HostedForeign, Foreign)])
def test_every_method_of_the_contract_goes_over(here: type, contract: type) -> None:
    methods = [name for name, _ in inspect.getmembers(contract, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in methods if getattr(here, name) is getattr(contract, name)] == []
    assert set(methods) - METHODS.keys() <= {"seats", "seat_max_runs"}, "these are answered here"


def test_what_it_prints_is_in_a_log(make: Callable[..., Host], project: Path) -> None:
    with pytest.raises(PluginFailure):
        make().call(plugin(), "cancel", ["h1", "h2"])
    assert "cancelled h1 h2" in (project / "logs" / "own.log").read_text()


def test_a_crash_is_a_failure_with_the_last_words_and_the_next_call_works(make: Callable[..., Host]) -> None:
    host = make()
    first = host.call(plugin(), "find", "pid")
    with pytest.raises(PluginFailure, match=r"own.mine.Mine ended \(exit code 9\) in find") as caught:
        host.call(plugin(), "find", "die")
    assert (caught.value.kind, caught.value.trace) == ("transient", "last words")
    assert host.call(plugin(), "find", "pid") != first


def test_one_that_is_killed_is_told_so(make: Callable[..., Host]) -> None:
    host = make()
    os.kill(int(host.call(plugin(), "find", "pid")), signal.SIGKILL)
    wait_until(lambda: host.pid is None)
    assert host.call(plugin(), "find", "x") is None, "it is started again with the next call"


def test_those_that_died_between_two_calls_leave_no_descriptor_open(make: Callable[..., Host]) -> None:
    host = make()
    first = int(host.call(plugin(), "find", "pid"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: host.pid is None)
        first = int(host.call(plugin(), "find", "pid"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_call_that_takes_too_long_is_a_failure_and_its_process_is_ended(make: Callable[..., Host]) -> None:
    host = make(limit=0.8)
    host.call(plugin(), "describe")
    pid = host.pid
    with pytest.raises(PluginFailure, match=r"did not answer find within 0.8 s") as caught:
        host.call(plugin(), "find", "hang")
    assert (caught.value.kind, caught.value.trace) == ("transient", "about to hang")
    assert pid is not None and host.pid is None and not Path(f"/proc/{pid}").exists()


def test_an_exception_is_told_with_the_place_in_the_plugin_and_nothing_of_ours(make: Callable[..., Host]) -> None:
    host = make()
    with pytest.raises(PluginFailure, match=r"own.mine.Mine, find: SystemExit: enough") as caught:
        host.call(plugin(), "find", "exit")
    lines = caught.value.trace.splitlines()
    assert lines[1].endswith("in find") and "own/mine.py" in lines[1] and lines[-1] == "SystemExit: enough"
    assert "compat/child.py" not in caught.value.trace and host.pid is not None


@pytest.mark.parametrize(
    ("path", "source", "said", "trace"),
    [
        ("own.nothing.Mine", "", "own.nothing cannot be imported: ModuleNotFoundError: No module named", ""),
        ("own.mine.Yours", "", "there is no class Yours in ", ""),
        ("own.bad.Mine", "import os\n1 / 0\n", "own.bad cannot be imported: ZeroDivisionError", 'own/bad.py", line 2'),
        ("own.bad.Mine", "class Mine:\n    def\n", "own.bad cannot be imported: SyntaxError", 'own/bad.py", line 2'),
        ("own.bad.Mine", "class Mine: pass\n", "neither a subclass of turnout.plugin.provider.Provider", ""),
        (
            "own.bad.Mine",
            CLASS.replace("def find", "def fnd"),
            "own.bad.Mine is a Provider without find",
            "",
        ),
        (
            "own.bad.Mine",
            CLASS + "\n    def __init__(self, settings):\n        raise ValueError('no key')\n",
            "own.bad.Mine cannot be made: ValueError: no key",
            "in __init__",
        ),
        (
            "own.bad.Mine",
            CLASS + "\n    import dataclasses\n    Settings = dataclasses.make_dataclass('S', [('zone', str)])\n",
            "target t has no 'zone', which its provider needs",
            "",
        ),
    ],
)  # fmt: skip
def test_a_broken_plugin(
    make: Callable[..., Host], project: Path, path: str, source: str, said: str, trace: str
) -> None:
    (project / "own" / "bad.py").write_text(source)
    host = make()
    with pytest.raises(PluginFailure) as caught:
        host.call(plugin(path), "describe")
    assert said in caught.value.message and trace in caught.value.trace and caught.value.kind == "rejected"
    assert host.call(plugin(), "describe").name == "mine", "another class of the same project is not harmed"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{1, 2}", "own.bad.Mine, check: TypeError: Object of type set"),
        ("[3]", "answered check with what it may not: [3]"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(make: Callable[..., Host], project: Path, answer: str, said: str) -> None:
    (project / "own" / "bad.py").write_text(f"{CLASS}\n    def check(self):\n        return {answer}\n")
    with pytest.raises(PluginFailure) as caught:
        make().call(plugin("own.bad.Mine"), "check")
    assert said in caught.value.message


def test_a_hub_that_stops_does_not_wait_for_ever(make: Callable[..., Host], project: Path) -> None:
    host = make()
    with ThreadPoolExecutor() as threads:
        hanging = threads.submit(host.call, plugin(), "find", "hang")
        wait_until(lambda: (project / "logs" / "own.log").exists() and host.pid is not None)
        wait_until(lambda: "about to hang" in (project / "logs" / "own.log").read_text())
        host.close()
        with pytest.raises(PluginFailure, match=r"ended .signal SIGKILL. in find"):
            hanging.result(5)


def test_a_hub_that_stops_waits_for_what_is_being_submitted(
    make: Callable[..., Host], project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However little patience it has else: a submission whose answer is lost would be made again."""
    monkeypatch.setattr("turnout.engine.host._FAREWELL", 0.1)
    host = make()
    with ThreadPoolExecutor() as threads, caplog.at_level("INFO"):
        slow = threads.submit(host.call, plugin(), "submit", [launch("slow")])
        wait_until(lambda: (project / "logs" / "own.log").exists())
        wait_until(lambda: "about to submit" in (project / "logs" / "own.log").read_text())
        host.close()
        assert slow.result(5) == ["slow:run1"] and host.pid is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert "own.mine.Mine submits; it is waited for, for up to " in said


def test_nothing_begins_once_the_hub_is_about_to_stop(make: Callable[..., Host], project: Path) -> None:
    host = make()
    host.call(plugin(), "describe")
    host.retire()
    with pytest.raises(PluginFailure, match="the hub is about to stop") as caught:
        host.call(plugin(), "submit", [launch("slow")])
    assert caught.value.kind == "transient"
    assert "about to submit" not in (project / "logs" / "own.log").read_text()


def test_names_of_the_project_do_not_clash_with_ours(make: Callable[..., Host], project: Path) -> None:
    for name in ("turnout", "json", "queue"):
        (project / f"{name}.py").write_text("raise ImportError('the wrong one')\n")
    assert make().call(plugin(), "describe").name == "mine"


def test_it_ends_when_nobody_needs_it(make: Callable[..., Host]) -> None:
    host = make(idle=0.2)
    host.call(plugin(), "describe")
    wait_until(lambda: host.pid is None, 5.0)
    assert host.call(plugin(), "find", "x") is None


def test_it_ends_with_the_hub_however_that_ends(project: Path) -> None:
    """Also amid a call: it sees the end of its pipe."""
    program = (
        "import sys, threading; from pathlib import Path; from turnout.engine.host import Host\n"
        "from tests.unit.test_host import plugin\n"
        "host = Host(Path(sys.argv[1]), [sys.argv[1]], Path(sys.argv[1], 'log'))\n"
        "print(host.call(plugin(), 'find', 'pid'), flush=True); host.call(plugin(), 'find', 'hang')\n"
    )
    hub = subprocess.Popen(
        [sys.executable, "-c", program, str(project)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert hub.stdout is not None
    child = Path("/proc", hub.stdout.readline().decode().strip())
    wait_until(lambda: "about to hang" in (project / "log").read_text())
    assert child.exists()
    hub.kill()
    hub.wait()
    wait_until(lambda: not child.exists() or "Z" in (child / "stat").read_text(), 5.0)


STATUS = """
import os, time
class Cloud:
    def adjust_run_commands(self, **given): pass
    def submit_job(self, **given): pass
    def view_status(self, run_name, monitor, **given):
        print("of", run_name, flush=True)
        os.system("echo from a program")
        if run_name == "bad":
            raise ValueError("no such run there")
        while monitor:
            print("again", flush=True)
            time.sleep(0.05)
    def provides_container_support(self): return True
    def cancel_runs_by_names(self, **given): pass
    def cancel_runs_by_job(self, **given): pass
    def cancel_runs_by_user(self, **given): pass
"""


@pytest.fixture
def cloud(make: Callable[..., Host], project: Path) -> HostedForeign:
    (project / "cloud.py").write_text(STATUS)
    host = make()
    mine = plugin("cloud.Cloud")
    provider = hosted(host.call(mine, "describe"), {}, host, mine)
    assert isinstance(provider, HostedForeign) and provider.capabilities.containers
    return provider


def test_a_status_is_what_it_and_its_programs_print(cloud: HostedForeign) -> None:
    assert "".join(cloud.told(StatusQuery(run="run1"))) == "of run1\nfrom a program\n"


def test_a_status_that_fails_tells_what_it_printed_and_why(cloud: HostedForeign) -> None:
    told: list[str] = []
    with pytest.raises(PluginFailure, match="ValueError: no such run there"):
        told.extend(cloud.told(StatusQuery(run="bad")))
    assert "".join(told).startswith("of bad\n")


def test_a_status_that_goes_on_ends_when_nobody_reads_and_keeps_nobody_waiting(cloud: HostedForeign) -> None:
    told = cloud.told(StatusQuery(run="run1", monitor=True))
    seen = next(told)
    while "again" not in seen:
        seen += next(told)
    began = time.monotonic()
    assert cloud.check()[0].level == "ok" and time.monotonic() - began < 5
    told.close()  # type: ignore[attr-defined]
    children = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"turnout.compat.child" in _read(path)]
    assert all(_parent(path) != os.getpid() for path in children if str(cloud._host.pid) not in str(path))


def test_a_status_that_goes_on_beyond_its_seconds_is_given_up(
    cloud: HostedForeign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it prints."""
    monkeypatch.setattr("turnout.engine.hosted._OVERTIME", 0.0)
    with pytest.raises(PluginFailure, match=r"did not tell its status within 0\.5 s"):
        for _ in cloud.told(StatusQuery(run="run1", monitor=True, seconds=0.5)):
            pass


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parent(path: Path) -> int:
    try:
        return int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
