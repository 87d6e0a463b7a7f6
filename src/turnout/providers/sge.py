"""Grid Engine and its children, by their commands: an agent is a batch job, many at once are an array."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turnout.plugin.batch import UNCLEAR, Batch, BatchProvider, BatchSettings
from turnout.plugin.batch_units import clock, megabytes, warning
from turnout.plugin.provider import Handle, Observation, Phase
from turnout.plugin.transport import Told

#: What qacct says of a failed job, by the number it begins with, see sge_status(5).
_FAILED = {"37": "timeout", "38": "timeout", "19": "node_lost", "21": "node_lost", "25": "preempted"}


@dataclass(frozen=True)
class SgeSettings(BatchSettings):
    queue: str = field(default="", metadata={"doc": "Where jobs go; empty = wherever they fit."})
    project: str = field(default="", metadata={"doc": "Whom jobs are charged to."})
    parallel_environment: str = field(
        default="smp", metadata={"doc": "The parallel environment that gives several slots on one machine."}
    )
    memory_resource: str = field(
        default="h_vmem", metadata={"doc": "What memory is asked for by, for each slot; empty = it is not."}
    )
    gpu_resource: str = field(default="gpu", metadata={"doc": "What GPUs are asked for by, for each job."})


class SgeProvider(BatchProvider):
    """Handles are ``JOB`` or ``JOB.TASK``."""

    name = "sge"
    Settings = SgeSettings
    variables = ("SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT")
    directive = "#$"
    task = "${SGE_TASK_ID#undefined}"
    identity = "$JOB_ID${task:+.$task}"
    complaints = (
        ("got read error", UNCLEAR),
        ("got send error", UNCLEAR),
        ("timeout", UNCLEAR),
        ("unable to contact qmaster", "transient"),
        ("unable to send message to qmaster", "transient"),
        ("can't connect", "transient"),
        ("jobs per user are allowed", "throttled"),
        ("jobs are allowed in the cluster", "throttled"),
        ("access denied", "login"),
        ("is no submit host", "login"),
    )
    already_gone = ("does not exist", "is already in deletion", "has registered the job", "has deleted job")

    def options(self, batch: Batch) -> list[str]:
        need, cpus = batch.need, batch.need.cpus or 1
        asked: dict[str, object] = {}
        if need.memory and (resource := self.text("memory-resource", "h_vmem")):
            asked[resource] = f"{megabytes(-(-need.memory // cpus))}M"  # it counts for each slot
        if need.gpus:
            asked[self.text("gpu-resource", "gpu")] = need.gpus
        if need.seconds:
            asked["h_rt"] = clock(need.seconds)
            asked["s_rt"] = _to_the_second(need.seconds - warning(need.seconds))
        given = [
            ("-N", batch.name), ("-S", "/bin/sh"), ("-j", "y"), ("-r", "n"), ("-notify", ""),
            ("-q", self.text("queue")), ("-P", self.text("project")),
            ("-pe", f"{self.text('parallel-environment', 'smp')} {cpus}" if cpus > 1 else ""),
            ("-l", ",".join(f"{name}={value}" for name, value in asked.items())),
            ("-t", f"1-{batch.count}" if batch.count > 1 else ""),
        ]  # fmt: skip
        return [f"{flag} {value}".strip() for flag, value in given if value or flag == "-notify"]

    def submit_argv(self, batch: Batch) -> list[str]:
        return ["qsub", "-terse", "-wd", batch.root, "-o", batch.log, batch.script]

    def probe_argv(self, batch: Batch) -> list[str]:
        return ["qsub", "-w", "v", batch.script]

    def handle(self, job: str, index: int) -> Handle:
        return f"{job}.{index}"

    def status_argv(self, handles: Sequence[Handle]) -> list[str]:
        return ["qstat", "-xml", "-g", "d"]

    def parse_status(self, told: Told) -> dict[Handle, Observation]:
        return {handle: _observation(handle, job) for handle, job in _jobs(told)}

    def history_argv(self, handles: Sequence[Handle]) -> list[str]:
        """Of all our jobs of the last days: every call reads all of the site's accounting."""
        return ["qacct", "-d", "3", "-j", f"{self.name_of('')}*"]

    def parse_history(self, told: Told) -> dict[Handle, Observation]:
        past = (_past(text) for text in told.out.split("=" * 20) if "jobnumber" in text)
        return {seen.id: seen for seen in past}

    def cancel_argv(self, handles: Sequence[Handle]) -> list[str]:
        return ["qdel", *handles]

    def find_argv(self, name: str) -> list[str]:
        return self.status_argv(())

    def parse_find(self, told: Told, name: str) -> list[str]:
        jobs = {int(handle.partition(".")[0]) for handle, job in _jobs(told) if _text(job, "JB_name") == name}
        return [str(job) for job in sorted(jobs)]

    def version_argv(self) -> list[str]:
        return ["sh", "-c", "qstat -help | head -n 1"]


def _to_the_second(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _jobs(told: Told) -> Iterator[tuple[Handle, ElementTree.Element]]:
    """ValueError when it is not XML of the kind that qstat prints."""
    try:
        root = ElementTree.fromstring(told.out)
    except ElementTree.ParseError as error:
        raise ValueError(f"qstat did not print XML: {error}") from error
    if told.code != 0 or root.find("job_info") is None:
        raise ValueError("qstat did not say what it was asked for")
    for job in root.iter("job_list"):
        task = _text(job, "tasks")
        yield _text(job, "JB_job_number") + (f".{task}" if task else ""), job


def _text(job: ElementTree.Element, name: str) -> str:
    return (job.findtext(name) or "").strip()


def _observation(handle: Handle, job: ElementTree.Element) -> Observation:
    """A state is a row of letters, see qstat(1)."""
    state, host = _text(job, "state"), _text(job, "queue_name").rpartition("@")[2]
    if "w" not in state:
        return Observation(Phase.ACTIVE, native=state, id=handle, host=host)
    if "R" in state:  # its agent comes back with the same order
        return Observation(Phase.ACTIVE, "requeued, and waits again", native=state, id=handle)
    job_id = handle.partition(".")[0]
    detail = f"in error: see `qstat -j {job_id}`" if "E" in state else "held" if "h" in state else "queued"
    return Observation(Phase.PENDING, detail, native=state, id=handle)


def _past(text: str) -> Observation:
    """One entry of qacct: a name and a value a line."""
    entry = {name: value.strip() for name, _, value in (line.partition(" ") for line in text.splitlines())}
    task = entry.get("taskid", "undefined")
    handle = entry["jobnumber"] + ("" if task == "undefined" else f".{task}")
    failed, _, what = entry.get("failed", "0").partition(":")
    status = int((entry.get("exit_status") or "0").split()[0])  # 137 (Killed)
    reason = _FAILED.get(failed.strip(), "signal" if status > 128 else "exit_code" if status else "")
    return Observation(
        Phase.GONE, what.strip(), reason=reason, exit_code=None if status > 128 or what else status, id=handle,
        host=entry.get("hostname", ""),
    )  # fmt: skip
