"""Large, deep, slow and broken requests cost whoever sends them, not the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import MutableMapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.security.doors import AGENT_SOCKET, HUB_SOCKET, TCP, LivingHub, a_spec, enrol
from turnout.errors import InvalidInput
from turnout.hub import security

pytestmark = pytest.mark.xdist_group("security limits")


def claim(hub: LivingHub, method: str, path: str, size: int, token: str) -> int:
    """Says that `size` bytes will come, and sends none; the status of the answer."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: turnout\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
    )
    return hub.say(HUB_SOCKET, head.encode()).status


class TestSize:
    @pytest.mark.parametrize(
        ("method", "path"), [("POST", "/api/jobs"), ("POST", "/api/cancel"), ("POST", "/api/blobs/missing")]
    )
    def test_a_message_of_ten_gigabytes_is_refused_before_it_comes(
        self, hub: LivingHub, method: str, path: str
    ) -> None:
        assert claim(hub, method, path, 10 << 30, hub.token) == 413

    @pytest.mark.parametrize(("method", "path"), [("POST", "/api/blobs"), ("PUT", "/api/blobs/" + "a" * 64)])
    def test_files_may_be_larger_but_not_endless(self, hub: LivingHub, method: str, path: str) -> None:
        assert claim(hub, method, path, 1 << 50, hub.token) == 413

    def test_an_agents_messages_too(self, hub: LivingHub) -> None:
        _, token = enrol(hub.cli.home, "elsewhere", "box")
        assert claim(hub, "POST", "/wire/report", 10 << 30, token) == 413

    def test_one_that_does_not_say_how_long_it_is_ends_at_the_cap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(security, "MOST_SAID", 1000)
        taken, answered = asyncio.run(self._endless())
        assert taken <= 1100 and answered is None

    @staticmethod
    async def _endless() -> tuple[int, Any]:
        taken = 0

        async def reads_all(_scope: security.Scope, receive: security.Receive, _send: security.Send) -> None:
            nonlocal taken
            while (await receive())["more_body"]:
                taken += 100

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

        async def send(_message: MutableMapping[str, Any]) -> None: ...

        async def nobody(_token: str) -> None: ...

        gate = security.Gate(reads_all, hosts=["turnout"], user_token="t", find_agent=nobody, only_wire=False)
        headers = [(b"host", b"turnout"), (b"authorization", b"Bearer t")]
        scope = {"type": "http", "method": "POST", "path": "/api/jobs", "headers": headers}
        with pytest.raises(InvalidInput, match="at most 1000 bytes"):
            await gate(scope, receive, send)
        return taken, None

    @pytest.mark.parametrize(
        "endless", [b"X: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["many headers", "one header"]
    )
    def test_headers_without_end(self, hub: LivingHub, endless: bytes) -> None:
        """Before a token is asked for, over the port, which every user of this machine can reach."""
        before = memory(hub)
        with closing(hub.connect(TCP)) as opened, contextlib.suppress(OSError):
            opened.sendall(b"GET /health HTTP/1.1\r\nX: ")
            for _ in range(50_000):
                opened.sendall(endless)
        assert memory(hub) < before + (10 << 20)
        assert hub.ask(TCP, "GET", "/health").status == 200


def memory(hub: LivingHub) -> int:
    """What the hub holds in memory, in bytes."""
    status = Path(f"/proc/{hub.cli.json('hub', 'status')['pid']}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


class TestShape:
    @pytest.mark.parametrize(
        "body",
        [
            b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"", b"null", b"[]", b"{", b"\xff\xfe",
            b'{"kind": "command", "display": [], "runs": []}', b'{"kind": "nonsense", "display": [], "runs": []}',
            b'"' + b"x" * 1_000_000 + b'"', b"1" * 10_000,
        ],
        ids=lambda body: repr(body[:12]),
    )  # fmt: skip
    def test_a_body_that_is_no_submission_is_the_senders_fault(self, hub: LivingHub, body: bytes) -> None:
        before = hub.state()
        for path in ("/api/jobs", "/api/cancel", "/api/blobs/missing", "/api/blobs/get"):
            answer = hub.api("POST", path, body, key="0123456789")
            fine = path.startswith("/api/blobs") and body == b"[]"
            assert (answer.status == 200) if fine else (400 <= answer.status < 500), f"{path}: {answer.status}"
        assert hub.state() == before

    @pytest.mark.parametrize(
        "wrong",
        [
            {"priority": 10**30}, {"priority": 1.5}, {"priority": "x"}, {"grace": "NaN"}, {"grace": -1}, {"repeat": 0},
            {"repeat": 10**9}, {"resources": {"cpus": 0}}, {"resources": {"memory": 2**70}}, {"concurrent": 0},
            {"resources": {"seconds": -1}}, {"retry": {"failures": -1}}, {"runs": []}, {"runs": [{"argv": []}]},
            {"runs": [{"argv": ["a\0b"]}]}, {"env": {"A": "\0"}}, {"env": {"a b": "x"}}, {"env": {"A=B": "x"}},
            {"tags": {"a b": "x"}}, {"tags": {"a": "\0"}}, {"kind": "script"}, {"target": "nowhere"},
            {"after": "x"}, {"runs": [{"argv": ["x" * 200_000]}]},
        ],
        ids=lambda wrong: json.dumps(wrong)[:40],
    )  # fmt: skip
    def test_a_submission_with_one_thing_wrong(self, hub: LivingHub, wrong: dict[str, object]) -> None:
        before = hub.state()
        answer = hub.api("POST", "/api/jobs", {**a_spec(), **wrong}, key="0123456789")
        assert answer.status in (404, 422) and answer.json()["message"], answer.body
        assert hub.state() == before

    @pytest.mark.parametrize(
        "wrong",
        [
            {"tags": {"a": "\ud800"}},
            {"runs": [{"argv": ["\ud800"]}]},
            {"display": ["\ud800"]},
            {"env": {"A": "\ud800"}},
            {"after": ["\ud800"]},
        ],
        ids=lambda wrong: json.dumps(wrong),
    )
    def test_text_that_is_no_text(self, hub: LivingHub, wrong: dict[str, object]) -> None:
        """Half of a character is valid JSON, and valid nowhere else."""
        answer = hub.api("POST", "/api/jobs", {**a_spec(), **wrong}, key="0123456789")
        assert answer.status == 422, answer.body
        assert hub.cli("list", "runs").returncode == 0

    @pytest.mark.parametrize(
        "query",
        [
            "limit=0",
            "limit=-1",
            "limit=1e9",
            "limit=x",
            "offset=-1",
            "offset=" + "9" * 40,
            "sort=%00",
            "filter=%00",
            "filter=" + "(" * 5000,
            "filter=name='%27--",
        ],
    )
    def test_queries(self, hub: LivingHub, query: str) -> None:
        answer = hub.api("GET", f"/api/runs?{query}")
        assert 400 <= answer.status < 500, answer.body[:200]

    @pytest.mark.parametrize(
        "query",
        [
            "seconds=-1",
            "seconds=1e9",
            "seconds=nan",
            "offset=-1",
            "offset=" + "9" * 40,
            "attempt=-1",
            "attempt=" + "9" * 40,
        ],
    )
    def test_streams(self, hub: LivingHub, query: str) -> None:
        name = hub.api("POST", "/api/jobs", a_spec(), key="a stream's").json()["runs"][0]
        answer = hub.api("GET", f"/api/runs/{name}/output?{query}")
        assert 400 <= answer.status < 500, answer.body[:200]


class TestPatience:
    """Slow clients: they hold a connection, nobody else."""

    @pytest.mark.parametrize("door", [HUB_SOCKET, AGENT_SOCKET, TCP])
    def test_a_hundred_that_never_finish_a_sentence(self, hub: LivingHub, door: str) -> None:
        with ExitStack() as stack:
            for part in (
                b"GET /health HT",
                b"GET /health HTTP/1.1\r\nHost: ",
                b"POST /api/jobs HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
            ):
                for _ in range(34):
                    stack.enter_context(closing(hub.connect(door))).sendall(part)
            began = time.monotonic()
            assert hub.ask(door, "GET", "/health").status == 200
            assert hub.api("GET", "/api/runs").status == 200
            assert time.monotonic() - began < 2

    def test_forty_that_upload_a_byte_and_wait(self, hub: LivingHub) -> None:
        known = f"Host: turnout\r\nAuthorization: Bearer {hub.token}\r\n"
        head = f"POST /api/blobs HTTP/1.1\r\n{known}Content-Length: 999999\r\n\r\nx"
        with ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(closing(hub.connect(HUB_SOCKET))).sendall(head.encode())
            began = time.monotonic()
            assert hub.cli.json("list", "runs", "-n", "1") is not None
            assert hub.api("POST", "/api/jobs", a_spec(), key="while they wait").status == 200
            assert time.monotonic() - began < 3

    def test_a_hundred_that_wait_for_output(self, hub: LivingHub) -> None:
        name = hub.api("POST", "/api/jobs", a_spec("sleep", "60"), key="one that lasts").json()["runs"][0]
        path = f"/api/runs/{name}/output?seconds=20"
        head = f"GET {path} HTTP/1.1\r\nHost: turnout\r\nAuthorization: Bearer {hub.token}\r\n\r\n"
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(closing(hub.connect(HUB_SOCKET))).sendall(head.encode())
            began = time.monotonic()
            assert hub.api("GET", "/api/runs").status == 200
            assert hub.api("POST", "/api/cancel", {"runs": [name]}).status == 200
            assert time.monotonic() - began < 3

    @pytest.mark.parametrize(
        "nonsense",
        [b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000, b"A" * 100_000],
    )
    def test_bytes_that_are_no_request(self, hub: LivingHub, nonsense: bytes) -> None:
        with closing(hub.connect(TCP)) as opened:
            opened.sendall(nonsense)
            assert hub.ask(TCP, "GET", "/health").status == 200
