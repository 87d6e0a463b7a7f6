"""This machine: an agent is a detached process of this user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Need, Observation, Phase, Provider

#: In the directory of an agent: who it is.
_RECORD = "launch.json"


@dataclass(frozen=True)
class LocalSettings:
    """This machine needs to be told nothing."""


class LocalProvider(Provider):
    """Handles are ``pid:start time``, so that a recycled pid is never taken for ours."""

    name = "local"
    Settings = LocalSettings
    capabilities = Capabilities(launches="agents", same_host=True)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._start(launch) for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        for pid in list(self._children):
            if self._children[pid].poll() is not None:  # reap what ended
                del self._children[pid]
        return {handle: Observation(Phase.ACTIVE) for handle in handles if _is_alive(handle)}

    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in handles:
            if _is_alive(handle):
                try:
                    os.killpg(int(handle.partition(":")[0]), signal.SIGTERM)  # it leads a group of its own
                except ProcessLookupError:
                    pass  # ended meanwhile

    def find(self, token: str) -> Handle | None:
        root = str(self.settings.get("nodes_directory", ""))
        for node in os.listdir(root) if os.path.isdir(root) else ():
            record = _read_record(os.path.join(root, node, _RECORD))
            handle = str(record.get("handle"))
            if record.get("token") == token and _is_alive(handle):
                return handle
        return None

    def check(self) -> list[Finding]:
        root = str(self.settings.get("nodes_directory", "."))
        existing = root
        while not os.path.isdir(existing):
            existing = os.path.dirname(existing)
        free = shutil.disk_usage(existing).free
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        findings = [Finding("ok", f"{cpus} processors for runs")]
        if free < 1 << 30:
            findings.append(
                Finding("warning", f"only {free >> 20} MB free for run directories in {root}", "free some space")
            )
        return findings

    def _start(self, launch: Launch) -> Handle | Failure:
        """Who it is gets on record before it gets its order. Without an order it ends: so when we are killed in
        between, nothing is left that `find` does not know."""
        lacking = _lacking(launch.need)
        if lacking:
            return Failure(lacking, kind="unsupported")
        try:
            os.makedirs(launch.directory, mode=0o700, exist_ok=True)
            child = _begin(launch)
            self._children[child.pid] = child
            handle = f"{child.pid}:{_start_time(child.pid)}"
            _write_record(os.path.join(launch.directory, _RECORD), {"token": launch.token, "handle": handle})
            assert child.stdin is not None
            with child.stdin:
                child.stdin.write(launch.stdin)
        except OSError as error:
            return Failure(f"the agent could not be started: {error}")
        return handle


def _begin(launch: Launch) -> subprocess.Popen[bytes]:
    path = os.path.join(launch.directory, "agent.log")
    log = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            list(launch.argv), stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=launch.directory,
            env=dict(launch.env), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(log)


def _lacking(need: Need) -> str:
    """What this machine will never have of it; empty when it has all."""
    cpus = os.cpu_count() or 1
    if need.cpus is not None and need.cpus > cpus:
        return f"{need.cpus} processors are needed, and this machine has {cpus}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need.memory is not None and need.memory > memory:
        return f"{need.memory >> 20} MB of memory are needed, and this machine has {memory >> 20}"
    return ""


def _start_time(pid: int) -> str:
    """Ticks since boot, from field 22 of /proc/PID/stat; where there is no /proc, "0"."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "0"
    return "dead" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _is_alive(handle: Handle) -> bool:
    pid, _, start = handle.partition(":")
    try:
        os.kill(int(pid), 0)
    except (OSError, ValueError, OverflowError):
        return False
    return _start_time(int(pid)) == start


def _write_record(path: str, record: dict[str, str]) -> None:
    fresh = f"{path}.{os.getpid()}"
    with open(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(record, file)
    os.replace(fresh, path)


def _read_record(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
