"""A TrialKeeper's parts: tickets, metrics among printed lines, and what NNI's own keeper says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnout.compat.nni.keeper import saying, tickets
from turnout.compat.nni.keeper.beginning import Beginning, NotBegun
from turnout.compat.nni.keeper.bell import Bell
from turnout.compat.nni.keeper.printed import Printed, points, record
from turnout.compat.nni.keeper.saying import Said
from turnout.compat.nni.keeper.streams import OUTPUT, Streams
from turnout.compat.nni.keeper.talking import Hub, Refused
from turnout.compat.nni.keeper.waiting import KeeperProvider
from turnout.errors import InvalidInput
from turnout.plugin.provider import Launch, Phase
from turnout.wire import frames, nni
from turnout.wire.http import Unreachable
from turnout.wire.messages import Attempt, Chunk, Fact, Grant, JobOrder, Orders, Welcome, dump

ORDER = {
    "address": ["/sockets/agent.sock", "file:relay.address", "tls:hub.example:7000#abc"], "token": "secret",
    "launch_token": "l", "node": "cloud#job1.0", "run": "run1", "directory": "nodes/1", "quota": 5,
}  # fmt: skip


def told(number: int, value: str = "0.5") -> bytes:
    return json.dumps({"type": "PERIODICAL", "sequence": number, "value": value}).encode()


class TestTickets:
    def test_what_was_written_is_read(self) -> None:
        read = tickets.read(tickets.write(ORDER))
        assert read == {
            "address": ["/sockets/agent.sock", "tls:hub.example:7000#abc"], "token": "secret", "launch_token": "l",
            "node": "cloud#job1.0", "run": "run1",
        }  # fmt: skip

    @pytest.mark.parametrize(
        "text", ["", "tkt_", "tkt_!!!", "tkt_e30=", "tkt_W10=", "secret", tickets.write(ORDER)[:-9]]
    )
    def test_what_is_none_is_refused_and_not_repeated(self, text: str) -> None:
        with pytest.raises(InvalidInput) as error:
            tickets.read(text)
        assert tickets.VARIABLE in error.value.message and "--print-token" in error.value.hint
        assert not text or text not in error.value.message

    def test_among_files_it_is_the_newest_of_the_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".turnout").mkdir()
        for name in ("run1.2", "run1.10", "run2.1", "run1.3.1"):
            (tmp_path / ".turnout" / f"{name}.json").write_text(json.dumps({"token": name}))
        assert tickets.among_files("run1", {})["token"] == "run1.10"
        assert tickets.among_files("run1.3", {})["token"] == "run1.3.1"
        assert tickets.among_files(None, {"NNI_TRIAL_JOB_ID": "run2"})["token"] == "run2.1"
        for run, environ in ((None, {}), ("run9", {}), (None, {"NNI_TRIAL_JOB_ID": "other"})):
            with pytest.raises(InvalidInput) as error:
                tickets.among_files(run, environ)
            assert "run1, run1.3, run2" in error.value.hint

    def test_a_token_goes_in_plain_text_to_this_machine_alone(self) -> None:
        known = ["/sockets/agent.sock", "tls:hub.example:7000#abc"]
        assert tickets.addresses(known, None, None) == known
        assert tickets.addresses(known, "10.0.0.1", "80") == ["tls:10.0.0.1:80#abc"]
        assert tickets.addresses(known[:1], "127.0.0.1", "80") == ["tcp:127.0.0.1:80"]
        with pytest.raises(InvalidInput, match=r"will not send a token to 10\.0\.0\.1"):
            tickets.addresses(known[:1], "10.0.0.1", "80")
        for host, port in (("h", None), (None, "80"), ("h", "x")):
            with pytest.raises(InvalidInput, match="go together"):
                tickets.addresses(known, host, port)

    def test_a_command_that_takes_its_run_names_the_order_of_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".turnout").mkdir()
        (tmp_path / ".turnout" / "run1.2.1.json").touch()
        command = "python3 .turnout/agent-0a.pyz exec .turnout/{} -- train --lr 0.1"
        assert tickets.takes_its_run("exec " + command.format("run1.2.1.json"))
        assert tickets.takes_its_run(". ./.turnout/0a.env; exec " + command.format("run1.2.1.json"))
        for other in (command.format("run3.1.json"), "cat .turnout/run1.2.1.json", "echo 'exec", "train.sh"):
            assert not tickets.takes_its_run(other)


class SilentBell(Bell):
    """Nothing wakes it, and it does not wait."""

    def __init__(self) -> None:
        self.signals = []

    def wait(self, seconds: float) -> None:
        pass


class ToldHub(Hub):
    """Gives one run; `begun` bytes are there of the note that it began. Answers that are `lost` are of reports that
    were taken."""

    def __init__(
        self, *, begun: int = 0, is_fenced: bool = False, leaves: bool = False, lost: Sequence[int] = ()
    ) -> None:
        self._begun, self._lost, self._count = begun, lost, 0
        self._is_fenced, self._leaves = is_fenced, leaves

    def hello(self, held: Sequence[Attempt]) -> Welcome:
        return Welcome(node="n", lease=30.0, idle=0.0, max_runs=1, fenced=[])

    def poll(self, held: Sequence[Attempt], wait: float) -> Orders:
        return Orders([] if self._leaves else [GRANT], [JOB], [], [], exit=self._leaves)

    def report(self, held: Sequence[Attempt], facts: list[Fact], pieces: list[tuple[Chunk, bytes]]) -> Orders:
        ((chunk, _),) = pieces
        if chunk.offset == 0:
            self._begun = max(self._begun, chunk.size)
        self._count += 1
        if self._count in self._lost:
            raise Unreachable("gone")
        fenced = [(GRANT.run, GRANT.attempt)] if self._is_fenced else []
        return Orders([], [], [], fenced, acks={chunk.key: self._begun})


GRANT = Grant(run=1, attempt=1, name="run1", job=1, argv=[], params={}, slots=1.0, memory=0, gpus=0)
JOB = JobOrder(
    job=1, experiment="e", workspace="w", kind="command", script=None, script_path=None, before=None,
    after=[], env={}, seconds=None, grace=10.0, memory=None,
)  # fmt: skip


class TestBeginning:
    @pytest.mark.parametrize("lost", [(), (1,), (2,), (1, 2), (2, 3), (2, 4)])
    def test_whichever_answer_is_lost(self, lost: Sequence[int]) -> None:
        """A note of ours is not taken for somebody else's."""
        claimed = Beginning(ToldHub(lost=lost), SilentBell(), "run1", 300.0).claim()
        assert (claimed.grant, claimed.job, claimed.lease) == (GRANT, JOB, 30.0)

    @pytest.mark.parametrize("hub", [ToldHub(begun=10), ToldHub(is_fenced=True), ToldHub(leaves=True)])
    def test_there_is_nothing_to_do(self, hub: ToldHub) -> None:
        with pytest.raises(NotBegun, match="nothing to do here") as end:
            Beginning(hub, SilentBell(), "run1", 300.0).claim()
        assert end.value.code == 0

    def test_a_hub_that_always_refuses_is_not_waited_for_for_ever(self) -> None:
        class Refusing(ToldHub):
            def poll(self, held: Sequence[Attempt], wait: float) -> Orders:
                raise Refused(409, "say hello first")

        with pytest.raises(NotBegun, match=r"say hello first.*not executed") as end:
            Beginning(Refusing(), SilentBell(), "run1", 0.0).claim()
        assert end.value.code == 126


def test_only_a_trial_that_goes_on_is_told_of_to_a_newer_hub() -> None:
    """Its keeper cannot begin anew with a newer program. One that has none yet is better refused: see `Hello.fixed`."""
    said: list[bool] = []

    class Heard(Hub):
        def _ask(self, path: str, body: bytes, timeout: float = 30.0) -> bytes:
            said.append(json.loads(body)["fixed"])
            return dump(Welcome(node="n", lease=30.0, idle=0.0, max_runs=1, fenced=[]))

    hub = Heard({"address": "file:nowhere", "token": ""})
    hub.hello([])
    hub.hello([(1, 1)])
    assert said == [False, True]


#: The first process of a container: what the trial leaves becomes its own, and nobody else collects it.
FIRST_PROCESS = """
import os, sys, time
from turnout.agent.tree import become_subreaper
from turnout.compat.nni.keeper.trial import Trial
assert become_subreaper()
trial = Trial("sleep 600 & touch begun; wait", dict(os.environ), "output", limit=None, grace=600.0)
while not os.path.exists("begun"):
    time.sleep(0.01)
trial.end("cancelled")
while (code := trial.code()) is None:
    time.sleep(0.01)
print(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nobody adopts orphans there")
def test_a_trial_of_the_first_process_is_over_when_its_processes_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PROCESS], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "-15\n"


class TestPrinted:
    @pytest.mark.parametrize("size", [1, 7, 64, 10_000])
    def test_however_it_is_cut(self, size: int) -> None:
        lines = b"words\nNNISDK_MEb'%b'\n50%%NNISDK_MEb'%b'\r\nNNISDK_ME\nNNISDK_MEb'cut" % (told(0), told(1, "it's"))
        printed = Printed()
        found = b"".join(printed.take(lines[at : at + size]) for at in range(0, len(lines), size))
        assert found == record(told(0)) + record(told(1, "it's"))

    def test_a_long_line_is_not_kept(self) -> None:
        printed = Printed()
        assert printed.take(b"x" * (3 * nni.LONGEST)) == b""
        assert printed.take(b"NNISDK_MEb'%b'\n" % told(4)) == record(told(4))
        assert printed.take(b"NNISDK_MEb'" + b"y" * (3 * nni.LONGEST)) == b""
        assert printed.take(b"'\nNNISDK_MEb'%b'\n" % told(5)) == record(told(5))

    def test_points_are_as_the_run_would_log_them(self) -> None:
        assert points(record(told(3)), 7.0) == [{"t": 7.0, "s": 3, "m": {"default": 0.5}}]


class TestStreams:
    def test_only_what_was_acknowledged_counts(self, tmp_path: Path) -> None:
        (tmp_path / "track").mkdir()
        streams = Streams(str(tmp_path), str(tmp_path / "metrics"), silent=False)
        (tmp_path / OUTPUT).write_bytes(b"one\nNNISDK_MEb'%b'\n" % told(0))
        streams.look()
        streams.look()
        first = list(streams.pieces())
        assert {name for name, _, _ in first} == {OUTPUT, "track/printed"} and streams.is_all_offered()
        streams.acknowledge({})
        assert list(streams.pieces()) == first, "nobody answered: all of it once more"
        streams.acknowledge({OUTPUT: 4})
        again = {name: (offset, content) for name, offset, content in streams.pieces()}
        assert again[OUTPUT] == (4, (tmp_path / OUTPUT).read_bytes()[4:])
        (frame,) = frames.scan(again["track/printed"][1])
        assert json.loads(frame.payload)["m"] == {"default": 0.5}

    def test_a_silent_one_keeps_its_output(self, tmp_path: Path) -> None:
        (tmp_path / "track").mkdir()
        streams = Streams(str(tmp_path), str(tmp_path / "metrics"), silent=True)
        (tmp_path / OUTPUT).write_bytes(b"words\n")
        streams.look()
        assert list(streams.pieces()) == [] and streams.seal()[0] == 0


class TestSaying:
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("[x] INFO subprocess terminated. Exit code is 0. Quit", 0),
            ("[x] INFO subprocess terminated. Exit code is -9. Quit", -9),
            ("[x] INFO NNI trial keeper exit with code 3", 3),
            ("[x] ERROR Exit trial keeper with code 1 because Exception: gone is catched", 1),
            ("[x] INFO Trial keeper spawns a subprocess (pid 7) to run command: ['true']", None),
        ],
    )
    def test_how_it_ended_is_in_the_keeper_s_own_lines(self, text: str, code: int | None) -> None:
        assert saying.line({"tag": "trial_keeper", "msg": text}).code == code

    def test_a_trial_cannot_end_itself_by_words(self) -> None:
        said = saying.line({"tag": "trial", "msg": "Exit code is 0. Quit"})
        assert said == Said(output=b"Exit code is 0. Quit\n")

    def test_metrics_are_no_output(self) -> None:
        assert saying.line({"tag": "trial", "msg": f"NNISDK_MEb'{told(1).decode()}'"}) == Said(metrics=record(told(1)))
        assert saying.metrics({"metrics": [told(1).decode()]}) == Said(metrics=record(told(1)))


def test_a_target_of_keepers_starts_nothing() -> None:
    provider = KeeperProvider({})
    launch = Launch(token="t", node="n", directory="d", argv=(), stdin=b"")
    assert provider.submit([launch]) == ["t"] and provider.observe(["t"])["t"].phase is Phase.PENDING
    assert provider.find("t") is None and provider.check()[0].level == "ok"
