"""A private PostgreSQL server for one test session: no network, no fsync, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.harness import short_folder, wait_until


def postgres_binaries() -> Path | None:
    """The directory with ``initdb`` and ``postgres``: as told, Debian's for 15, or what is on PATH; None = nowhere."""
    named = os.environ.get("TURNOUT_TEST_PG_BIN")
    debian = Path("/usr/lib/postgresql/15/bin")
    if named:
        return Path(named)
    if (debian / "initdb").exists():
        return debian
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextmanager
def running_server(binaries: Path) -> Iterator[str]:
    """Yields the URL of its database ``postgres``, where the user ``postgres`` may do everything."""
    base = short_folder()
    who = _unprivileged(base)
    data = str(base / "data")
    initdb = [str(binaries / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
    subprocess.run(initdb, cwd=base, check=True, stdout=subprocess.DEVNULL, **who)
    settings = ("listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off")
    argv = [str(binaries / "postgres"), "-D", data, "-k", str(base), *(f"--{setting}" for setting in settings)]
    with (base / "log").open("wb") as log:
        server = subprocess.Popen(argv, cwd=base, stdout=log, stderr=log, **who)
    try:
        wait_until(lambda: _answers(base, server), 30.0, f"PostgreSQL answers; its log is {base}/log")
        yield _url("postgres", base)
    finally:
        server.send_signal(signal.SIGQUIT)  # at once, without a last checkpoint
        server.wait(30)
        shutil.rmtree(base)


@contextmanager
def fresh_database(server: str, name: str) -> Iterator[str]:
    """Yields the URL of a new empty database, dropped afterwards together with what is still connected to it."""
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield _url(name, Path(server.partition("?host=")[2]))
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _url(database: str, socket: Path) -> str:
    return f"postgresql+psycopg://postgres@/{database}?host={socket}"


def _unprivileged(base: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as the user its package made, who must own `base`."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    os.chown(base, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _answers(socket: Path, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise AssertionError(f"PostgreSQL ended at once:\n{(socket / 'log').read_text()}")
    try:
        psycopg.connect(host=str(socket), user="postgres", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True
