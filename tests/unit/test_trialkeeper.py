"""A TrialKeeper's parts: tickets, metrics among printed lines, and what NNI's own keeper says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnout.compat.nni.keeper import saying, tickets
from turnout.compat.nni.keeper.printed import Printed, points, record
from turnout.compat.nni.keeper.saying import Said
from turnout.compat.nni.keeper.streams import OUTPUT, Streams
from turnout.compat.nni.keeper.waiting import KeeperProvider
from turnout.errors import InvalidInput
from turnout.plugin.provider import Launch, Phase
from turnout.wire import frames, nni

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
