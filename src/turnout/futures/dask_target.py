"""Dask workers that are runs of a target: on boxes, or on the nodes of a cluster."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from typing import Any

from turnout.client import Client
from turnout.errors import TurnoutError
from turnout.futures.dask import Dask
from turnout.futures.dask_cluster import as_told, own_client, start_scheduler, worker_told
from turnout.futures.dask_host import VARIABLE
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost
from turnout.futures.folders import executor_folder
from turnout.futures.remote import Message
from turnout.model.spec import Resources
from turnout.model.state import LIVE

import distributed  # isort: skip  # which `dask` above asks for

_LOOK_SECONDS = 2.0
_FAREWELL = 5.0  # seconds that workers get to end by themselves
_PATIENCE = 60  # seconds for which a worker looks for its scheduler


class DaskOnTarget(Dask):
    """`workers` runs of `target`, one worker each. The scheduler is in this process, at `host`, which they have to
    reach; only who has the key of this executor may speak to it. `python` is that of the nodes, with turnout and
    Dask in it."""

    def __init__(
        self, target: str, workers: int, needs: Needs, *, host: str | None = None, python: str = sys.executable
    ) -> None:
        super().__init__(needs)
        self._target = target
        self._count = workers
        self._host = host
        self._python = python
        self._runs: list[str] = []

    def connect(self) -> Any:
        self._hub = Client()
        with contextlib.ExitStack() as undo:
            undo.callback(self._end_runs)  # last: most end by themselves when their scheduler does
            tls = distributed.Security.temporary()
            folder = undo.enter_context(executor_folder("dask"))
            cluster = start_scheduler(tls, folder, self._host or self._own_address())
            undo.callback(cluster.close)
            self._scheduler = cluster.scheduler
            worker = worker_told(self.needs, [])
            told = {
                "scheduler": cluster.scheduler_address,
                "tls": as_told(tls),
                "patience": _PATIENCE,
                "worker": worker,
            }
            self._told = json.dumps(told)
            client = own_client(cluster)
            undo.callback(client.close)
            self._start_runs(self._count)
            self._is_over = threading.Event()
            self._watch = threading.Thread(target=self._look, name="turnout runs", daemon=True)
            self._watch.start()
            self._undo = undo.pop_all()
            return client

    def close(self) -> None:
        """Those that have not come yet, or not quite, would come to a scheduler that is gone."""
        here = {worker.name for worker in list(self._scheduler.running)}
        with contextlib.suppress(TurnoutError):
            if late := [run for run in self._live() if run not in here]:
                self._hub.cancel(runs=late)
        super().close()

    def disconnect(self) -> None:
        self._is_over.set()
        self._watch.join()
        self._undo.close()

    def scale(self, workers: int) -> None:
        self._count = workers
        if not self._is_on:
            return
        live = self._live()
        if len(live) < workers:
            self._start_runs(workers - len(live))
            self.fill()
        elif surplus := live[workers:]:
            self._client.retire_workers(names=surplus)
            self._hub.cancel(runs=surplus)

    @property
    def workers(self) -> int:
        return self._count

    def hand_on(self, message: Message) -> None:
        if self._is_over.is_set():
            raise self._lost()
        super().hand_on(message)

    def _own_address(self) -> str:
        is_here = self._hub.targets().get(self._target, {}).get("provider") == "local"
        return "127.0.0.1" if is_here else str(distributed.utils.get_ip())

    def _start_runs(self, count: int) -> None:
        command = [self._python, "-m", "turnout.futures.dask_host"]
        answer = self._hub.submit_commands(
            [command] * count, target=self._target, env={VARIABLE: self._told}, name="workers",
            resources=Resources(
                cpus=self.needs.cpus, gpus=self.needs.gpus or None, memory=self.needs.memory or None
            ),
        )  # fmt: skip
        self._runs += answer["runs"]

    def _live(self) -> list[str]:
        """Those of the workers' runs that are not over."""
        return [run for run in list(self._runs) if Client().run(run)["state"] in LIVE]

    def _end_runs(self) -> None:
        until = time.monotonic() + _FAREWELL
        while (live := self._live()) and time.monotonic() < until:
            time.sleep(0.05)
        if live:
            self._hub.cancel(runs=live)

    def _lost(self) -> EngineLost:
        hint = f"`turnout logs {self._runs[-1]}` shows what it printed"
        return EngineLost(f"all workers on {self._target} have ended", hint=hint)

    def _look(self) -> None:
        """Where all workers have ended, no call will be made."""
        while not self._is_over.wait(_LOOK_SECONDS):
            with contextlib.suppress(TurnoutError):  # while the hub cannot be reached, workers go on
                if not self._live():
                    self._is_over.set()
                    self.lose_all(self._lost())
