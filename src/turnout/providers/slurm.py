"""Slurm, by its commands: an agent is a batch job, many at once are an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnout.plugin.batch import UNCLEAR, Batch, BatchProvider, BatchSettings
from turnout.plugin.batch_units import clock, megabytes, wait_status, warning
from turnout.plugin.provider import Handle, Observation, Phase
from turnout.plugin.transport import Told

_COLUMNS = ("JobArrayID", "State", "exit_code", "RestartCnt", "Reason", "NodeList", "Name")
_HEADER = "JOBID|STATE|EXIT_CODE|"

_PENDING = frozenset({
    "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
})  # fmt: skip
#: Native states of what is over, and the reason; "" = as its exit code says.
_GONE = {
    "COMPLETED": "",
    "FAILED": "",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "oom",
    "NODE_FAIL": "node_lost",
    "BOOT_FAIL": "node_lost",
    "PREEMPTED": "preempted",
}
#: Why a job fails that the site will never run.
_NEVER = frozenset({"BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig"})


@dataclass(frozen=True)
class SlurmSettings(BatchSettings):
    partition: str = field(default="", metadata={"doc": "Where jobs go; empty = the site's default."})
    account: str = field(default="", metadata={"doc": "Whom jobs are charged to."})
    qos: str = field(default="", metadata={"doc": "The quality of service of jobs."})
    constraint: str = field(default="", metadata={"doc": "Features that nodes must have."})


class SlurmProvider(BatchProvider):
    """Handles are ``JOB`` or ``JOB_TASK``."""

    name = "slurm"
    Settings = SlurmSettings
    variables = ("SLURM_CONF",)
    directive = "#SBATCH"
    task = "$SLURM_ARRAY_TASK_ID"
    identity = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${task:+_$task}"
    complaints = (
        ("Socket timed out", UNCLEAR),
        ("Unexpected message received", UNCLEAR),
        ("Zero Bytes were transmitted", UNCLEAR),
        ("Unable to contact slurm controller", "transient"),
        ("Connection refused", "transient"),
        ("in standby mode", "transient"),
        ("temporarily unable to accept job", "throttled"),
        ("Job violates accounting/QOS policy", "throttled"),
        ("MaxSubmitJob", "throttled"),
        ("MaxJobCount", "throttled"),
        ("Rate limit", "throttled"),
        ("authentication credential", "login"),
        ("Protocol authentication error", "login"),
    )
    already_gone = ("Invalid job id specified", "already completing or completed")

    def options(self, batch: Batch) -> list[str]:
        need = batch.need
        given = {
            "job-name": batch.name, "open-mode": "append", "partition": self.text("partition"),
            "account": self.text("account"), "qos": self.text("qos"), "constraint": self.text("constraint"),
            "nodes": 1, "ntasks": 1, "cpus-per-task": need.cpus, "mem": need.memory and f"{megabytes(need.memory)}M",
            "gpus-per-node": need.gpus, "time": need.seconds and clock(need.seconds),
            "array": f"1-{batch.count}" if batch.count > 1 else "", "signal": f"B:TERM@{warning(need.seconds)}",
        }  # fmt: skip
        return ["--no-requeue", *(f"--{name}={value}" for name, value in given.items() if value)]

    def submit_argv(self, batch: Batch) -> list[str]:
        return ["sbatch", "--parsable", f"--chdir={batch.root}", f"--output={batch.log}", batch.script]

    def probe_argv(self, batch: Batch) -> list[str]:
        return ["sbatch", "--test-only", batch.script]

    def handle(self, job: str, index: int) -> Handle:
        return f"{job}_{index}"

    def status_argv(self, handles: Sequence[Handle]) -> list[str]:
        """Of all jobs of this user: a list of ids would be filtered only after all jobs of the site were read."""
        return ["squeue", "--me", "--all", "--array", "--states=all", "-O", ",".join(f"{each}:|" for each in _COLUMNS)]

    def parse_status(self, told: Told) -> dict[Handle, Observation]:
        return {row[0]: _observation(row) for row in _rows(told)}

    def history_argv(self, handles: Sequence[Handle]) -> list[str]:
        jobs = ",".join(sorted({handle.partition("_")[0] for handle in handles}))
        return ["sacct", "-X", "-n", "-P", "-j", jobs, "-o", "JobID,State,ExitCode,NodeList"]

    def parse_history(self, told: Told) -> dict[Handle, Observation]:
        rows = [line.split("|") for line in told.out.splitlines()]
        return {row[0]: _past(row) for row in rows if len(row) == 4}

    def cancel_argv(self, handles: Sequence[Handle]) -> list[str]:
        return ["scancel", *handles]

    def find_argv(self, name: str) -> list[str]:
        return [*self.status_argv(()), f"--name={name}"]

    def parse_find(self, told: Told, name: str) -> list[str]:
        jobs = {int(row[0].partition("_")[0]) for row in _rows(told) if row[6] == name}
        return [str(job) for job in sorted(jobs)]

    def version_argv(self) -> list[str]:
        return ["squeue", "--version"]


def _rows(told: Told) -> list[list[str]]:
    """ValueError when what squeue prints first is not there: its answer is no answer."""
    lines = told.out.splitlines()
    if told.code != 0 or not lines or not lines[0].startswith(_HEADER):
        raise ValueError("squeue did not say what it was asked for")
    rows = [line.split("|") for line in lines[1:] if line]
    if any(len(row) < len(_COLUMNS) for row in rows):
        raise ValueError("squeue gave less than it was asked for")
    return rows


def _observation(row: Sequence[str]) -> Observation:
    handle, state, status, restarts, reason, host = row[:6]
    if state in _GONE:
        return _gone(handle, state, status, reason, host)
    if state not in _PENDING:
        return Observation(Phase.ACTIVE, native=state, id=handle, host=host)
    if restarts not in ("", "0"):  # its agent comes back with the same order
        return Observation(Phase.ACTIVE, f"requeued, and waits again: {reason}", native=state, id=handle)
    return Observation(Phase.PENDING, reason if reason != "None" else "", native=state, id=handle)


def _gone(handle: Handle, state: str, status: str, detail: str, host: str) -> Observation:
    code, why = _exit(status)
    if state not in ("COMPLETED", "FAILED"):
        code, why = None, _GONE[state]
    elif detail in _NEVER:
        code, why = None, "rejected"
    return Observation(
        Phase.GONE, "" if detail in ("None", "NonZeroExitCode") else detail, reason=why, exit_code=code, native=state,
        id=handle, host=host,
    )  # fmt: skip


def _exit(status: str) -> tuple[int | None, str]:
    """squeue has it as wait(2) does, sacct as CODE:SIGNAL."""
    if ":" not in status:
        return wait_status(int(status)) if status.isdigit() else (None, "")
    code, _, number = status.partition(":")
    return wait_status(int(code) << 8 | int(number))


def _past(row: Sequence[str]) -> Observation:
    handle, state, status, host = row
    word = state.partition(" ")[0]  # CANCELLED by 1000
    if word not in _GONE:
        return Observation(Phase.ACTIVE, native=word, id=handle)
    return _gone(handle, word, status, "" if word == state else state.lower(), "" if host == "None assigned" else host)
