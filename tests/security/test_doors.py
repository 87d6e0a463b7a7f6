"""Every way into the hub is closed to those without the right token, to other hosts' pages, and to other sites."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import closing
from typing import Any, cast

import pytest

from tests.harness import Cli
from tests.security.doors import AGENT_SOCKET, DOORS, HUB_SOCKET, TCP, LivingHub, a_spec, enrol
from turnout.hub.wire import WireRoutes

pytestmark = pytest.mark.xdist_group("security doors")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
REFUSED = {400, 401, 403, 421}
EVIL = "evil.example"


@pytest.fixture(scope="module")
def run_name(hub: LivingHub) -> str:
    """A run that is there, so that a route that names one would have something to tell."""
    return str(hub.cli.json("run", "--wait", "--name", "marker", "true")["name"])


@pytest.fixture(scope="module")
def routes(hub: LivingHub, run_name: str) -> list[tuple[str, str]]:
    """(method, path) of all there is: people's routes from the hub's own description, agents' from their table."""
    described = hub.api("GET", "/api/openapi.json").json()["paths"]
    filled = defaultdict(lambda: "x", name=run_name, digest="a" * 64)
    found = [(method.upper(), path.format_map(filled)) for path, methods in described.items() for method in methods]
    wire = WireRoutes(*cast(Any, [None] * 4)).routes()
    found += [(method, route.path) for route in wire for method in route.methods or ()]
    assert len(found) > 20
    return [*found, ("GET", "/api/openapi.json")]


@pytest.fixture(scope="module")
def tokens(hub: LivingHub) -> dict[str, str]:
    """Tokens that look right and open nothing, and an agent's, which opens only what is for agents."""
    _, agent = enrol(hub.cli.home, "elsewhere", "box")
    _, revoked = enrol(hub.cli.home, "elsewhere", "box", state="gone")
    return {"empty": "", "wrong": "tnt_" + "A" * 43, "cut short": hub.token[:-1], "agent": agent, "revoked": revoked}


class TestWithoutTheRightToken:
    """A1: every route, method and stream without a token, with an empty, wrong, revoked or another's token."""

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize("credential", ["none", "empty", "wrong", "cut short", "revoked", "other scheme"])
    def test_every_route_is_closed(
        self, hub: LivingHub, routes: list[tuple[str, str]], tokens: dict[str, str], door: str, credential: str
    ) -> None:
        before = hub.state()
        for method, path in routes:
            if credential == "other scheme":
                answer = hub.ask(door, method, path, headers={"Authorization": f"Basic {hub.token}"})
            else:
                answer = hub.ask(door, method, path, token=tokens.get(credential))
            assert answer.status in (401, 403), f"{method} {path} at {door} answered {answer.status}"
            assert b"run1" not in answer.body and b"marker" not in answer.body
        assert hub.state() == before

    @pytest.mark.parametrize("door", DOORS)
    def test_every_other_method_is_closed_too(self, hub: LivingHub, routes: list[tuple[str, str]], door: str) -> None:
        before = hub.state()
        for path in {path for _, path in routes}:
            for method in METHODS:
                assert hub.ask(door, method, path).status in REFUSED, f"{method} {path}"
        assert hub.ask(door, "BREW", "/api/hub").status in REFUSED
        assert hub.state() == before

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize(
        "path", ["/", "/api", "/api/", "/wire", "//api/hub", "/API/hub", "/health/", "/health/../api/hub", "/nothing"]
    )
    def test_a_path_that_is_no_route_is_closed(self, hub: LivingHub, door: str, path: str) -> None:
        assert hub.ask(door, "GET", path).status == 401

    @pytest.mark.parametrize("door", DOORS)
    def test_a_stream_is_refused_at_once(self, hub: LivingHub, run_name: str, door: str) -> None:
        began = time.monotonic()
        for path in (f"/api/runs/{run_name}/output?seconds=30", f"/api/runs/{run_name}/wait?seconds=30"):
            assert hub.ask(door, "GET", path).status == 401
        assert hub.ask(door, "POST", "/wire/poll").status == 401
        assert time.monotonic() - began < 5

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize("token", [False, True])
    def test_no_websocket_is_opened(self, hub: LivingHub, run_name: str, door: str, token: bool) -> None:
        upgrade = {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        for path in ("/api/hub", f"/api/runs/{run_name}/output", "/wire/poll", "/"):
            answer = hub.ask(door, "GET", path, token=hub.token if token else None, headers=upgrade)
            assert answer.status != 101
            assert token or answer.status == 401

    def test_who_hangs_up_amid_a_request_is_no_fault_of_the_hub(self, hub: LivingHub) -> None:
        _, agent = enrol(hub.cli.home, "elsewhere", "box")
        for path, token in (("/api/blobs", hub.token), ("/wire/hello", agent), ("/wire/blobs", agent)):
            with closing(hub.connect(HUB_SOCKET)) as door:
                head = f"POST {path} HTTP/1.1\r\nHost: turnout\r\nAuthorization: Bearer {token}\r\n"
                door.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
                assert hub.ask(HUB_SOCKET, "GET", "/api/hub", token=hub.token).status == 200
        assert hub.ask(HUB_SOCKET, "GET", "/api/hub", token=hub.token).status == 200
        assert "Traceback" not in hub.cli("hub", "logs").stdout

    @pytest.mark.parametrize("door", DOORS)
    def test_only_health_is_open_and_it_tells_nothing(self, hub: LivingHub, door: str) -> None:
        answer = hub.ask(door, "GET", "/health")
        assert (answer.status, answer.json()) == (200, {"ok": True})
        assert not {"server", "date", "x-powered-by"} & set(answer.headers)
        for method in METHODS[1:]:
            assert hub.ask(door, method, "/health").status in REFUSED


class TestATokenOpensOnlyItsOwn:
    """A1, A25: an agent's token opens no route of people's, the user's none of the agents', on no door."""

    @pytest.mark.parametrize("door", DOORS)
    def test_routes_of_the_others(
        self, hub: LivingHub, routes: list[tuple[str, str]], tokens: dict[str, str], door: str
    ) -> None:
        before = hub.state()
        for method, path in routes:
            token = hub.token if path.startswith("/wire/") else tokens["agent"]
            assert hub.ask(door, method, path, token=token).status in (401, 403), f"{method} {path}"
        assert hub.state() == before

    def test_the_users_token_opens_nothing_where_only_agents_belong(
        self, hub: LivingHub, routes: list[tuple[str, str]]
    ) -> None:
        for method, path in routes:
            assert hub.ask(AGENT_SOCKET, method, path, token=hub.token).status == 401

    @pytest.mark.parametrize(
        "path", ["/wire/../api/hub", "/wire/%2e%2e/api/hub", "/wire/hello/../../api/hub", "/wire//api/hub"]
    )
    def test_no_path_leads_from_the_agents_side_to_the_other(
        self, hub: LivingHub, tokens: dict[str, str], path: str
    ) -> None:
        answer = hub.ask(HUB_SOCKET, "GET", path, token=tokens["agent"])
        assert answer.status in (401, 404, 405)

    def test_both_work_where_they_belong(self, hub: LivingHub, tokens: dict[str, str]) -> None:
        for door in (HUB_SOCKET, TCP):
            assert hub.ask(door, "GET", "/api/hub", token=hub.token).status == 200
        for door in DOORS:
            assert hub.ask(door, "POST", "/wire/blobs/missing", token=tokens["agent"], body=b"[]").status == 200


class TestOtherHosts:
    """A2: a name of the attacker's that resolves to this machine (DNS rebinding), with a token that would open."""

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize(
        "host", [EVIL, f"{EVIL}:80", "", "127.0.0.1", "localhost", "turnout.evil.example", "127.0.0.1.evil"]
    )
    def test_every_method_is_refused_before_any_handler(self, hub: LivingHub, door: str, host: str) -> None:
        before = hub.state()
        for method in METHODS:
            for path in ("/api/hub/stop", "/api/jobs", "/health", "/wire/poll"):
                answer = hub.ask(door, method, path, token=hub.token, headers={"Host": host}, body=_job())
                assert answer.status in (400, 421), f"{method} {path}"
        assert hub.state() == before

    def test_a_request_without_a_host(self, hub: LivingHub) -> None:
        for version in ("1.0", "1.1"):
            message = f"GET /api/hub HTTP/{version}\r\nAuthorization: Bearer {hub.token}\r\n\r\n"
            assert hub.say(TCP, message.encode()).status in (400, 421)

    @pytest.mark.parametrize("second", ["Host", "Origin", "Authorization"])
    def test_a_second_header_does_not_outvote_the_first(self, hub: LivingHub, second: str) -> None:
        good = {"Host": hub.host(TCP), "Origin": f"http://{hub.host(TCP)}", "Authorization": f"Bearer {hub.token}"}
        assert hub.ask(TCP, "GET", "/api/hub", headers=good).status == 200
        for pair in ([(second, EVIL)], [(second, good[second])]):
            assert hub.ask(TCP, "GET", "/api/hub", headers=[*pair, *good.items()]).status == 400

    def test_the_port_is_part_of_the_name(self, hub: LivingHub) -> None:
        assert hub.ask(TCP, "GET", "/api/hub", token=hub.token, headers={"Host": f"localhost:{hub.port}"}).status == 200
        assert (
            hub.ask(TCP, "GET", "/api/hub", token=hub.token, headers={"Host": f"localhost:{hub.port + 1}"}).status
            == 421
        )


class TestOtherSites:
    """A3: a page of another site posts a form, fetches, deletes, puts; with a token that would open."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": f"http://{EVIL}"},
            {"Origin": "null"},
            {"Origin": "http://localhost.evil"},
            {"Origin": "https://127.0.0.1"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": f"http://{EVIL}", "Content-Type": "text/plain"},
            {"Origin": f"http://{EVIL}", "Content-Type": "application/x-www-form-urlencoded"},
        ],
        ids=lambda headers: " ".join(headers.values()) or "empty",
    )
    @pytest.mark.parametrize("door", [HUB_SOCKET, TCP])
    def test_refused_and_nothing_changed(self, hub: LivingHub, door: str, headers: dict[str, str]) -> None:
        before = hub.state()
        sent = {"Content-Type": "application/json", "Idempotency-Key": "0123456789", **headers}
        for method in METHODS:
            for path in ("/api/jobs", "/api/hub/stop", "/api/cancel", "/api/runs", "/api/runs/run1/output", "/health"):
                answer = hub.ask(door, method, path, token=hub.token, headers=sent, body=_job())
                assert answer.status == 403, f"{method} {path}"
        assert hub.state() == before

    def test_the_hubs_own_page_may_ask(self, hub: LivingHub) -> None:
        own = {"Origin": f"http://{hub.host(TCP)}", "Sec-Fetch-Site": "same-origin"}
        assert hub.ask(TCP, "GET", "/api/hub", token=hub.token, headers=own).status == 200

    @pytest.mark.parametrize("door", [HUB_SOCKET, TCP])
    @pytest.mark.parametrize("token", [False, True])
    def test_a_preflight_allows_nothing(self, hub: LivingHub, door: str, token: bool) -> None:
        """A4: OPTIONS with Origin evil."""
        asked = {
            "Origin": f"http://{EVIL}", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,idempotency-key",
        }  # fmt: skip
        for path in ("/api/jobs", "/api/hub", "/health", "/wire/poll"):
            answer = hub.ask(door, "OPTIONS", path, token=hub.token if token else None, headers=asked)
            assert answer.status in (401, 403)
            assert not [name for name in answer.headers if name.startswith("access-control-")]

    def test_no_answer_ever_allows_another_origin(self, hub: LivingHub, routes: list[tuple[str, str]]) -> None:
        reading = [path for method, path in routes if method == "GET" and not path.endswith("wait")]
        for path in reading:
            answer = hub.ask(TCP, "GET", path, token=hub.token, headers={"Origin": f"http://{hub.host(TCP)}"})
            assert not [name for name in answer.headers if name.startswith("access-control-")], path


class TestTheTokensPlace:
    """A20: a token in the address is worth nothing: addresses end up in logs and histories."""

    @pytest.mark.parametrize("query", ["token={}", "access_token={}", "authorization=Bearer%20{}", "{}"])
    @pytest.mark.parametrize("door", DOORS)
    def test_in_the_query(self, hub: LivingHub, door: str, query: str) -> None:
        assert hub.ask(door, "GET", "/api/hub?" + query.format(hub.token)).status == 401

    @pytest.mark.parametrize("header", [("Cookie", "token={}"), ("X-Token", "{}"), ("X-Api-Key", "{}")])
    def test_in_a_cookie_or_another_header(self, hub: LivingHub, header: tuple[str, str]) -> None:
        answer = hub.ask(TCP, "GET", "/api/hub", headers={header[0]: header[1].format(hub.token)})
        assert answer.status == 401

    def test_before_the_host(self, hub: LivingHub) -> None:
        message = f"GET http://{hub.token}@{hub.host(TCP)}/api/hub HTTP/1.1\r\nHost: {hub.host(TCP)}\r\n\r\n"
        assert hub.say(TCP, message.encode()).status in REFUSED | {404}

    def test_a_refusal_does_not_repeat_it(self, hub: LivingHub) -> None:
        answer = hub.ask(TCP, "GET", f"/api/hub?token={hub.token}", token="not-this-one")
        assert hub.token.encode() not in answer.body and b"not-this-one" not in answer.body


class TestAbsentDoors:
    """No port is open unless asked for, and none beyond this machine at all."""

    def test_no_port_by_default(self, cli: Cli) -> None:
        cli("hub", "start")
        assert cli.json("hub", "status")["tcp"] is None

    @pytest.mark.parametrize("where", ["0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:80", "nonsense", "127.0.0.1:x"])
    def test_listening_for_other_machines_is_refused(self, cli: Cli, where: str) -> None:
        done = cli("hub", "start", "--listen", where, check=False)
        assert done.returncode == 2 and where in done.stderr and "127.0.0.1:PORT" in done.stderr
        assert not cli.home.exists()


def _job() -> bytes:
    return json.dumps(a_spec()).encode()
