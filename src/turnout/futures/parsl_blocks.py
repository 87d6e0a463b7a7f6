"""The worker processes of a HighThroughputExecutor: as many as there should be, however many end."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from parsl.jobs.states import JobState, JobStatus
from parsl.providers import LocalProvider

from turnout.futures.engine import Needs
from turnout.futures.launching import python_module
from turnout.futures.local.devices import Devices
from turnout.futures.local.environment import environment

_PATIENCE = 5.0  # seconds for an answer of the interchange
_FAREWELL = 1.0  # seconds for processes to end when they are told to
_NO_COMPLAINT = "ignore:resource_tracker:UserWarning"  # of having to remove what others left


class LocalProcesses(LocalProvider):  # type: ignore[misc]
    """Each block is a process on this machine with one worker, in an environment of its own. It ends with us, too."""

    def __init__(self, needs: Needs, folder: str) -> None:
        super().__init__()
        self.needs = needs
        self.folder = folder
        self.gpus: list[str] = []
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def submit(self, command: str, tasks_per_node: int, job_name: str = "") -> str:
        """With `gpus` as they are now."""
        name = "parsl.executors.high_throughput.process_worker_pool"
        program = python_module(name, self.folder, shlex.split(command)[1:])
        env = environment(self.needs, self.gpus)
        env["PYTHONWARNINGS"] = ",".join(filter(None, [env.get("PYTHONWARNINGS"), _NO_COMPLAINT]))
        started = subprocess.Popen(program, stdin=subprocess.DEVNULL, env=env, start_new_session=True)
        self._started[str(started.pid)] = started
        return str(started.pid)

    def status(self, job_ids: Sequence[Any]) -> list[Any]:
        states = {True: JobState.RUNNING, False: JobState.FAILED}
        return [JobStatus(states[self._started[each].poll() is None]) for each in job_ids]

    def cancel(self, job_ids: Sequence[Any]) -> list[bool]:
        """What a process shares with its workers is removed by another one, which needs a moment for it."""
        self._signal(job_ids, signal.SIGTERM)
        give_up = time.monotonic() + _FAREWELL
        while (left := self._signal(job_ids, 0)) and time.monotonic() < give_up:
            time.sleep(0.01)
        self._signal(left, signal.SIGKILL)
        for each in left:
            self._started[each].wait()
        return [True for _ in job_ids]

    def _signal(self, job_ids: Sequence[Any], number: int) -> list[Any]:
        """Those of which there is anything left to hear it."""
        heard = []
        for each in job_ids:
            self._started[each].poll()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(each), number)
                heard.append(each)
        return heard


class Blocks:
    """Of an executor of Parsl, which has to be started. `deaths` counts those that ended by themselves; who sees that
    calls are made sets it to 0."""

    def __init__(self, parsl: Any, wanted: int, needs: Needs, per_gpu: int) -> None:
        self._parsl = parsl
        self._is_ours = isinstance(parsl.provider, LocalProcesses)
        self._needs = needs
        self._devices = Devices(needs.gpus * wanted if self._is_ours else 0, per_gpu)
        self._gpus: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._wanted = wanted
        self._known: dict[str, Any] = {}
        self._leaving: dict[str, Any] = {}
        self.deaths = 0

    def close(self) -> None:
        self._devices.close()

    def scale(self, wanted: int) -> None:
        """Those who are at a call make it first."""
        with self._lock:
            self._devices.resize(self._needs.gpus * wanted)
            self._wanted = wanted
            for block in list(self._known)[wanted:]:
                self._leaving[block] = self._known.pop(block)
            for each in self._ask("MANAGERS"):
                if each["block_id"] in self._leaving:
                    self._ask(["HOLD_MANAGER", each["manager"]])
        self.tend()

    def tend(self) -> None:
        """Starts what is missing, and ends what has nothing to do any more."""
        with self._lock:
            for block in self._ended():
                self.deaths += 1
                self._end({block: self._known.pop(block)})
            if self._leaving:
                self._end_idle()
            for _ in range(self._wanted - len(self._known)):
                self._begin()

    def end_all(self) -> None:
        with self._lock:
            self._end({**self._known, **self._leaving})
            self._known.clear()
            self._leaving.clear()

    def _ended(self) -> list[str]:
        known = dict(self._known)
        states = self._parsl.provider.status(list(known.values()))
        return [block for block, state in zip(known, states, strict=True) if state.terminal]

    def _begin(self) -> None:
        gpus = self._devices.take(self._needs.gpus) if self._is_ours else []
        if self._is_ours:
            self._parsl.provider.gpus = gpus
        begun = self._parsl.scale_out_facade(1)
        for block in begun:
            self._known[block] = self._parsl.blocks_to_job_id[block]
            self._gpus[block] = gpus
        if not begun:
            self.deaths += 1
            self._devices.give_back(gpus)

    def _end(self, these: dict[str, Any]) -> None:
        if these:
            self._parsl.provider.cancel(list(these.values()))
        for block in these:
            self._devices.give_back(self._gpus.pop(block, []))

    def _end_idle(self) -> None:
        busy = {each["block_id"] for each in self._ask("MANAGERS") if each["tasks"]}
        idle = {block: job for block, job in self._leaving.items() if block not in busy}
        self._end(idle)
        self._leaving = {block: job for block, job in self._leaving.items() if block in busy}

    def _ask(self, what: Any) -> Any:
        """The interchange."""
        return self._parsl.command_client.run(what, timeout_s=_PATIENCE)
