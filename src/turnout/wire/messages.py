"""Hub and agent talk in these. JSON objects of exactly these fields; the agent always asks, the hub answers.

An *attempt* is named by ``[run id, attempt number]`` everywhere. Its number is the fence: the hub refuses whatever
comes from an attempt that is not the run's current one, and says so in `fenced`.

=========  ==================  ===============================================================================
request    answer              meaning
=========  ==================  ===============================================================================
Hello      Welcome             an agent began (again); it tells what it still holds
Poll       Orders              wait for work; also renews the lease of everything the agent holds
Report     Orders              what happened, with the bytes of output and spool behind it; may bring work as well
=========  ==================  ===============================================================================

Grants are repeated in every answer until the agent names them in `held`; an agent starts a run only when a request that
named it there was answered and did not fence it: that is the first renewal of its lease. Every message may
arrive twice.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from turnout.wire.gpus import GpuFacts, GpuRoom

_LENGTH = struct.Struct("<I")
_SURROGATE = re.compile(rb"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\ud[89a-f][0-9a-f]{2}")
Attempt = Tuple[int, int]


@dataclass(frozen=True)
class NodeFacts:
    """What the agent found on its machine. `memory` in bytes; `gpus` are the ids it may hand out."""

    host: str
    cpus: int
    memory: int
    gpus: List[str]
    boot_id: str
    pid: int
    python: str
    cwd: str
    gpu_facts: List[GpuFacts] = field(default_factory=list)
    """of each of `gpus`, in their order"""
    containers: List[str] = field(default_factory=list)
    """which programs for containers are there: podman, docker"""


@dataclass(frozen=True)
class Hello:
    protocol: int
    version: str
    facts: NodeFacts
    held: List[Attempt]
    number: int = 0
    """one of the numbers of polls: what was said before this and has a smaller one does not count any more"""
    fixed: bool = False
    """it will speak no newer protocol: it began anew for that already, or cannot"""


@dataclass(frozen=True)
class Welcome:
    """`lease` seconds of silence end the agent's right to its attempts; it renews at a third of that."""

    node: str
    lease: float
    idle: float
    max_runs: int
    fenced: List[Attempt]


@dataclass(frozen=True)
class InputOrder:
    """What runs read beside their files. `action`: ``download`` (a copy for each, which it may change if `writable`) or
    ``mount`` (one read-only view for all) of what `manifest` names; ``none``: at most the name of a directory here."""

    action: str
    manifest: Optional[str] = None
    local: Optional[str] = None
    writable: bool = False


@dataclass(frozen=True)
class SetupOrder:
    """What is installed before a run: an environment with these packages, made once per node and `lock`. `activate` are
    shell lines that come first."""

    name: str
    lock: str
    activate: str = ""
    conda: List[str] = field(default_factory=list)
    pip: List[str] = field(default_factory=list)
    python: Optional[str] = None

    @property
    def needs_environment(self) -> bool:
        return bool(self.conda or self.pip or self.python)


@dataclass(frozen=True)
class ContainerOrder:
    """What runs are executed in: see `turnout.model.container`."""

    image: str
    options: List[str] = field(default_factory=list)
    program: Optional[str] = None
    pull: str = "missing"
    network: Optional[str] = None


@dataclass(frozen=True)
class JobOrder:
    """What the runs of one job share, and those of all jobs that are granted as `like` it; sent once per agent. `env`
    holds the submitter's values: never logged.

    `script` is a run script's text, `script_path` where in the run's directory it lies (None: it is one of ours).
    """

    job: int
    experiment: str
    workspace: str
    kind: str
    script: Optional[str]
    script_path: Optional[str]
    before: Optional[str]
    after: List[str]
    env: Dict[str, str]
    seconds: Optional[float]
    grace: float
    memory: Optional[int]
    umask: Optional[int] = None
    parent_script: Optional[str] = None
    parent_script_path: Optional[str] = None
    inputs: Dict[str, InputOrder] = field(default_factory=dict)
    """``data`` and ``model``"""
    setup: Optional[SetupOrder] = None
    working_dir: str = ""
    container: Optional[ContainerOrder] = None
    cpus: Optional[int] = None
    """processors of a run, where something can hold it to that"""
    search: bool = False
    """it is a search: its runs may be scripts of NNI's, also one that has no parameters"""
    sees_gpus: bool = False
    """no GPUs are hidden from its runs, which ask for none"""
    kin: int = 0
    """what jobs have in common that are steps of one pipeline; 0 = it is none"""


@dataclass(frozen=True)
class Grant:
    """One attempt of one run for this agent. `slots` is its share of max-runs, `memory` and `gpus` what it asks for."""

    run: int
    attempt: int
    name: str
    job: int
    argv: List[str]
    params: Dict[str, Any]
    slots: float
    memory: int
    gpus: int
    carry: Optional[str] = None
    """the manifest of what earlier attempts left, whose output directory is put in place again"""
    script: bool = False
    """it is a parent, here to run its job's parent script"""
    keep: bool = False
    """its directory stays when it is over, and the node with it, until the hub lets it go"""
    gpu_memory: int = 0
    """what each of its GPUs must have for it"""
    inputs: List[Tuple[str, List[str]]] = field(default_factory=list)
    """manifests of what other runs have left, and patterns of those files that this one gets"""
    outputs: List[str] = field(default_factory=list)
    """paths and patterns of what it has to leave behind"""
    shared: str = ""
    """the directory, which all nodes see, that it is executed in and leaves its outputs in; "" = one of its own"""
    like: int = 0
    """the job whose JobOrder is its job's, too; 0 = it has its own"""

    @property
    def order(self) -> int:
        """Which JobOrder says the rest."""
        return self.like or self.job

    @property
    def job_name(self) -> str:
        return f"job{self.job}"


@dataclass(frozen=True)
class Stop:
    """End this attempt: SIGTERM, `grace` seconds, SIGKILL. `cause` is cancelled, stopped or preempted."""

    run: int
    attempt: int
    cause: str


@dataclass(frozen=True)
class Orders:
    grants: List[Grant]
    jobs: List[JobOrder]
    stops: List[Stop]
    fenced: List[Attempt]
    refused: List[str] = field(default_factory=list)
    """keys of the chunks that were not taken; see Chunk"""
    acks: Dict[str, int] = field(default_factory=dict)
    """chunk key -> bytes of that stream the hub now has on disk"""
    exit: bool = False
    """the agent is no longer wanted: finish what runs, then leave"""
    gpus_wanted: bool = False
    """a run waits for GPUs of this node"""


@dataclass(frozen=True)
class Poll:
    """What the agent has free (`slots`, perhaps with a few beyond max-runs to have the next runs at hand, `memory`,
    `gpus`), what it holds, which JobOrders it has, and how many seconds to wait for news."""

    slots: float
    memory: int
    gpus: int
    held: List[Attempt]
    jobs: List[int]
    wait: float
    number: int = 0
    """grows with each, also when the agent begins anew: one that arrives behind a newer one says nothing any more"""
    ahead: float = 0.0
    """slots beyond max-runs for runs of what is in `short`, so that the next is at hand when one ends"""
    short: List[int] = field(default_factory=list)
    """JobOrders whose runs are over in a moment, and what they have in common as `kin`"""
    kept: bool = False
    """there are directories of runs that stay until they are released"""
    preparing: bool = False
    """its target's prolog is still under way: no run may begin before that"""
    trouble: str = ""
    """why no run may ever begin there; the agent leaves once it has said so"""
    gpu_rooms: Optional[List[GpuRoom]] = None
    """what each GPU has left; None = nothing is known but how many are free"""
    gpus_wanted: bool = False
    """it knows that a run waits for its GPUs"""
    seconds: Optional[float] = None
    """how long a run that begins now may take: the node has to be given back then"""
    leaving: bool = False
    """it takes nothing more, and leaves when it hears that this was heard, unless it has something by then"""
    protocol: int = 0
    """as in Hello: the hub may be another one than that which heard it"""


@dataclass(frozen=True)
class Fact:
    """Something that happened to an attempt. `kind`: staged | setup | running | ended | captured | returned.

    staged: {files, bytes, cached}; setup: {setup, found, seconds}; running: {pid};
    ended: {exit_code, signal, cause, message, seconds, ...};
    captured: {manifest, files, bytes, output_bytes, output_sha256, error?}; returned: {} (given back, never started).
    """

    run: int
    attempt: int
    kind: str
    time: float
    body: Dict[str, Any]


@dataclass(frozen=True)
class Chunk:
    """`size` bytes of a stream of an attempt, from `offset`. `stream`: ``output`` or ``track/NAME``."""

    run: int
    attempt: int
    stream: str
    offset: int
    size: int

    @property
    def key(self) -> str:
        return f"{self.run}.{self.attempt}/{self.stream}"


@dataclass(frozen=True)
class Report:
    facts: List[Fact]
    chunks: List[Chunk]
    poll: Poll


def dump(message: object) -> bytes:
    """A message as JSON. Bytes that are no text, in an argument say, travel as half characters."""
    return json.dumps(message, default=vars, separators=(",", ":")).encode()


def pack_report(report: Report, payloads: List[bytes]) -> bytes:
    """A Report and the bytes of its chunks, in their order, as one body.

    What a report says is text for people: half characters in it (of a file's name, say) become replacement characters.
    """
    head = dump(report)
    if b"\\ud" in head:
        head = _SURROGATE.sub(lambda found: found[0] if len(found[0]) == 12 else b"\\ufffd", head)
    return b"".join([_LENGTH.pack(len(head)), head, *payloads])


def split_report(body: bytes) -> Tuple[bytes, memoryview]:
    """The JSON head and the chunk bytes of :func:`pack_report`; ValueError when cut short."""
    if len(body) < _LENGTH.size:
        raise ValueError("report is cut short")
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    if end > len(body):
        raise ValueError("report is cut short")
    return body[_LENGTH.size : end], memoryview(body)[end:]


def load_welcome(body: bytes) -> Welcome:
    return Welcome(**json.loads(body))


def load_orders(body: bytes) -> Orders:
    raw = json.loads(body)
    raw["grants"] = [Grant(**g) for g in raw["grants"]]
    raw["jobs"] = [_load_job(j) for j in raw["jobs"]]
    raw["stops"] = [Stop(**s) for s in raw["stops"]]
    raw["fenced"] = [(run, attempt) for run, attempt in raw["fenced"]]
    return Orders(**raw)


def _load_job(raw: Dict[str, Any]) -> JobOrder:
    inputs = {name: InputOrder(**order) for name, order in raw.get("inputs", {}).items()}
    setup = SetupOrder(**raw["setup"]) if raw.get("setup") is not None else None
    container = ContainerOrder(**raw["container"]) if raw.get("container") is not None else None
    return JobOrder(**{**raw, "inputs": inputs, "setup": setup, "container": container})
