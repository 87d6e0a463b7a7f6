"""A real Grid Engine of one machine. As Debian packages it there can be one on a machine, so all tests share it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.batching import is_alive
from tests.harness import wait_until

ENVIRONMENT = {"SGE_ROOT": "/var/lib/gridengine", "SGE_CELL": "default"}
_NONE = ("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling")
_HOST = "hostname localhost\n" + "".join(f"{name} NONE\n" for name in (*_NONE, "report_variables"))
_GROUP = "group_name @allhosts\nhostlist localhost\n"
_PE = """\
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
_QUEUE = {
    "qname": "all.q", "hostlist": "@allhosts", "slots": "64", "shell": "/bin/sh", "load_thresholds": "NONE",
    "shell_start_mode": "unix_behavior", "pe_list": "smp", "notify": "00:00:05",
}  # fmt: skip
_SCHEDULE = {
    "schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1", "job_load_adjustments": "NONE",
    "load_adjustment_decay_time": "0:0:0",
}  # fmt: skip
_GLOBAL = {
    "min_uid": "0", "min_gid": "0", "load_report_time": "00:00:01",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
}  # fmt: skip


def call(*argv: str, check: bool = True) -> str:
    """What one of its commands prints."""
    env = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 or not check, (argv, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def running_gridengine() -> Iterator[None]:
    """Its daemons, with what earlier ones remembered of queues and jobs. Whoever wants it as well waits."""
    with open(Path(tempfile.gettempdir()) / "turnout-gridengine.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _running():
            yield


@contextmanager
def _running() -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="turnout-sge-"))
    common = Path(ENVIRONMENT["SGE_ROOT"]) / "default" / "common"
    (common / "host_aliases").write_text(f"localhost {socket.gethostname().partition('.')[0]}\n")
    _stop()
    call("su", "-s", "/bin/sh", "sgeadmin", "-c", "/usr/sbin/sge_qmaster")
    try:
        wait_until(lambda: "localhost" in call("qconf", "-sh", check=False), 30.0)
        _configure(folder)
        call("/usr/sbin/sge_execd")
        wait_until(lambda: "lx-" in call("qhost", check=False), 30.0)
        call("qmod", "-cq", "all.q", check=False)
        yield
    finally:
        with suppress(subprocess.TimeoutExpired):
            call("qdel", "-f", "-u", "*", check=False)
        _stop()
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path) -> None:
    """Idempotent: what is there already is complained of, and that is all."""
    call("qconf", "-as", "localhost", check=False)
    for flag, text in (("-Ae", _HOST), ("-Ahgrp", _GROUP), ("-Ap", _PE)):
        (folder / "new").write_text(text)
        call("qconf", flag, str(folder / "new"), check=False)
    (folder / "new").write_text(_changed(call("qconf", "-sq"), _QUEUE))
    call("qconf", "-Aq", str(folder / "new"), check=False)
    (folder / "new").write_text(_changed(call("qconf", "-ssconf"), _SCHEDULE))
    call("qconf", "-Msconf", str(folder / "new"))
    (folder / "global").write_text(_changed(call("qconf", "-sconf"), _GLOBAL))
    call("qconf", "-Mconf", str(folder / "global"))


def _changed(text: str, values: dict[str, str]) -> str:
    """A configuration as it prints them, with some values changed."""
    lines = text.replace("\\\n", " ").splitlines()
    names = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return "".join(f"{name} {values.get(name, ' '.join(rest))}\n" for name, *rest in names)


def _stop() -> None:
    """They take their time to go by themselves, and are made to stand a fall."""
    for name in ("sge_execd", "sge_qmaster"):
        for pid in subprocess.run(["pgrep", "-x", name], capture_output=True, text=True).stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            wait_until(lambda pid=pid: not is_alive(int(pid)))  # type: ignore[misc]
