"""The places this hub serves: those of the user's own file, and those that projects brought with their jobs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout.config import Config, TargetSettings, gather, secrets
from turnout.config.checking import checked
from turnout.engine.fleet import Target
from turnout.errors import Conflict, NotFound, TurnoutError
from turnout.home import Home, write_private
from turnout.model.ids import check_label
from turnout.registry import provider_class

_log = logging.getLogger(__name__)


class TargetBody(BaseModel):
    """A target with its provider as `service`, as `turnout.config` resolves it."""

    model_config = ConfigDict(extra="forbid")
    service: str = Field(max_length=200)
    max_runs: int | None = Field(default=None, ge=1)
    nodes: int | None = Field(default=None, ge=1)
    setup: str | None = None
    python: str | None = None
    prolog: list[str] = Field(default_factory=list, max_length=1000)
    epilog: list[str] = Field(default_factory=list, max_length=1000)
    settings: dict[str, Any] = Field(default_factory=dict)

    def as_settings(self) -> TargetSettings:
        return TargetSettings(
            **{**self.model_dump(), "prolog": tuple(self.prolog), "epilog": tuple(self.epilog)},
        )


class TargetTable(Mapping[str, Target]):
    """May be read from any thread while a target is added. What projects brought is kept over restarts of the hub.

    Agents are started for a target as it is then; see `Target.version` for what becomes of them when it changes.
    """

    def __init__(self, home: Home, settings: Config) -> None:
        self._home = home
        self._file = home.root / "targets.json"
        self._lock = threading.Lock()
        self._seen = _stamp(home.config_file)
        self._own = frozenset(settings.targets)
        self._entries = {name: settings.resolved(name) for name in settings.targets}
        self._now = {name: self._make(name, self._entries[name]) for name in _served(settings)}
        for name, entry in _read(self._file).items():
            if name not in self._own:
                self._take_up(name, entry)

    def __getitem__(self, name: str) -> Target:
        return self._now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def entry(self, name: str) -> TargetSettings:
        """What the settings say of it."""
        return self._entries[name]

    def define(self, name: str, entry: TargetSettings, is_busy: Callable[[str], bool]) -> None:
        """Serves it from now on. Returning means that it is on the disk. Idempotent.

        Conflict when the user's own file has another of that name, or when one of another provider is in use.
        """
        check_label(name, "target")
        with self._lock:
            known = self._entries.get(name)
            if known == entry:
                return
            if name in self._own:
                hint = "give the project's another name, or change your own file"
                raise Conflict(f"target {name!r} is another one in your own file", hint=hint)
            if known is not None and not _is_same_place(known, entry) and is_busy(name):
                hint = "wait until its agents have left, or give it another name"
                raise Conflict(f"target {name!r} is in use as another project has it", hint=hint)
            made = self._make(name, entry)
            entries = {**self._entries, name: entry}
            brought = {each: dataclasses.asdict(entries[each]) for each in entries if each not in self._own}
            write_private(self._file, json.dumps(brought))
            self._put(name, entry, made)

    def refresh(self, is_busy: Callable[[str], bool]) -> None:
        """Takes up what the user changed in their own file since it was last read. A file that is wrong changes
        nothing; who types the next command is told. What is taken out is served on, for the runs that wait there."""
        stamp = _stamp(self._home.config_file)
        with self._lock:
            if stamp == self._seen:
                return
            try:
                settings = checked(gather(self._home.config_file))
                made = {name: self._make(name, settings.resolved(name)) for name in _served(settings)}
            except TurnoutError as error:
                _log.warning("the changed settings are not taken up: %s", error)
                self._seen = stamp
                return
            self._own = frozenset(settings.targets)
            is_done = True
            for name, target in made.items():
                entry, known = settings.resolved(name), self._entries.get(name)
                if known is not None and not _is_same_place(known, entry) and is_busy(name):
                    self._now[name].closing, is_done = True, False  # the next round looks again
                elif known != entry:
                    self._put(name, entry, target)
            self._seen = stamp if is_done else self._seen

    def _put(self, name: str, entry: TargetSettings, made: Target) -> None:
        known, target = self._entries.get(name), self._now.get(name)
        self._entries = {**self._entries, name: entry}
        if known is not None and target is not None and _is_same_place(known, entry):
            target.max_runs, target.prolog, target.epilog = made.max_runs, made.prolog, made.epilog
            target.version = made.version
        else:
            self._now = {**self._now, name: made}

    def _make(self, name: str, entry: TargetSettings) -> Target:
        told = {**secrets.revealed(entry.settings, self._home), "nodes_directory": str(self._home.nodes)}
        provider = provider_class(entry.service)(told)
        said = {**dataclasses.asdict(entry), "setup": None, "nodes": None}  # those two are for jobs, not for agents
        version = hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return Target(name, provider, entry.max_runs, prolog=entry.prolog, epilog=entry.epilog, version=version)

    def _take_up(self, name: str, entry: TargetSettings) -> None:
        """One that a project brought earlier. A package that is gone since then must not keep the hub from starting."""
        try:
            made = self._make(name, entry)
        except NotFound as error:
            _log.warning("target %s is not served: %s", name, error)
            return
        self._entries[name] = entry
        self._now[name] = made


def _served(settings: Config) -> list[str]:
    """A box is left out while there is no provider that could reach it; a target of that kind is refused."""
    served = []
    for name in settings.targets:
        try:
            provider_class(settings.resolved(name).service)
        except NotFound as error:
            if name in settings.compute_targets:
                raise
            _log.warning("box %s is not served: %s", name, error)
            continue
        served.append(name)
    return served


def _is_same_place(known: TargetSettings, entry: TargetSettings) -> bool:
    return (known.service, known.settings) == (entry.service, entry.settings)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_mtime_ns, about.st_size, about.st_ino


def _read(path: Path) -> dict[str, TargetSettings]:
    """Nothing when there is none, or it is not ours: the next job brings its target again."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {name: TargetBody(**body).as_settings() for name, body in raw.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _log.warning("%s is not read: %s", path, error)
        return {}


def make_router(table: TargetTable, is_busy: Callable[[str], bool]) -> APIRouter:
    router = APIRouter()

    @router.put("/targets/{name}")
    async def define_target(name: str, body: TargetBody) -> dict[str, str]:
        """Serves a target that a project has in its settings."""
        await run_in_threadpool(table.define, name, body.as_settings(), is_busy)
        return {"target": name}

    return router
