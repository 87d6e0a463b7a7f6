"""From what a person asks for to a job that can be handed over: the specification, and the frozen files.

All of it happens here, before a hub is needed: what is wrong is told before anything is done.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnout import config as configuration
from turnout.client import ask
from turnout.errors import InvalidInput, NotFound
from turnout.home import Home
from turnout.model.ids import check_env_key, check_label, check_tag_key
from turnout.model.limits import check_amount
from turnout.model.spec import JobSpec, Resources, Retry
from turnout.snapshot import Limits, Sink, Snapshot, capture, deliver

#: A run started from within a run is its own run.
_NOT_INHERITED = (
    "TURNOUT_RUN_", "TURNOUT_ATTEMPT", "TURNOUT_SPOOL", "TURNOUT_PARAMS", "TURNOUT_OUTPUT_DIR", "TURNOUT_JOB",
    "TURNOUT_NODE", "XT_",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to run, and how. None = as the project's or the user's settings say."""

    command: tuple[str, ...]
    target: str | None = None
    experiment: str | None = None
    workspace: str | None = None
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    grace: float = 10.0
    retry: Retry = field(default_factory=Retry)
    priority: int = 0
    runs: int = 1
    multi: Path | None = None
    concurrent: int | None = None
    snapshot: bool = True
    allow_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A specification that lacks only the name of its snapshot, and that snapshot (None: nothing is frozen)."""

    spec: JobSpec
    snapshot: Snapshot | None

    def deliver(self, sink: Sink) -> JobSpec:
        """Brings the files to where they are kept; the whole specification. May be repeated."""
        if self.snapshot is None:
            return self.spec
        if not self.snapshot.entries:
            return replace(self.spec, git=self.snapshot.git)
        kept = deliver(self.snapshot, sink)
        return replace(
            self.spec, before=kept.digest, before_files=kept.files, before_bytes=kept.total_bytes, git=kept.git
        )


def prepare(wish: Wish, home: Home, cwd: Path, *, remember: bool = True) -> Prepared:
    """Checks everything, then freezes `cwd`. Without `remember` nothing at all is written, not even the stat cache.

    Raises InvalidInput, NotFound or SnapshotRefused.
    """
    settings = configuration.load(configuration.find_project_file(cwd))
    spec = _specify(wish, settings.general, cwd)
    _check_target(spec.target, home)
    if not wish.snapshot:
        return Prepared(spec, None)
    if remember:
        home.make()
    code = settings.code
    limits = Limits(file_bytes=code.max_file_size, total_bytes=code.max_size, files=code.max_files)
    cache = home.stat_cache if remember else Path(os.devnull)  # where nothing is found and nothing can be kept
    return Prepared(spec, capture(cwd, cache=cache, limits=limits, allow_secrets=wish.allow_secrets))


def _specify(wish: Wish, general: configuration.General, cwd: Path) -> JobSpec:
    target = general.target if wish.target is None else wish.target
    experiment = general.experiment if wish.experiment is None else wish.experiment
    workspace = general.workspace if wish.workspace is None else wish.workspace
    for kind, label in (("target", target), ("experiment", experiment), ("workspace", workspace)):
        check_label(label, kind)
    if wish.name is not None:
        check_label(wish.name, "run name")
    for key, value in wish.tags.items():
        check_tag_key(key)
        if value.encode(errors="ignore").decode() != value:
            raise InvalidInput(f"the value of tag {key!r} is not text", hint="give it in UTF-8")
    check_amount(wish.tags, "the tags")
    for key in wish.env:
        check_env_key(key)
    what = ask.understand(list(wish.command), wish.multi, cwd)
    return JobSpec(
        kind=what.kind, display=what.display, runs=what.runs, script=what.script,
        script_path=what.script_path, repeat=wish.runs, target=target, experiment=experiment,
        workspace=workspace, label=wish.name, tags=dict(wish.tags), env=dict(wish.env), inherited_env=_inherited(),
        resources=wish.resources, retry=wish.retry, grace=wish.grace, priority=wish.priority,
        concurrent=wish.concurrent, umask=_umask(),
    )  # fmt: skip


def _umask() -> int:
    """This process's; there is no way to read it but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _inherited() -> dict[str, str]:
    """This environment, for a run on this machine."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.isascii() and name.isidentifier() and not name.startswith(_NOT_INHERITED)
    }


def _check_target(name: str, home: Home) -> None:
    """An unknown target is told before anything is captured."""
    known = configuration.load(home.config_file).targets
    if name not in known:
        raise NotFound(f"no target {name!r}", hint=f"known targets: {', '.join(sorted(known))}")
