"""All settings there are. This one description gives defaults, checks, the JSON schema and the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from turnout.config import by_path
from turnout.config.containers import DOCKER, DockerSettings
from turnout.config.kinds import ListOf, Named, Optional, Record, key, keys_of, section
from turnout.config.values import (
    ADDRESS,
    CODE_PATH,
    COMMAND_LINE,
    COUNT,
    FLAG,
    INSIDE,
    LABEL,
    PATTERN,
    SECONDS,
    SIZE,
    TEXT,
    TRIES,
    WHOLE,
    choice,
)
from turnout.model.spec import Resources

_LOCAL = ("localhost", "127.0.0.1", "::1")
_POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class General:
    """What a run gets when the command line does not say."""

    workspace: str = key(LABEL, "default", "The workspace of new experiments.", variable="TURNOUT_WORKSPACE")
    experiment: str = key(LABEL, "default", "The experiment of new runs.", variable="TURNOUT_EXPERIMENT")
    target: str = key(TEXT, "local", "Where runs go: a compute target or a box.", variable="TURNOUT_TARGET")
    username: str | None = key(Optional(TEXT), None, "Who submits, as runs are told; empty = your login name here.")
    env_inherit: tuple[str, ...] = key(
        ListOf(TEXT), ("all",), "Which variables of your shell a run on this machine gets: `all`, `minimal`, or names."
    )
    env_vars: Mapping[str, str] = key(
        Named(TEXT), {}, "Variables every run gets; `secret:NAME` for one that nobody may see."
    )
    default_env: str | None = key(
        Optional(TEXT), None, "The conda environment or venv of a Python file that runs elsewhere without a setup."
    )
    notify: str | None = key(
        Optional(TEXT), None, "When a job is over: `bell`, or a command that gets the job as JSON on its input."
    )
    grace: float = key(SECONDS, 10.0, "Time between SIGTERM and SIGKILL when a run is ended.")
    retry: str = key(TRIES, "0", "Further attempts after a failure of the run's own; `never` = at most once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What is frozen when a run is submitted."""

    code_dirs: tuple[str, ...] = key(
        ListOf(TEXT), (".",), "Directories to freeze; `src::dest` puts one under another name."
    )
    code_omit: tuple[str, ...] = key(ListOf(TEXT), (), "Patterns of files to leave out, as in .gitignore.")
    working_dir: str | None = key(
        Optional(INSIDE), None, "Where in the frozen files a run begins; empty = at their top."
    )
    allow_secrets: tuple[str, ...] = key(ListOf(TEXT), (), "Files to take although they look like secrets.")
    max_file_size: int = key(SIZE, 256 << 20, "The largest single file that is taken.")
    max_size: int = key(SIZE, 4 << 30, "The most that all files together may have.")
    max_files: int = key(WHOLE, 200_000, "The most files that are taken.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterFiles:
    """What is kept when a run is over."""

    after_dirs: tuple[str, ...] = key(ListOf(PATTERN), ("output/**",), "Patterns of files to keep.")
    after_omit: tuple[str, ...] = key(ListOf(PATTERN), (), "Patterns of files among them to leave out.")


_ACTION = choice("none", "download", "mount")
_HOW = "How a run gets it; empty = `mount`, or `none` where a `local` directory is named."
_WHERE = "A directory here, used with the action `none`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The data of runs; its directory is `TURNOUT_DATA_DIR`."""

    share: str | None = key(Optional(LABEL), None, "The share that has it.", also=("data-share",))
    path: str | None = key(Optional(INSIDE), None, "Where in the share; empty = all of it.", also=("data-share-path",))
    action: str | None = key(Optional(_ACTION), None, _HOW, also=("data-action",))
    writable: bool = key(FLAG, False, "Whether a downloaded copy may be changed by the run.", also=("data-writable",))
    local: str | None = key(Optional(TEXT), None, _WHERE, also=("data-local",))
    omit: tuple[str, ...] = key(ListOf(TEXT), (), "Patterns left out of an upload.", also=("data-omit",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model of runs; its directory is `TURNOUT_MODEL_DIR`."""

    share: str | None = key(Optional(LABEL), None, "The share that has it.", also=("model-share",))
    path: str | None = key(Optional(INSIDE), None, "Where in the share; empty = all of it.", also=("model-share-path",))
    action: str | None = key(Optional(_ACTION), None, _HOW, also=("model-action",))
    writable: bool = key(FLAG, False, "Whether a downloaded copy may be changed by the run.", also=("model-writable",))
    local: str | None = key(Optional(TEXT), None, _WHERE, also=("model-local",))
    omit: tuple[str, ...] = key(ListOf(TEXT), (), "Patterns left out of an upload.", also=("model-omit",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReports:
    """How `turnout list runs` looks when the command line does not say."""

    columns: tuple[str, ...] = key(ListOf(TEXT), (), "Columns, as for `--columns`; empty = the usual ones.")
    sort: str | None = key(Optional(TEXT), None, "The column to sort by.")
    reverse: bool = key(FLAG, False, "Turn the order round.")
    group: str | None = key(Optional(TEXT), None, "A table for each value of this column.")
    last: int | None = key(Optional(WHOLE), None, "Show the last so many; empty = as many as usual.")
    max_width: int | None = key(Optional(WHOLE), None, "Cut what is wider than so many characters.")
    precision: int | None = key(Optional(COUNT), None, "Digits after the point of numbers with no format of their own.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReports:
    """How `turnout list jobs` looks when the command line does not say."""

    columns: tuple[str, ...] = key(ListOf(TEXT), (), "Columns, as for `--columns`; empty = the usual ones.")
    sort: str | None = key(Optional(TEXT), None, "The column to sort by.")
    reverse: bool = key(FLAG, False, "Turn the order round.")
    last: int | None = key(Optional(WHOLE), None, "Show the last so many; empty = as many as usual.")
    max_width: int | None = key(Optional(WHOLE), None, "Cut what is wider than so many characters.")
    precision: int | None = key(Optional(COUNT), None, "Digits after the point of numbers with no format of their own.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """An account of a provider. `settings` are the keys that are the provider's own."""

    type: str = key(TEXT, "", "The provider it is an account of.")
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnoutServices:
    """Which of the external services turnout itself uses."""

    storage: str | None = key(Optional(TEXT), None, "Where kept files live: a service with a `path`; empty = here.")
    database: str | None = key(
        Optional(TEXT), None, "Where records live: a service with a PostgreSQL `url`; empty = SQLite.", also=("mongo",)
    )
    vault: str | None = key(
        Optional(TEXT), None, "Where secrets are looked up as well: a service with a `command` that prints `{name}`."
    )
    target: str | None = key(Optional(TEXT), None, "The default target, where `general.target` is not set.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """A place that runs can be sent to. `settings` are the keys that are the provider's own."""

    service: str = key(TEXT, "local", "An external service, or a provider that needs none (`local`).")
    max_runs: int | None = key(Optional(WHOLE), None, "Runs at once per node; empty = as many as it has processors.")
    nodes: int | None = key(
        Optional(WHOLE),
        None,
        "As `--nodes`, when the command line does not say; not for steps of pipelines.",
    )
    setup: str | None = key(Optional(TEXT), None, "The setup its runs use.")
    python: str | None = key(Optional(TEXT), None, "The Python that agents start with there; empty = the newest found.")
    prolog: tuple[str, ...] = key(ListOf(TEXT), (), "Command lines run once on a node before its first run.")
    epilog: tuple[str, ...] = key(ListOf(TEXT), (), "Command lines run once on a node when it is given back.")
    cpus: int | None = key(Optional(WHOLE), None, "Processors that the site is asked for, for each node.")
    memory: int | None = key(Optional(SIZE), None, "Memory that the site is asked for, for each node.")
    memory_per_cpu: int | None = key(Optional(SIZE), None, "The same, for each of its processors.")
    gpus: int | None = key(Optional(WHOLE), None, "GPUs that the site is asked for, for each node.")
    time: float | None = key(Optional(SECONDS), None, "Time that the site is asked for: a node is given back then.")
    allocations: int | None = key(Optional(WHOLE), None, "Nodes at once, of its own accord; empty = 10 on a cluster.")
    max_queued: int | None = key(Optional(WHOLE), None, "Of those, how many may wait in the site's queue.")
    submit_rate: int | None = key(Optional(WHOLE), None, "Nodes that may be asked for in a minute.")
    array_size: int | None = key(Optional(WHOLE), None, "Nodes that may be asked for in one go.")
    poll_interval: float | None = key(Optional(SECONDS), None, "Time between looks at the site; empty = 5s.")
    max_runs_per_gpu: int = key(WHOLE, 1, "Runs that may share one GPU.")
    avoid_foreign_gpus: bool = key(FLAG, True, "Whether a GPU is left alone while others compute on it.")
    gpu_indices: tuple[int, ...] = key(ListOf(COUNT), (), "Which GPUs of a node may be used, by number; empty = all.")
    docker: DockerSettings | None = key(DOCKER, None, "The image its runs are executed in; see `docker` below.")
    idle: float | None = key(
        Optional(SECONDS), None, "Time without a run after which a node is given back; empty = 60s on a cluster."
    )
    drain: float | None = key(
        Optional(SECONDS), None, "Time before its end when a node takes no more runs; empty = a tenth, at most 5min."
    )
    settings: Mapping[str, object] = field(default_factory=dict)
    code: by_path.ByPath | None = None
    """the class that serves it, where that is named by its path"""

    @property
    def need(self) -> Resources:
        """What the site is asked for, for each node."""
        per_cpu = None if self.memory_per_cpu is None else self.memory_per_cpu * (self.cpus or 1)
        memory = self.memory if self.memory is not None else per_cpu
        return Resources(cpus=self.cpus, memory=memory, gpus=self.gpus, seconds=self.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSettings:
    """One machine, usable as a target by its name. `settings` are the keys that are the provider's own."""

    address: str = key(ADDRESS, "", "Host name or user@host, as for ssh; `localhost` is this machine.")
    max_runs: int | None = key(Optional(WHOLE), None, "Runs at once; empty = as many as it has processors.")
    os: str = key(choice("linux", "macos", "windows"), "linux", "Its operating system.")
    setup: str | None = key(Optional(TEXT), None, "The setup its runs use.")
    python: str | None = key(Optional(TEXT), None, "The Python that agents start with there; empty = the newest found.")
    prolog: tuple[str, ...] = key(ListOf(TEXT), (), "Command lines run once before its first run.")
    epilog: tuple[str, ...] = key(ListOf(TEXT), (), "Command lines run once when it is given back.")
    max_runs_per_gpu: int = key(WHOLE, 1, "Runs that may share one GPU.")
    avoid_foreign_gpus: bool = key(FLAG, True, "Whether a GPU is left alone while others compute on it.")
    gpu_indices: tuple[int, ...] = key(ListOf(COUNT), (), "Which GPUs of a node may be used, by number; empty = all.")
    docker: DockerSettings | None = key(DOCKER, None, "The image its runs are executed in; see `docker` below.")
    settings: Mapping[str, object] = field(default_factory=dict)

    def as_target(self) -> TargetSettings:
        here = self.address in _LOCAL
        return TargetSettings(
            service="local" if here else "ssh", max_runs=self.max_runs, setup=self.setup, python=self.python,
            prolog=self.prolog, epilog=self.epilog, max_runs_per_gpu=self.max_runs_per_gpu,
            gpu_indices=self.gpu_indices,
            avoid_foreign_gpus=self.avoid_foreign_gpus, docker=self.docker,
            settings=self.settings if here else {"address": self.address, "os": self.os, **self.settings},
        )  # fmt: skip

    def as_member(self) -> dict[str, object]:
        """As a pool is told of it."""
        address = "localhost" if self.address in _LOCAL else self.address
        told = {"address": address, "max-runs": self.max_runs, "python": self.python, **self.settings}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSettings:
    """What a run needs on its node before it begins; made once per node."""

    activate: str | None = key(Optional(TEXT), None, "A shell line that comes first, such as `module load cuda`.")
    python: str | None = key(Optional(TEXT), None, "The version of Python, or a path to one.")
    conda_packages: tuple[str, ...] = key(ListOf(TEXT), (), "Packages to install with conda.")
    pip_packages: tuple[str, ...] = key(
        ListOf(TEXT), (), "Packages to install with pip; `name==*` = the version you have installed."
    )
    docker: DockerSettings | None = key(DOCKER, None, "The image its runs are executed in; see `docker` below.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """Code of your own, by name, as package.module.Class."""

    compute: Mapping[str, str] = key(Named(CODE_PATH), {}, "Compute providers.")
    hp_search: Mapping[str, str] = key(Named(CODE_PATH), {}, "Samplers, which `--search-type` then takes by name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """The hub. Read from the user's file only: there is one hub for all projects."""

    lease: float = key(SECONDS, 30.0, "Silence after which an agent's runs may go elsewhere.", variable="TURNOUT_LEASE")
    idle: float = key(
        SECONDS, 900.0, "Time without anything to do after which it stops itself.", variable="TURNOUT_IDLE"
    )
    agent_idle: float = key(SECONDS, 600.0, "Time without a run after which an agent stops itself.")
    cache_size: int = key(SIZE, 100 << 30, "What the cache of a node may take: files, views of shares, setups.")
    agents_listen: str | None = key(
        Optional(TEXT), None, "HOST:PORT where agents of other machines may come, over TLS; empty = nowhere."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSettings:
    """The hub's store of kept files. Read from the user's file only."""

    max_size: int | None = key(Optional(SIZE), None, "What all of them may take; empty = as the disk has room.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every section. What was not written anywhere has its default."""

    general: General = section(General)
    code: Code = section(Code)
    after_files: AfterFiles = section(AfterFiles)
    data: Data = section(Data)
    model: Model = section(Model)
    commands: tuple[str, ...] = key(
        ListOf(COMMAND_LINE), (), "Command lines, a run each, of a `turnout run` without a command."
    )
    external_services: Mapping[str, ServiceSettings] = key(
        Named(Record(ServiceSettings, is_open=True), needed="write the name of its provider, `type: NAME`"),
        {},
        "Accounts of providers, by name.",
    )
    xt_services: TurnoutServices = section(TurnoutServices)
    compute_targets: Mapping[str, TargetSettings] = key(
        Named(Record(TargetSettings, is_open=True), label="target"), {"local": TargetSettings()},
        "Places that runs can be sent to, by name.", local={"service": "local"},
    )  # fmt: skip
    boxes: Mapping[str, BoxSettings] = key(
        Named(Record(BoxSettings, is_open=True), label="box", needed="write `address: HOST`"),
        {},
        "Machines, each usable as a target by its name.",
    )
    setups: Mapping[str, SetupSettings] = key(
        Named(Record(SetupSettings), label="setup"), {}, "What runs need on their node before they begin, by name."
    )
    providers: Providers = section(Providers)
    run_reports: RunReports = section(RunReports)
    job_reports: JobReports = section(JobReports)
    hub: HubSettings = section(HubSettings)
    blobs: BlobSettings = section(BlobSettings)
    classes: Mapping[str, by_path.Named] = field(default_factory=dict)
    """compute providers that are named by their path, and where they are"""
    samplers: Mapping[str, by_path.Named] = field(default_factory=dict)
    """samplers that are named by their path"""

    @property
    def targets(self) -> dict[str, TargetSettings]:
        """Every name that ``--target`` takes: compute targets, and boxes."""
        return {**{name: box.as_target() for name, box in self.boxes.items()}, **self.compute_targets}

    def provider_of(self, target: TargetSettings) -> str:
        """The name of the provider that serves it."""
        service = self.external_services.get(target.service)
        return target.service if service is None else service.type

    def settings_of(self, target: TargetSettings) -> dict[str, object]:
        """What that provider is told: its service's keys, and the target's own over them."""
        service = self.external_services.get(target.service)
        return {**(service.settings if service is not None else {}), **target.settings}

    def resolved(self, name: str) -> TargetSettings:
        """A target as who serves it needs it: its provider in the place of its service, and all that one is told."""
        target = self.targets[name]
        provider, settings = self.provider_of(target), self.settings_of(target)
        if provider == _POOL:
            members = [each for each in self.boxes_of(target) if each in self.boxes]
            settings["boxes"] = {each: self.boxes[each].as_member() for each in members}
        found = self.classes.get(provider)
        username = self.general.username
        code = None if found is None else by_path.code_of(found, self._definition(name), username)
        return replace(target, service=provider, settings=settings, code=code)

    def _definition(self, name: str) -> dict[str, object]:
        """All that is written of a target, over all that is written of its service."""
        target, blank = self.targets[name], TargetSettings()
        written = {
            key: value
            for key, each in keys_of(TargetSettings).items()
            if (value := getattr(target, each.attribute)) != getattr(blank, each.attribute)
        }
        service = self.external_services.get(target.service)
        account = {} if service is None else {"type": service.type, **service.settings}
        return {**account, **written, **target.settings}

    def boxes_of(self, target: TargetSettings) -> list[str]:
        """The names of the boxes of a pool: all, if it does not say. Those of another target: none."""
        if self.provider_of(target) != _POOL:
            return []
        named = self.settings_of(target).get("boxes") or list(self.boxes)
        return [str(each) for each in named] if isinstance(named, list | tuple) else [str(named)]


#: At the top of a file, beside the sections: other files.
INCLUDE = "include"
ROOT = Record(Config, beside=(INCLUDE,))
#: There is one hub for all projects, so a project cannot say how it behaves.
USER_ONLY = ("hub", "blobs")
