"""What a submission asks for. Made once, checked once, never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from turnout.model.container import Container
from turnout.model.inputs import Input
from turnout.model.search import Elsewhere, Search
from turnout.model.setup import Setup


class CommandKind(StrEnum):
    SCRIPT = "script"  # a run script of the user's (.sh); $RUN_ARGS$ becomes the run's arguments
    PYTHON = "python"  # a Python file; a default run script is made for it
    COMMAND = "command"  # anything else: an argv, executed as it is
    PIPELINE = "pipeline"  # nothing itself: its steps are jobs


class Schedule(StrEnum):
    STATIC = "static"  # dealt out beforehand: each node has its children
    DYNAMIC = "dynamic"  # whoever is free takes the next


#: What people write in the place of a number of GPUs for `Resources.sees_gpus`.
UNMANAGED = "unmanaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one run needs; None = no wish. `memory` in bytes, `gpu_memory` that of each of its GPUs, `seconds` is the
    time limit. `sees_gpus`: GPUs are not managed for it, where it does not say how many it needs: it sees what its node
    has, and whoever has them."""

    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = None
    gpu_memory: int | None = None
    seconds: float | None = None
    sees_gpus: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a run may be tried again.

    `failures`: further attempts after its own failure (exit code, signal, oom, timeout).
    `losses`: further attempts after a loss that was not its fault. 0 = at most once.
    """

    failures: int = 0
    losses: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run of a job: the arguments that differ from its siblings'. `outputs` are paths and patterns of what it has
    to leave in its directory; without that it has failed."""

    argv: tuple[str, ...]
    params: dict[str, object] = field(default_factory=dict)
    label: str | None = None
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Of a submission that was changed on its way: what to do, as it was asked for. `argv` are those of the runs, `env`
    the names of the variables."""

    kind: CommandKind
    display: tuple[str, ...]
    argv: tuple[tuple[str, ...], ...]
    env: tuple[str, ...] = ()
    script: str | None = None
    script_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One submission: what all its runs share, and the runs.

    `repeat` > 1 makes a PARENT of the single entry in `runs`, with so many children, made as nodes take them. `total`,
    with `nodes`, are the children of all its parents together.
    `script` is the text of the run script (for SCRIPT and PYTHON), `script_path` where it lies in the tree (None: made
    by turnout); `argv` of each run are then its arguments.
    `before` is the digest of the manifest of the frozen files, None when nothing was captured.
    `env` are the values the runs get on top of the inherited ones; kept apart from everything that is shown.
    `held`: the runs wait to be released before they enter the queue. `nodes`: so many nodes of their own, each with an
    outer run; None = any node of the target. `schedule` tells how the children of a job with several parents are dealt
    out: to each its share beforehand, or to who asks first. `parent_script` is the text of a script that runs once on a
    node before the children there, `parent_script_path` where it lies in the tree.
    `data` and `model` are what the runs read beside the frozen files, `setup` what has to be installed for them,
    `container` what they are executed in, None = nothing.
    `working_dir` is where in the frozen files a run begins, "" = at their top. `after` are patterns of the files to
    keep; those that begin with ``!`` leave some out again.
    `keep_node`: the nodes its runs were on stay, with the runs' directories, until they are released.
    `direct`: each run is started by itself, with a node to itself, rather than taken by an agent that takes many.
    `original` is what was asked for, where the system it goes to has made something else of it.
    `place` is the target as the job's settings have it (see `turnout.model.ids.place_name`), None = as the hub does.
    `notify` is what happens when the job is over: ``bell`` at the terminal that waits, or a command that the hub runs.
    `umask` is for the files the runs make; None = the node's, which lets nobody else read them.
    `shared` is a directory that all nodes see, in which its runs are executed instead of in one of their own, and where
    they leave their outputs; "" = none.
    `fail_fast`, of a pipeline: the first failure ends all of it, and not only what depends on that.
    `search`: the single entry in `runs` is the PARENT of runs with parameters that a sampler proposes; `concurrent` is
    then for all of them together. `also` are further targets, with a parent each, that take some of them.
    """

    kind: CommandKind
    display: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    script: str | None = None
    script_path: str | None = None
    repeat: int = 1
    total: int | None = None
    target: str = "local"
    place: str | None = None
    experiment: str = "default"
    workspace: str = "default"
    label: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    inherited_env: dict[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    retry: Retry = field(default_factory=Retry)
    grace: float = 10.0
    umask: int | None = None
    held: bool = False
    keep_node: bool = False
    direct: bool = False
    original: Original | None = None
    nodes: int | None = None
    schedule: Schedule = Schedule.DYNAMIC
    parent_script: str | None = None
    parent_script_path: str | None = None
    priority: int = 0
    concurrent: int | None = None
    before: str | None = None
    before_files: int = 0
    before_bytes: int = 0
    git: dict[str, object] | None = None
    after: tuple[str, ...] = ("output/**",)
    data: Input | None = None
    model: Input | None = None
    setup: Setup | None = None
    container: Container | None = None
    working_dir: str = ""
    notify: str | None = None
    shared: str = ""
    fail_fast: bool = False
    search: Search | None = None
    also: tuple[Elsewhere, ...] = ()

    @property
    def where(self) -> str:
        """The place where its runs go."""
        return self.place or self.target

    @property
    def has_own_nodes(self) -> bool:
        """Whether each of its outer runs is in a queue of its own, which one node serves."""
        return self.nodes is not None or self.direct

    @property
    def outer_runs(self) -> int:
        """How many runs are made at once: one for each entry, for each node, or for each target of a search."""
        if self.search is not None:
            return 1 + len(self.also)
        return len(self.runs) if self.nodes is None else min(self.nodes, self.total or self.nodes)

    @property
    def commands(self) -> int:
        """How many times a command of the job is executed if all goes well; of a search, as far as that is known."""
        if self.search is not None:
            return self.search.runs or 1
        if self.total is not None:
            return self.total
        return self.repeat * self.outer_runs

    @property
    def shares_children(self) -> bool:
        """Whether its parents make their children out of one stock: whoever is free takes the next."""
        return self.total is not None and self.schedule is Schedule.DYNAMIC

    def children_of(self, outer: int) -> int:
        """How many children that outer run plans; 0 = it is no parent. What is dealt out as they ask, all plan for."""
        if self.search is not None:
            return self.search.runs or 1
        if self.total is not None:
            each, more = divmod(self.total, self.outer_runs)
            return each + (outer < more) if self.schedule is Schedule.STATIC else self.total
        return self.repeat if self.repeat > 1 or self.parent_script is not None else 0
