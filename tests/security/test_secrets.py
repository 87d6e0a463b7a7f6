"""Tokens and keys: where they never appear, and what a snapshot never takes."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness import Cli, processes_of, wait_until
from tests.security.doors import LivingHub, living_hub

pytestmark = pytest.mark.xdist_group("security secrets")

_HEX = re.compile(rb"[0-9a-f]{64}")


@pytest.fixture(scope="module")
def hub() -> Iterator[LivingHub]:
    with living_hub(listen=False, settings="compute-targets:\n  wide: {service: local, max-runs: 8}\n") as running:
        yield running


def agent_tokens_in(text: bytes, hashes: set[str]) -> list[bytes]:
    """Tokens of agents in a text: what has the form of one, and the hash that the store knows."""
    return [each for each in _HEX.findall(text) if hashlib.sha256(each).hexdigest() in hashes]


def token_hashes(home: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{home}/turnout.db?mode=ro", uri=True)) as database:
        return {row[0] for row in database.execute("SELECT token_hash FROM agents")}


class TestTokensAreNowhereElse:
    """A20, A25: not in an argument list, environment, log, event or answer; not where a run could take it."""

    @pytest.fixture(scope="class")
    @classmethod
    def going(cls, hub: LivingHub) -> Iterator[list[str]]:
        """A hundred runs; the first four stay until the tests are done."""
        done = hub.cli.home.parent / "done"
        wait = f"sh -c 'while [ ! -e {done} ]; do sleep 0.1; done'\n"
        (hub.cli.cwd / "many.txt").write_text(wait * 4 + "sh -c 'env; exit 3'\n" * 96)
        names: list[str] = hub.cli.json("run", "-d", "--target", "wide", "--multi", "many.txt")["runs"]
        yield names
        done.touch()

    def test_not_in_any_process(self, hub: LivingHub, going: list[str]) -> None:
        wait_until(lambda: token_hashes(hub.cli.home))
        hashes = token_hashes(hub.cli.home)
        seen: set[int] = set()
        are_more_left = True
        while are_more_left:
            are_more_left = len(hub.cli.json("status")) > 4
            for pid in processes_of(hub.cli.home):
                try:
                    shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
                except OSError:
                    continue
                assert hub.token.encode() not in shown
                assert not agent_tokens_in(shown, hashes)
                seen.add(pid)
        assert len(seen) > 6, "the hub, its agent with its helpers, and the runs"

    def test_not_in_any_file_but_the_users_own(self, hub: LivingHub, going: list[str]) -> None:
        hashes = token_hashes(hub.cli.home)
        for directory, _, names in os.walk(hub.cli.home):
            for name in names:
                try:
                    content = Path(directory, name).read_bytes()
                except FileNotFoundError:
                    continue  # a run's file that is gone with it
                assert name == "token" or hub.token.encode() not in content, name
                assert not agent_tokens_in(content, hashes), name

    def test_not_in_what_is_told(self, hub: LivingHub, going: list[str]) -> None:
        told = [hub.cli(*command).stdout for command in (("hub", "logs", "-n", "1000"), ("hub", "status"), ("doctor",))]
        told += [hub.cli.json("events", going[-1]), hub.cli.json("show", going[-1]), hub.cli("logs", going[-1]).stdout]
        hashes = token_hashes(hub.cli.home)
        for text in map(str, told):
            assert hub.token not in text and not agent_tokens_in(text.encode(), hashes)

    def test_a_failing_request_does_not_put_it_into_the_log(self, hub: LivingHub) -> None:
        hub.api("POST", "/api/jobs", b"{", key="0123456789")
        hub.ask("hub.sock", "GET", f"/api/runs/{hub.token}", token=hub.token)
        assert hub.token not in hub.cli("hub", "logs", "-n", "1000").stdout

    def test_environment_values_are_not_shown(self, hub: LivingHub) -> None:
        job = hub.cli.json("run", "-d", "--env", "PASSPHRASE=opensesame", "true")
        told = [
            hub.cli.json("show", job["runs"][0]),
            hub.cli.json("show", job["job"]),
            hub.cli.json("events", job["runs"][0]),
        ]
        assert "opensesame" not in str(told) and "opensesame" not in (hub.cli.home / "logs/hub.log").read_text()
        assert "PASSPHRASE" in hub.cli.json("show", job["job"])["env"]


def made_up(length: int) -> str:
    """Random text, the same each time, and in no file of ours."""
    return base64.b64encode(hashlib.sha512(b"seed").digest()).decode().replace("/", "x").replace("+", "y")[:length]


SECRETS = {
    ".env": "DB_HOST=db.example.com\n",
    "deploy/.env.production": "A=1\n",
    "id_ed25519": "-----BEGIN OPENSSH PRIVATE " + "KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n",
    "keys/id_rsa": "anything\n",
    ".netrc": "machine example.com login me password hunter2\n",
    ".aws/credentials": "[default]\n",
    "notes.txt": f"aws = AKI{'A'}{made_up(16).upper()}\n",
    "cloud.ini": f'aws_secret_access_key = "{made_up(40)}"\n',
    "settings.py": f'API_TOKEN = "{made_up(40)}"\n',
    "entropy.json": f'{{"value": "{made_up(40)}"}}\n',
    "certs/server.pem": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEAx\n",
    "store.p12": "binary",
}


class TestSnapshotsTakeNoSecrets:
    """A22: a tree with keys in it is refused, the file named, and nothing of it leaves the directory."""

    @pytest.mark.parametrize("path", [".env", "id_ed25519", "cloud.ini", "entropy.json"])
    def test_blocked_with_the_file_named(self, cli: Cli, path: str) -> None:
        file = cli.cwd / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRETS[path])
        done = cli("run", "true", check=False)
        assert done.returncode == 2 and f"  {path}: " in done.stderr
        assert "--allow-secret" in done.stderr and ".turnoutignore" in done.stderr
        assert not (cli.home / "turnout.db").exists(), "no hub was asked, no job made"

    def test_all_are_named_at_once(self, cli: Cli) -> None:
        for path, content in SECRETS.items():
            (cli.cwd / path).parent.mkdir(parents=True, exist_ok=True)
            (cli.cwd / path).write_text(content)
        told = cli("run", "--dry-run", "true", check=False).stderr
        assert all(f"  {path}: " in told for path in SECRETS)
        assert made_up(40) not in told, "a message must not repeat what it warns of"

    def test_what_is_allowed_or_ignored_is_not_blocked(self, cli: Cli) -> None:
        (cli.cwd / ".env").write_text("A=1\n")
        (cli.cwd / "id_rsa").write_text("x\n")
        (cli.cwd / ".turnoutignore").write_text("id_rsa\n")
        plan = cli.json("run", "--dry-run", "--allow-secret", ".env", "true")
        assert sorted(plan["files"]) == [".env", ".turnoutignore"]
