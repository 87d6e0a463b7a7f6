"""``python -m turnout.futures.dask_host``: workers of a Dask scheduler, each watched by a nanny that starts it again.

What to do comes in lines of JSON: first ``{"scheduler": …, "tls": …, "folder": …}``, then any number of ``{"start":
{NAME: {"env": …, "memory": …}}}`` and ``{"stop": [NAME]}``. When the input ends, so do the workers, and all of this.
With the first line, and one ``"worker"`` in it, in the variable TURNOUT_DASK, it is that worker alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from typing import Any

import dask
import distributed

VARIABLE = "TURNOUT_DASK"


class Host:
    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._tls = distributed.Security(**told["tls"], require_encryption=True) if told["tls"] else None
        self._nannies: dict[str, Any] = {}

    async def change(self, told: dict[str, Any]) -> None:
        """Raises what keeps a worker from starting."""
        await asyncio.gather(*(self._start(name, each) for name, each in told.get("start", {}).items()))
        stopped = [self._nannies.pop(name) for name in told.get("stop", ()) if name in self._nannies]
        await asyncio.gather(*(each.close(reason="it is not wanted any more") for each in stopped))

    async def close(self) -> None:
        await self.change({"stop": list(self._nannies)})

    async def finished(self, name: str) -> None:
        await self._nannies[name].finished()

    async def _start(self, name: str, told: dict[str, Any]) -> None:
        self._nannies[name] = await distributed.Nanny(
            self._told["scheduler"], name=name, nthreads=1, memory_limit=told["memory"] or None, env=told["env"],
            security=self._tls, local_directory=self._told["folder"], dashboard=False, silence_logs=logging.CRITICAL,
            dashboard_address="127.0.0.1:0", host=self._told.get("host"), interface=self._told.get("interface"),
            death_timeout=self._told.get("patience"),
        )  # fmt: skip


async def serve() -> None:
    if VARIABLE in os.environ:
        await serve_one(json.loads(os.environ.pop(VARIABLE)))
        return
    lines = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    host = Host(json.loads(await lines.readline()))
    try:
        while line := await lines.readline():
            await host.change(json.loads(line))
            print("done", flush=True)
    finally:
        await host.close()


async def serve_one(told: dict[str, Any]) -> None:
    """One worker, for as long as its scheduler wants it."""
    with tempfile.TemporaryDirectory(prefix="turnout-dask-") as folder:
        host = Host({**told, "folder": folder})
        name = os.environ.get("TURNOUT_RUN_NAME", "worker")
        await host.change({"start": {name: told["worker"]}})
        await host.finished(name)


if __name__ == "__main__":
    dask.config.set(
        {
            "distributed.worker.daemon": False,  # daemons may have no children, and functions may want some
            "distributed.worker.http.routes": [],  # they would tell anybody who asks
        }
    )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # nannies say of each other that they end
    asyncio.run(serve())
