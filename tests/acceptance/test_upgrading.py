"""turnout was upgraded while its hub runs: the next command puts a hub of its own version in the old one's place."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import turnout
from tests.faults.scene import is_alive
from tests.harness import Cli, user_environment, wait_until
from turnout.client import Client
from turnout.errors import HubUnreachable
from turnout.home import Home, HubRecord
from turnout.wire.http import Connection
from turnout.wire.protocol import PROTOCOL

PACKAGE = Path(turnout.__file__).parent


@dataclass(frozen=True)
class Copy:
    """turnout as it would be installed in another version; the same user uses it through `cli`."""

    root: Path
    cli: Cli

    def become(self, version: str, *, protocol: int = PROTOCOL) -> Copy:
        """Another version in the same place, as an upgrade leaves it."""
        package = self.root / "turnout"
        (package / "_version.py").write_text(f'__version__ = "{version}"\n')
        (package / "wire" / "protocol.py").write_text(f"PROTOCOL = {protocol}\nOLDEST_HEARD = {PROTOCOL}\n")
        return self

    def __call__(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.cli(*args, check=check, env={"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"})

    def json(self, *args: str) -> Any:
        words = 2 if args[0] in ("hub", "list") else 1
        return json.loads(self(*args[:words], "--json", *args[words:]).stdout)


@pytest.fixture
def install(cli: Cli, tmp_path: Path) -> Callable[[str], Copy]:
    """``install("0.2.0")``: that version, in a place of its own."""

    def make(version: str) -> Copy:
        root = tmp_path / f"turnout-{version}"
        shutil.copytree(PACKAGE, root / "turnout", ignore=shutil.ignore_patterns("__pycache__"))
        return Copy(root, cli).become(version)

    return make


def _begin_run(copy: Copy, mark: Path) -> str:
    """A run that prints its end once `mark` exists."""
    script = 'while [ ! -e "$0" ]; do sleep 0.05; done; echo done'
    (run,) = copy.json("run", "-d", "--no-snapshot", "bash", "-c", script, str(mark))["runs"]
    wait_until(lambda: copy.json("show", run)["state"] == "running", 30.0, f"{run} runs")
    return str(run)


def _agent_log(home: Path) -> str:
    (file,) = home.rglob("agent.log")
    return file.read_text()


def _hub(copy: Copy) -> dict[str, Any]:
    return dict(copy.json("hub", "status"))


def test_a_newer_client_takes_the_place_of_an_older_hub_and_runs_go_on(
    install: Callable[[str], Copy], tmp_path: Path
) -> None:
    older, newer = install("0.1.9"), install("0.1.10")
    run = _begin_run(older, tmp_path / "go")
    before = _hub(older)
    assert before["version"] == "0.1.9"

    shown = newer("show", "--json", run)

    assert json.loads(shown.stdout)["state"] == "running"
    (line,) = shown.stderr.splitlines()
    assert "0.1.9" in line and "0.1.10" in line and "runs go on" in line
    after = _hub(newer)
    assert after["version"] == "0.1.10" and after["pid"] != before["pid"]
    assert [agent["pid"] for agent in after["agents"]] == [agent["pid"] for agent in before["agents"]]
    assert newer("show", run).stderr == "", "it is said once"
    (tmp_path / "go").touch()
    newer("attach", run)
    view = newer.json("show", run)
    assert (view["state"], view["attempts"]) == ("completed", 1)


def test_an_older_client_leaves_a_newer_hub_alone_and_says_what_to_upgrade(install: Callable[[str], Copy]) -> None:
    older, newer = install("0.2.0"), install("0.10.0")
    newer("hub", "start")
    pid = _hub(newer)["pid"]

    refused = older("list", "runs", check=False)

    assert refused.returncode == 4
    assert "0.10.0" in refused.stderr and "0.2.0" in refused.stderr and "pip install --upgrade" in refused.stderr
    assert _hub(older)["pid"] == pid, "looking at it is no use of it"
    assert "stopped" in older("hub", "stop").stdout


def test_an_older_hub_can_be_looked_at_and_stopped_as_it_is(install: Callable[[str], Copy]) -> None:
    older, newer = install("0.1.0"), install("0.2.0")
    older("hub", "start")
    assert _hub(newer)["version"] == "0.1.0"
    assert "stopped" in newer("hub", "stop").stdout
    assert not _hub(newer)["running"]


def test_the_port_of_the_older_hub_is_kept(install: Callable[[str], Copy]) -> None:
    older, newer = install("0.1.0"), install("0.2.0")
    address = older.json("hub", "start", "--listen", "127.0.0.1:0")["tcp"]
    newer("list", "runs")
    assert _hub(newer)["tcp"] == address


def test_starting_the_hub_replaces_an_older_one(install: Callable[[str], Copy]) -> None:
    older, newer = install("0.1.0"), install("0.2.0")
    older("hub", "start")
    told = newer.json("hub", "start", "--listen", "127.0.0.1:0")
    assert told["version"] == "0.2.0" and told["tcp"]


def test_agents_begin_anew_when_hub_and_agents_no_longer_speak_the_same(
    install: Callable[[str], Copy], tmp_path: Path
) -> None:
    """An upgrade in place: the agent's process stays, with its runs, and loads what is installed now."""
    here = install("0.1.0")
    run = _begin_run(here, tmp_path / "go")
    (agent,) = _hub(here)["agents"]

    here.become("0.2.0", protocol=PROTOCOL + 1)
    here("list", "runs")
    wait_until(lambda: "beginning anew" in _agent_log(here.cli.home), 30.0, "the agent loads what is installed now")
    here("run", "--wait", "--no-snapshot", "true")

    (tmp_path / "go").touch()
    here("attach", run)
    view = here.json("show", run)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert b"done" in here("logs", run).stdout.encode()
    assert [each["pid"] for each in _hub(here)["agents"]] == [agent["pid"]]


def test_an_agent_that_no_upgrade_reaches_finishes_what_it_has(install: Callable[[str], Copy], tmp_path: Path) -> None:
    """As on a box, where the program came with it: beginning anew, it finds only the old one."""
    older, newer = install("0.1.0"), install("0.2.0").become("0.2.0", protocol=PROTOCOL + 1)
    run = _begin_run(older, tmp_path / "go")
    (agent,) = _hub(older)["agents"]

    newer("list", "runs")
    wait_until(lambda: "beginning anew" in _agent_log(older.cli.home), 30.0, "it looks for a newer one")
    (other,) = newer.json("run", "-d", "--no-snapshot", "true")["runs"]
    (tmp_path / "go").touch()
    newer("attach", run)
    view = newer.json("show", run)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert b"done" in newer("logs", run).stdout.encode()
    newer("attach", other)
    view = newer.json("show", other)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert agent["pid"] not in [each["pid"] for each in _hub(newer)["agents"]]


class TestDraining:
    """What `turnout hub stop` and an upgrade wait for."""

    @pytest.fixture
    def ask(self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Connection]:
        cli("hub", "start")
        home = Home(cli.home)
        record = HubRecord.load(home)
        assert record is not None
        return lambda: Connection(record.socket, home.token_file.read_text())

    def test_who_waits_is_answered_at_once(self, cli: Cli, ask: Callable[[], Connection], tmp_path: Path) -> None:
        script = f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done'
        (run,) = cli.json("run", "-d", "--no-snapshot", "bash", "-c", script)["runs"]
        answers: list[tuple[int, Any]] = []

        def wait() -> None:
            answer = ask().request("GET", f"/api/runs/{run}/wait?seconds=30", timeout=60)
            answers.append((answer.status, answer.json()))

        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: cli.json("show", run)["state"] == "running")
        cli("hub", "stop", timeout=15)
        waiting.join(5)
        ((status, view),) = answers
        assert status == 200 and view["state"] == "running"
        (tmp_path / "go").touch()

    def test_what_is_being_sent_is_kept(self, cli: Cli, ask: Callable[[], Connection]) -> None:
        """A submission whose last bytes come after the hub was asked to stop is answered, and is there afterwards."""
        spec = {"kind": "command", "display": ["true"], "runs": [{"argv": ["true"]}]}
        body = json.dumps(spec).encode()
        record = HubRecord.load(Home(cli.home))
        assert record is not None
        head = (
            f"POST /api/jobs HTTP/1.1\r\nHost: turnout\r\nAuthorization: Bearer {Home(cli.home).token_file.read_text()}"
            f"\r\nContent-Type: application/json\r\nIdempotency-Key: {'k' * 16}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(record.socket)
            line.sendall(head.encode() + body[:10])
            assert ask().request("GET", "/health").status == 200  # it has read what came before
            assert ask().request("POST", "/api/hub/stop").status == 200
            wait_until(lambda: _is_refused(record.socket), 10.0, "nobody new is served")
            line.sendall(body[10:])
            answer = line.recv(65536)
        assert b" 200 " in answer.splitlines()[0]
        assert cli.json("show", "run1")["name"] == "run1"

    def test_an_upload_that_is_cut_off_is_sent_again(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in user_environment(cli.home).items():
            monkeypatch.setenv(name, value)
        client = Client()
        first = client.hub()["pid"]
        block = b"turnout." * (1 << 17)

        class Blocks:
            """Eight of them; the hub dies in the middle, the first time."""

            def __iter__(self) -> Iterator[bytes]:
                for number in range(8):
                    if number == 4 and is_alive(first):
                        os.kill(first, signal.SIGKILL)
                    yield block

        digest = hashlib.sha256(block * 8).hexdigest()
        client.put_stream(digest, Blocks())
        assert client.missing([digest]) == []
        assert client.hub()["pid"] != first

        def once() -> Iterator[bytes]:
            yield block
            os.kill(client_hub["pid"], signal.SIGKILL)
            yield from [block] * 7 + [b"."]

        client_hub = client.hub()
        with pytest.raises(HubUnreachable):
            client.put_stream(hashlib.sha256(block * 8 + b".").hexdigest(), once())
        client.close()


def _is_refused(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(path)
        except OSError:
            return True
    return False
