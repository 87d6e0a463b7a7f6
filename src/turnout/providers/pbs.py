"""PBS Professional, OpenPBS and Torque, by their commands: an agent is a batch job, many at once are an array."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnout.plugin.batch import UNCLEAR, Batch, BatchProvider, BatchSettings
from turnout.plugin.batch_units import clock, megabytes
from turnout.plugin.provider import Handle, Observation, Phase
from turnout.plugin.transport import Told

_FIELD = re.compile(r"^(?: {4}|\t)([\w.]+) = (.*)$")
_UNKNOWN = "153"  # of the jobs it was asked for, it knows not all
_NOT_THERE = ("Unknown Job I", "Job has finished")
#: Letters of both families, see qstat(1). Subjobs that are over are X with PBS Pro, and F or C everything else.
_PHASES = {
    "Q": Phase.PENDING, "W": Phase.PENDING, "H": Phase.PENDING, "T": Phase.PENDING, "M": Phase.PENDING,
    "R": Phase.ACTIVE, "E": Phase.ACTIVE, "S": Phase.ACTIVE, "U": Phase.ACTIVE, "B": Phase.ACTIVE,
    "F": Phase.GONE, "C": Phase.GONE, "X": Phase.GONE,
}  # fmt: skip
#: Exit codes that are the server's own words, and not the job's.
_SERVER = {
    -1: "rejected", -2: "rejected", -10: "oom", -11: "timeout", -12: "timeout", -26: "oom", -27: "oom", -28: "timeout",
    -29: "timeout",
}  # fmt: skip
_DONE = "turnout: qstat ended with"
_DEFAULT = "pro"


@dataclass(frozen=True)
class PbsSettings(BatchSettings):
    queue: str = field(default="", metadata={"doc": "Where jobs go; empty = the site's default."})
    account: str = field(default="", metadata={"doc": "Whom jobs are charged to."})
    family: str = field(default=_DEFAULT, metadata={"doc": "Which PBS it is: `pro` (also OpenPBS) or `torque`."})


class PbsProvider(BatchProvider):
    """Handles are ``JOB`` or ``JOB[TASK]``, without the name of the server."""

    name = "pbs"
    Settings = PbsSettings
    variables = ("PBS_CONF_FILE", "PBS_EXEC", "PBS_SERVER", "PBS_DEFAULT")
    directive = "#PBS"
    task = "${PBS_ARRAY_INDEX:-$PBS_ARRAYID}"
    identity = "${PBS_JOBID%%[.[-]*}${task:+[$task]}"
    complaints = (
        ("End of File", UNCLEAR),
        ("Premature end of message", UNCLEAR),
        ("timed out", UNCLEAR),
        ("cannot connect to server", "transient"),
        ("Connection refused", "transient"),
        ("would exceed", "throttled"),
        ("exceeds queue limit", "rejected"),
        ("exceeds available", "rejected"),
        ("Maximum number of jobs", "throttled"),
        ("too many jobs", "throttled"),
        ("Unauthorized Request", "login"),
        ("No credential", "login"),
        ("Invalid credential", "login"),
    )
    already_gone = ("Unknown Job I", "has finished", "Request invalid for state of job", "Job already in exiting state")

    def options(self, batch: Batch) -> list[str]:
        is_array = batch.count > 1
        given = [
            ("-N", batch.name), ("-S", "/bin/sh"), ("-j", "oe"),
            ("-r", "y" if is_array and not self._is_torque else "n"),  # PBS takes no array that must not be rerun
            ("-q", self.text("queue")), ("-A", self.text("account")), *self._needs(batch),
        ]  # fmt: skip
        if is_array:
            given.append(("-t" if self._is_torque else "-J", f"1-{batch.count}"))
        return [f"{flag} {value}" for flag, value in given if value]

    def _needs(self, batch: Batch) -> list[tuple[str, str]]:
        """One machine that has all of it: a chunk, or a node."""
        need = batch.need
        memory = f"{megabytes(need.memory)}mb" if need.memory else ""
        if self._is_torque:
            chunk = f"nodes=1:ppn={need.cpus or 1}" + (f":gpus={need.gpus}" if need.gpus else "")
            chunk += f",mem={memory}" if memory else ""
        else:
            chunk = f"select=1:ncpus={need.cpus or 1}" + (f":ngpus={need.gpus}" if need.gpus else "")
            chunk += f":mem={memory}" if memory else ""
        return [("-l", chunk), ("-l", f"walltime={clock(need.seconds)}" if need.seconds else "")]

    def submit_argv(self, batch: Batch) -> list[str]:
        return ["qsub", "-o", batch.log, batch.script]

    def handle(self, job: str, index: int) -> Handle:
        return f"{job}[{index}]"

    def status_argv(self, handles: Sequence[Handle]) -> list[str]:
        jobs = {each.partition("[")[0] + ("[]" if "[" in each else "") for each in handles}
        tasks = ["-t"] if any("[" in each for each in jobs) else []
        return self._qstat("-f", *tasks, *sorted(jobs))

    def parse_status(self, told: Told) -> dict[Handle, Observation]:
        jobs = _jobs(told)
        if not jobs and not any(each in told.out for each in (*_NOT_THERE, f"{_DONE} {_UNKNOWN}")):
            raise ValueError("qstat names none of the jobs that it was asked for, and does not say why")
        return {_handle(name): _observation(_handle(name), fields) for name, fields in jobs.items()}

    def cancel_argv(self, handles: Sequence[Handle]) -> list[str]:
        return ["qdel", *handles]

    def find_argv(self, name: str) -> list[str]:
        """All jobs: no other question is answered by every PBS."""
        return self._qstat("-f")

    def parse_find(self, told: Told, name: str) -> list[str]:
        found = [job for job, fields in _jobs(told).items() if fields.get("Job_Name") == name]
        return [str(job) for job in sorted({int(_handle(job).partition("[")[0]) for job in found})]

    def version_argv(self) -> list[str]:
        return ["qstat", "--version"]

    def name_of(self, token: str) -> str:
        """Older ones take 15 characters."""
        return f"to-{token[:12]}"

    def _qstat(self, *args: str) -> list[str]:
        """With a last line that says that it came to its end: an answer without any job is empty."""
        over = () if self._is_torque else ("-x",)
        return ["sh", "-c", f'"$@" 2>&1; echo "{_DONE} $?"', "sh", "qstat", *over, *args]

    @property
    def _is_torque(self) -> bool:
        return self.text("family") == "torque"


def _handle(native: str) -> Handle:
    """Without the server; the tasks of Torque are JOB[TASK].SERVER too."""
    return native.partition(".")[0]


def _jobs(told: Told) -> dict[str, dict[str, str]]:
    """What ``qstat -f`` prints: a line that names a job, and fields, whose lines go on after a tab. ValueError when it
    did not come to its end, or failed for another reason than jobs that it does not know."""
    text, _, said = told.out.rstrip().rpartition(_DONE)
    code = said.strip()
    if code not in ("0", _UNKNOWN) and not (code.isdigit() and any(each in text for each in _NOT_THERE)):
        raise ValueError("qstat did not say what it was asked for")
    jobs: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if line.startswith("Job Id:"):
            fields = jobs[line[len("Job Id:") :].strip()] = {}
        elif found := _FIELD.match(line):
            last = found.group(1)
            fields[last] = found.group(2)
        elif line.startswith("\t") and last in fields:
            fields[last] += line[1:]
    if any("job_state" not in fields for fields in jobs.values()):
        raise ValueError("qstat gave less than it was asked for")
    return jobs


def _observation(handle: Handle, fields: dict[str, str]) -> Observation:
    state = fields.get("job_state", "")
    phase = _PHASES.get(state, Phase.UNKNOWN)
    host = fields.get("exec_host", "").partition("/")[0]
    if phase is not Phase.GONE:
        detail = fields.get("comment", "") if phase is Phase.PENDING else ""
        return Observation(phase, detail, native=state, id=handle, host=host)
    raw = fields.get("Exit_status", fields.get("exit_status", ""))
    code = int(raw) if re.fullmatch(r"-?\d+", raw) else None
    if code is None or code < 0 or code >= 256:  # 256 and the signal it was ended by
        reason = "" if code is None else _SERVER.get(code, "node_lost" if code < 0 else "signal")
        return Observation(phase, fields.get("comment", ""), reason=reason, native=state, id=handle, host=host)
    return Observation(phase, reason="exit_code" if code else "", exit_code=code, native=state, id=handle, host=host)
