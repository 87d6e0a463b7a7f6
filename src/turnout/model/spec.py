"""What a submission asks for. Made once, checked once, never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class CommandKind(StrEnum):
    SCRIPT = "script"  # a run script of the user's (.sh); $RUN_ARGS$ becomes the run's arguments
    PYTHON = "python"  # a Python file; a default run script is made for it
    COMMAND = "command"  # anything else: an argv, executed as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one run needs; None = no wish. `memory` in bytes, `seconds` is the time limit."""

    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = None
    seconds: float | None = None


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
    """One run of a job: the arguments that differ from its siblings'."""

    argv: tuple[str, ...]
    params: dict[str, object] = field(default_factory=dict)
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One submission: what all its runs share, and the runs.

    `repeat` > 1 makes one PARENT of the single entry in `runs`; its children are made as nodes take them.
    `script` is the text of the run script (for SCRIPT and PYTHON), `script_path` where it lies in the tree (None: made
    by turnout); `argv` of each run are then its arguments.
    `before` is the digest of the manifest of the frozen files, None when nothing was captured.
    `env` are the values the runs get on top of the inherited ones; kept apart from everything that is shown.
    `umask` is for the files the runs make; None = the node's, which lets nobody else read them.
    """

    kind: CommandKind
    display: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    script: str | None = None
    script_path: str | None = None
    repeat: int = 1
    target: str = "local"
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
    priority: int = 0
    concurrent: int | None = None
    before: str | None = None
    before_files: int = 0
    before_bytes: int = 0
    git: dict[str, object] | None = None
    after: tuple[str, ...] = ("output/**",)
