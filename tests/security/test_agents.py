"""An agent or an old attempt can do nothing to what is not its own; a submission sent twice does nothing new."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.security.doors import AGENT_SOCKET, Answer, LivingHub, a_spec, enrol, living_hub
from turnout.wire.messages import Chunk, Fact, Hello, NodeFacts, Poll, Report, dump, pack_report
from turnout.wire.protocol import PROTOCOL

pytestmark = pytest.mark.xdist_group("security agents")

TARGET = "elsewhere"
SETTINGS = f"compute-targets:\n  {TARGET}: {{service: local}}\n"
SLOW = {"TURNOUT_LEASE": "60"}


@dataclass
class FakeAgent:
    """Speaks as an agent does, and says what it is told to say."""

    hub: LivingHub
    id: int
    token: str
    held: list[tuple[int, int]] = field(default_factory=list)

    def hello(self) -> Answer:
        facts = NodeFacts("box", 4, 1 << 33, [], "boot", 1, "3.11", "/")
        return self._send("hello", dump(Hello(PROTOCOL, "0", facts, self.held)))

    def poll(self, slots: float = 0.0, held: list[tuple[int, int]] | None = None) -> dict[str, Any]:
        answer = self._send("poll", dump(self._poll(slots, held)))
        assert answer.status == 200, answer.body
        return dict(answer.json())

    def take(self) -> tuple[int, int]:
        """The next run of the queue, as (run, attempt); held from now on."""
        (grant,) = self.poll(slots=1.0)["grants"]
        self.held.append((grant["run"], grant["attempt"]))
        self.poll()
        return self.held[-1]

    def report(self, facts: list[Fact], chunks: list[tuple[Chunk, bytes]] = []) -> Answer:  # noqa: B006 - only read
        message = Report(facts, [chunk for chunk, _ in chunks], self._poll(0.0, None))
        return self._send("report", pack_report(message, [content for _, content in chunks]))

    def tell(self, ref: tuple[int, int], kind: str, **body: Any) -> Answer:
        return self.report([Fact(*ref, kind, 0.0, body)])

    def print(self, ref: tuple[int, int], text: bytes) -> Answer:
        return self.report([], [(Chunk(*ref, "output", 0, len(text)), text)])

    def _poll(self, slots: float, held: list[tuple[int, int]] | None) -> Poll:
        return Poll(slots, 1 << 33, 0, self.held if held is None else held, [], 0.0, protocol=PROTOCOL)

    def _send(self, route: str, body: bytes) -> Answer:
        return self.hub.ask(AGENT_SOCKET, "POST", f"/wire/{route}", token=self.token, body=body)


@pytest.fixture(scope="module")
def hub() -> Iterator[LivingHub]:
    """A hub that takes a process that only waits for the agent of `elsewhere`; each test brings agents of its own."""
    waiting = subprocess.Popen(["sleep", "1000"])
    try:
        with living_hub(settings=SETTINGS, env=SLOW, listen=False) as running:
            running.cli("hub", "stop")
            start = Path(f"/proc/{waiting.pid}/stat").read_text().rpartition(")")[2].split()[19]
            enrol(running.cli.home, TARGET, "box", handle=f"{waiting.pid}:{start}")
            running.cli("hub", "start", env=SLOW)
            yield running
    finally:
        waiting.kill()
        waiting.wait()


def new_agent(hub: LivingHub, node: str) -> FakeAgent:
    agent = FakeAgent(hub, *enrol(hub.cli.home, TARGET, node))
    assert agent.hello().status == 200
    return agent


@pytest.fixture
def a(hub: LivingHub) -> FakeAgent:
    return new_agent(hub, "box-a")


@pytest.fixture
def b(hub: LivingHub) -> FakeAgent:
    return new_agent(hub, "box-b")


@pytest.fixture
def run(hub: LivingHub) -> Iterator[str]:
    """A run that waits for an agent of `elsewhere`; what is left of it is ended afterwards."""
    (name,) = hub.api("POST", "/api/jobs", a_spec("sleep", "9", target=TARGET), key=uuid.uuid4().hex).json()["runs"]
    yield name
    hub.api("POST", "/api/cancel", {"all": True})


def view(hub: LivingHub, run: str) -> dict[str, Any]:
    shown = hub.api("GET", f"/api/runs/{run}").json()
    return {
        key: shown[key] for key in ("state", "reason", "attempts", "node", "metrics", "params", "tags", "exit_code")
    }


def output(hub: LivingHub, run: str) -> bytes:
    return hub.api("GET", f"/api/runs/{run}/output").body


FACTS: list[tuple[str, dict[str, Any]]] = [
    ("staged", {"files": 0}),
    ("running", {"pid": 1}),
    ("ended", {"cause": "exit", "exit_code": 0, "message": "", "seconds": 1.0}),
    ("captured", {"files": 0, "bytes": 0, "output_bytes": 0, "output_sha256": ""}),
    ("returned", {}),
]


class TestOneAgentAndAnothersRun:
    """A26: agent B posts results, output and renewals for the run of agent A, or A for an older attempt."""

    @pytest.mark.parametrize(("kind", "body"), FACTS, ids=[kind for kind, _ in FACTS])
    def test_a_fact_about_anothers_run_is_fenced_and_changes_nothing(
        self, hub: LivingHub, a: FakeAgent, b: FakeAgent, run: str, kind: str, body: dict[str, Any]
    ) -> None:
        ref = a.take()
        before = view(hub, run), hub.api("GET", f"/api/runs/{run}/events").json()
        answer = b.tell(ref, kind, **body)
        assert list(ref) in answer.json()["fenced"]
        assert (view(hub, run), hub.api("GET", f"/api/runs/{run}/events").json()) == before

    @pytest.mark.parametrize("stream", ["output", "track/1"])
    def test_output_and_metrics_for_anothers_run_are_not_stored(
        self, hub: LivingHub, a: FakeAgent, b: FakeAgent, run: str, stream: str
    ) -> None:
        ref = a.take()
        answer = b.report([], [(Chunk(*ref, stream, 0, 4), b"evil")]).json()
        assert list(ref) in answer["fenced"] and answer["acks"] == {}
        assert output(hub, run) == b"" and view(hub, run)["metrics"] == {}
        assert a.print(ref, b"mine").json()["acks"] == {f"{ref[0]}.{ref[1]}/output": 4}
        assert output(hub, run) == b"mine"

    def test_holding_anothers_run_does_not_make_it_ones_own(
        self, hub: LivingHub, a: FakeAgent, b: FakeAgent, run: str
    ) -> None:
        ref = a.take()
        assert list(ref) in b.poll(held=[ref])["fenced"]
        b.held.append(ref)
        assert list(ref) in b.hello().json()["fenced"]
        assert a.poll()["fenced"] == [] and view(hub, run)["node"] == "box-a"

    @pytest.mark.parametrize("number", [0, 2, 1 << 40])
    def test_another_attempt_of_ones_own_run_is_fenced(
        self, hub: LivingHub, a: FakeAgent, run: str, number: int
    ) -> None:
        ref = a.take()
        before = view(hub, run)
        for kind, body in FACTS:
            assert [ref[0], number] in a.tell((ref[0], number), kind, **body).json()["fenced"]
        assert a.print((ref[0], number), b"old").json()["acks"] == {}
        assert view(hub, run) == before and output(hub, run) == b""

    def test_an_attempt_that_was_given_back_is_over_for_good(
        self, hub: LivingHub, a: FakeAgent, b: FakeAgent, run: str
    ) -> None:
        old = a.take()
        a.tell(old, "returned")
        new = b.take()
        assert new == (old[0], old[1] + 1)
        assert list(old) in a.tell(old, "ended", cause="exit", exit_code=0, message="", seconds=1.0).json()["fenced"]
        assert list(old) in a.print(old, b"late").json()["fenced"]
        assert view(hub, run)["node"] == "box-b" and output(hub, run) == b""

    def test_a_run_that_is_over_takes_nothing_more(self, hub: LivingHub, a: FakeAgent, run: str) -> None:
        ref = a.take()
        hub.api("POST", "/api/cancel", {"runs": [run]})
        a.tell(ref, "ended", cause="cancelled", message="", seconds=1.0)
        a.tell(ref, "captured", files=0, bytes=0, output_bytes=0, output_sha256="")
        assert view(hub, run)["state"] == "cancelled"
        for kind, body in FACTS:
            a.tell(ref, kind, **body)
        a.print(ref, b"late")
        assert view(hub, run)["state"] == "cancelled" and output(hub, run) == b""

    @pytest.mark.parametrize("ref", [(-1, 1), (1 << 70, 1), (1, -1), (1, 1 << 70)])
    def test_a_number_that_can_be_no_run(self, a: FakeAgent, ref: tuple[int, int]) -> None:
        assert a.tell(ref, "running").status == a.print(ref, b"x").status == 422

    def test_a_run_nobody_knows(self, hub: LivingHub, a: FakeAgent) -> None:
        for kind, body in FACTS:
            assert [1 << 50, 1] in a.tell((1 << 50, 1), kind, **body).json()["fenced"]

    def test_an_agent_that_never_said_hello_gets_nothing(self, hub: LivingHub, run: str) -> None:
        stranger = FakeAgent(hub, *enrol(hub.cli.home, TARGET, "box-c"))
        assert stranger._send("poll", dump(Poll(1.0, 1 << 33, 0, [], [], 0.0, protocol=PROTOCOL))).status == 409
        assert stranger.tell((1, 1), "running").status == 409

    @pytest.mark.parametrize(
        "body",
        [b"", b"{}", b"null", b"\xff\xff\xff\xff", b"\x02\0\0\0{}", b"\x00\0\0\0", b"x" * 100, b"[" * 100_000],
        ids=lambda body: repr(body[:8]),
    )  # fmt: skip
    def test_nonsense_is_refused_not_crashed_on(self, hub: LivingHub, a: FakeAgent, body: bytes) -> None:
        for route in ("hello", "poll", "report", "blobs/missing", "blobs/get"):
            assert 400 <= a._send(route, body).status < 500, route

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("nonsense", {}), ("ended", {"cause": "magic"}), ("ended", {"exit_code": "zero"}),
            ("ended", {"exit_code": 10**30}), ("ended", {"signal": True}), ("captured", {"manifest": 7}),
            ("captured", {"manifest": "../../x"}), ("captured", {"output_bytes": "x"}),
            ("captured", {"output_bytes": -1}),
        ],
    )  # fmt: skip
    def test_facts_that_are_none_are_refused_and_change_nothing(
        self, hub: LivingHub, a: FakeAgent, run: str, kind: str, body: dict[str, Any]
    ) -> None:
        ref = a.take()
        a.tell(ref, "staged", files=0)
        a.tell(ref, "running", pid=1)
        before = view(hub, run)
        answer = a.tell(ref, kind, **body)
        assert 400 <= answer.status < 500 or answer.json()["refused"]
        assert view(hub, run) == before


class TestTheSameSubmissionTwice:
    """A27: an idempotency key used again: by the same with the same body, with another body, and by somebody else."""

    def test_same_key_and_body_is_the_same_job(self, hub: LivingHub) -> None:
        key = uuid.uuid4().hex
        first = hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key)
        jobs = len(hub.api("GET", "/api/jobs").json())
        again = hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key)
        assert (first.status, again.status) == (200, 200) and first.json() == again.json()
        assert len(hub.api("GET", "/api/jobs").json()) == jobs

    def test_same_key_and_another_body_is_refused(self, hub: LivingHub) -> None:
        key = uuid.uuid4().hex
        hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key)
        before = hub.state()
        assert hub.api("POST", "/api/jobs", a_spec("false", target=TARGET), key=key).status == 422
        assert hub.state() == before

    def test_the_answer_is_told_only_to_who_may_ask(self, hub: LivingHub) -> None:
        key = uuid.uuid4().hex
        body = json.dumps(a_spec("true", target=TARGET)).encode()
        hub.api("POST", "/api/jobs", body, key=key)
        for token in (None, new_agent(hub, "box-a").token, "tnt_" + "x" * 43):
            headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
            answer = hub.ask("hub.sock", "POST", "/api/jobs", token=token, headers=headers, body=body)
            assert answer.status == 401 and b"job" not in answer.body

    @pytest.mark.parametrize("key", [None, "", "short", "x" * 129])
    def test_no_submission_without_a_proper_key(self, hub: LivingHub, key: str | None) -> None:
        before = hub.state()
        assert hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key).status == 422
        assert hub.state() == before

    def test_it_outlives_the_hub(self, hub: LivingHub) -> None:
        key = uuid.uuid4().hex
        first = hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key).json()
        os.kill(hub.cli.json("hub", "status")["pid"], 9)
        hub.cli("hub", "start", env=SLOW)
        assert hub.api("POST", "/api/jobs", a_spec("true", target=TARGET), key=key).json() == first
