"""A scheduler of Dask's in this process, and a process with workers of it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from typing import Any

import distributed

from turnout.errors import Unavailable
from turnout.futures.engine import Needs
from turnout.futures.local.environment import environment

DEATHS = 2
"""workers that a call may kill before it is given up with the next"""
_PATIENCE = 10.0  # seconds for workers to end


def start_scheduler(tls: Any, folder: str, host: str = "127.0.0.1") -> Any:
    """A scheduler in this process, that leaves its files in `folder`, as a cluster without workers. Unavailable when it
    cannot be."""
    options = {
        "host": [host, None], "port": [0, 0], "protocol": ["tls://", "inproc://"], "security": tls,
        "dashboard": False, "dashboard_address": "127.0.0.1:0", "allowed_failures": DEATHS, "local_directory": folder,
    }  # fmt: skip
    scheduler = {"cls": distributed.Scheduler, "options": options}
    try:
        return distributed.SpecCluster(workers={}, scheduler=scheduler, security=tls, silence_logs=logging.CRITICAL)
    except RuntimeError as error:
        hint = "give an address of this machine that the workers can reach"
        raise Unavailable(f"no scheduler of Dask can be started at {host}: {error}", hint=hint) from error


def own_client(cluster: Any) -> Any:
    """A client of such a scheduler, that does not speak with it through a socket."""
    address = cluster.scheduler.listeners[1].contact_address
    return distributed.Client(address, loop=cluster.loop, security=cluster.security, set_as_default=False)


class Host:
    """A process with workers; see `dask_host`, to which it is first `told` where the scheduler is."""

    def __init__(self, told: dict[str, Any]) -> None:
        code = "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; import runpy; "
        code += "runpy.run_module('turnout.futures.dask_host', run_name='__main__', alter_sys=True)"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._say(told)

    def tell(self, what: dict[str, Any]) -> None:
        """Returns when it is done; Unavailable when it cannot be."""
        self._say(what)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"done\n":
            raise Unavailable("workers of Dask cannot be started", hint="what they printed is above")

    @property
    def is_gone(self) -> bool:
        """It ended by itself, or was killed."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends it, with its workers."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that it is gone is seen when its answer is read
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()


def as_told(tls: Any) -> dict[str, str]:
    """The certificate and its key, for a worker."""
    return {
        "tls_ca_file": tls.tls_ca_file, "tls_worker_cert": tls.tls_worker_cert, "tls_worker_key": tls.tls_worker_key,
    }  # fmt: skip


def worker_told(needs: Needs, gpus: list[str]) -> dict[str, Any]:
    env = environment(needs, gpus)
    return {
        "env": {name: value for name, value in env.items() if os.environ.get(name) != value},
        "memory": needs.memory,
    }
