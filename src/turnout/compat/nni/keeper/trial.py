"""The trial's process, and what it finds when it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from turnout.compat.nni.keeper.leash import Leash
from turnout.compat.nni.keeper.tickets import VARIABLE
from turnout.wire import nni
from turnout.wire.messages import Grant, JobOrder

_PLATFORM, _PLACE = "NNI_PLATFORM", "NNI_SYS_DIR"
_PARAMS = "params.json"
#: What a SIGKILL did not end by then is beyond us: in uninterruptible sleep, or of another user.
_UNKILLABLE_SECONDS = 5.0


def environment(directory: str, grant: Grant, job: JobOrder) -> dict[str, str]:
    """What is set here, what the job says, and who it is. Parameters and metrics of NNI's library go by files of ours,
    unless whoever started us has set that up."""
    env = {name: text for name, text in {**os.environ, **job.env}.items() if name != VARIABLE}
    env |= {
        "TURNOUT_RUN_NAME": grant.name, "TURNOUT_JOB": grant.job_name, "TURNOUT_EXPERIMENT": job.experiment,
        "TURNOUT_WORKSPACE": job.workspace, "TURNOUT_ATTEMPT": str(grant.attempt),
        "TURNOUT_PARAMS": json.dumps(grant.params), "TURNOUT_SPOOL": f"{directory}/track",
        "TURNOUT_PARAMS_FILE": f"{directory}/{_PARAMS}",
        "XT_RUN_NAME": grant.name, "XT_JOB_ID": grant.job_name, "XT_EXPERIMENT_NAME": job.experiment,
        "XT_WORKSPACE_NAME": job.workspace,
    }  # fmt: skip
    with open(f"{directory}/{_PARAMS}", "w", encoding="utf-8") as file:
        json.dump(grant.params, file)
    if job.search or _PLATFORM not in os.environ:
        tail = grant.name.rpartition(".")[2]
        number = int(tail) if tail.isdecimal() else 1
        with open(f"{directory}/{nni.PARAMETERS}", "wb") as trial_file:
            trial_file.write(nni.parameters(number, grant.params))
        env = {name: text for name, text in env.items() if name not in nni.UNSET}
        env |= nni.environment(directory, experiment=grant.job_name, run=grant.name, number=number, code=os.getcwd())
        env["NNI_OUTPUT_DIR"] = os.environ.get("NNI_OUTPUT_DIR") or os.path.abspath("nni-output")
    return env


def metrics_file(env: Mapping[str, str]) -> str:
    """Where NNI's library tells metrics, if it is not told to print them."""
    return os.path.abspath(os.path.join(env.get(_PLACE, "."), nni.METRICS))


class Trial:
    """One process with a group of its own, all of whose output goes to one file. The group does not outlive us. For one
    thread."""

    def __init__(self, command: str, env: Mapping[str, str], output: str, *, limit: float | None, grace: float) -> None:
        self._leash = Leash()
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb") as file:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", command], env=dict(env), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._leash.tie(self.pid)
        self.began = time.time()
        self._grace = grace
        self._limit = None if limit is None else time.monotonic() + limit
        self._is_told = False
        self._kill_at: float | None = None
        self.cause = ""
        """why it is ended, if it is not by itself"""

    @property
    def pid(self) -> int:
        return self._process.pid

    def code(self) -> int | None:
        """As Python has it: below 0 the signal that killed it. None while it runs; and where it was sent a signal, as
        long as that did not end all of its group. What its time is up for is ended."""
        now, code = time.monotonic(), self._process.poll()
        if code is None and self._limit is not None and now > self._limit:
            self.end("timeout")
        if code is not None and self._is_told and self._kill_at is None:
            self._kill_at = now + self._grace
        goes_on = code is None or (self._kill_at is not None and self._goes_on())
        late = now - self._kill_at if self._kill_at is not None else 0.0
        if goes_on and late > 0:
            self.send(signal.SIGKILL)
        if code is None or (goes_on and late < _UNKILLABLE_SECONDS):
            return None
        self._leash.let_go()
        return code

    def end(self, cause: str) -> None:
        """Asks it to end; what does not is killed later. The first cause counts."""
        if not self.cause:
            self.cause, self._kill_at = cause, time.monotonic() + self._grace
            self.send(signal.SIGTERM)

    def send(self, number: int) -> None:
        """A signal for it, and for all that it started and did not set apart."""
        self._is_told = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _goes_on(self) -> bool:
        """Whether anything of its group is left: as long as there is, the group's number is nobody else's. Where we are
        the first process of a container, what the trial left is ours to collect."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
