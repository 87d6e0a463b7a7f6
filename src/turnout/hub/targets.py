"""The places this hub serves: the targets of the user's own file, and targets as jobs brought them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout.config import Config, TargetSettings, secrets
from turnout.config.by_path import ByPath
from turnout.engine.hosts import Hosts
from turnout.engine.target import Target, Terms, unserved
from turnout.errors import ProviderError
from turnout.home import Home, write_private
from turnout.hub.identity import identity
from turnout.model.ids import check_label, place_name, target_of
from turnout.plugin.provider import Provider
from turnout.registry import provider_class

_log = logging.getLogger(__name__)
_KEPT = 100


class CodeBody(BaseModel):
    """The class that serves a target, as `turnout.config.by_path` finds it."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(max_length=1000)
    project: str = Field(max_length=4096, pattern="^/")
    python_path: list[str] = Field(max_length=1000)
    package: str = ""
    digest: str = Field(max_length=64)
    definition: dict[str, Any] = Field(default_factory=dict)
    username: str = ""

    def as_code(self) -> ByPath:
        return ByPath(**{**self.model_dump(), "python_path": tuple(self.python_path)})


class TargetBody(BaseModel):
    """A target with its provider as `service`, as `turnout.config` resolves it."""

    model_config = ConfigDict(extra="forbid")
    service: str = Field(max_length=200)
    max_runs: int | None = Field(default=None, ge=1)
    nodes: int | None = Field(default=None, ge=1)
    setup: str | None = None
    docker: dict[str, Any] | None = None
    python: str | None = None
    prolog: list[str] = Field(default_factory=list, max_length=1000)
    epilog: list[str] = Field(default_factory=list, max_length=1000)
    cpus: int | None = Field(default=None, ge=1)
    memory: int | None = Field(default=None, ge=0)
    memory_per_cpu: int | None = Field(default=None, ge=0)
    gpus: int | None = Field(default=None, ge=1)
    time: float | None = Field(default=None, ge=0)
    allocations: int | None = Field(default=None, ge=1)
    max_queued: int | None = Field(default=None, ge=1)
    submit_rate: int | None = Field(default=None, ge=1)
    array_size: int | None = Field(default=None, ge=1)
    poll_interval: float | None = Field(default=None, ge=0)
    idle: float | None = Field(default=None, ge=0)
    drain: float | None = Field(default=None, ge=0)
    max_runs_per_gpu: int = Field(default=1, ge=1)
    avoid_foreign_gpus: bool = True
    gpu_indices: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list, max_length=1000)
    settings: dict[str, Any] = Field(default_factory=dict)
    code: CodeBody | None = None

    def as_settings(self) -> TargetSettings:
        code = None if self.code is None else self.code.as_code()
        return TargetSettings(
            **{
                **self.model_dump(), "prolog": tuple(self.prolog), "epilog": tuple(self.epilog), "code": code,
                "gpu_indices": tuple(self.gpu_indices),
                "docker": None,
            }
        )  # fmt: skip


class TargetTable(Mapping[str, Target]):
    """Places by name, to be read from any thread while one is added. A target is frozen with the job that is sent to
    it: what a job brings that is not as the hub read it at its start is a place of its own (see `place_name`). It is
    kept over restarts of the hub, for as long as it is one of `in_use`, and some others for jobs that are on their way.

    One whose provider cannot be made, for a package is broken or a secret missing, is here without it: that keeps the
    hub from nothing else, and agents there go on. Whoever wants something of it is told why.
    """

    def __init__(
        self, home: Home, settings: Config, in_use: Collection[str] = (), *, hosts: Hosts | None = None
    ) -> None:
        self._home = home
        self._hosts = hosts or Hosts(home)
        self._file = home.root / "targets.json"
        self._lock = threading.Lock()
        # A class that is named by its path is loaded when a job brings it: it must not keep the hub from starting.
        mine = [name for name, each in settings.targets.items() if settings.provider_of(each) not in settings.classes]
        self._entries = {name: _for_agents(settings.resolved(name)) for name in mine}
        self._now = {name: self._made(name, entry) for name, entry in self._entries.items()}
        brought = _read(self._file)
        recent = [place for place in brought if target_of(place) != place][-_KEPT:]
        for place in brought:
            if place not in self._entries and (place in in_use or place in recent):
                self._entries[place] = brought[place]
                self._now[place] = self._made(place, brought[place], is_known=True)
        self._hosts.keep(self._now)

    def __getitem__(self, place: str) -> Target:
        return self._now[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def define(self, target: str, entry: TargetSettings) -> str:
        """The place that this target is when its settings are these. Returning means that it is on the disk, for jobs
        to be sent there. Idempotent; NotFound when there is no such provider or secret, ProviderError when its class is
        broken, Denied where no code is taken."""
        check_label(target, "target")
        entry = _for_agents(entry)
        place = target
        if self._entries.get(target) != entry or target not in self._now:
            said = json.dumps(dataclasses.asdict(entry), sort_keys=True, default=str)
            place = place_name(target, hashlib.sha256(said.encode()).hexdigest())
        make = partial(self._make, place, entry)  # which may take its time, and keeps no other target waiting
        if place in self._now:
            self._now[place].serve(make)
        else:
            made = Target(place, make(), _terms(entry))
            with self._lock:
                self._add(place, entry, made)
        return place

    def _add(self, place: str, entry: TargetSettings, made: Target) -> None:
        """Unless somebody else was quicker."""
        if place not in self._now:
            entries = {**self._entries, place: entry}
            write_private(self._file, json.dumps({each: dataclasses.asdict(entries[each]) for each in entries}))
            self._entries, self._now = entries, {**self._now, place: made}

    def _made(self, place: str, entry: TargetSettings, *, is_known: bool = False) -> Target:
        """At a start. `is_known`: a job brought it earlier."""
        make = partial(self._make, place, entry, is_known=is_known)
        target = unserved(place, entry.service, _terms(entry), make)
        target.try_to_serve()
        return target

    def _make(self, place: str, entry: TargetSettings, *, is_known: bool = False) -> Provider:
        sockets = self._home.sockets()
        told = {
            **secrets.revealed(entry.settings, self._home), "nodes_directory": str(self._home.nodes),
            "sockets_directory": str(sockets), "agent_socket": str(sockets / "agent.sock"),
            "python": entry.python or "",
        }  # fmt: skip
        if told.get("relay"):
            identity(file := self._home.root / "tls" / "hub.pem")
            told["identity"] = str(file)
        if entry.code is None:
            return _construct(provider_class(entry.service), told)
        return (self._hosts.recall if is_known else self._hosts.load)(place, entry, told)


def _construct(kind: type[Provider], told: Mapping[str, object]) -> Provider:
    try:
        return kind(told)
    except Exception as error:
        what = f"the provider {kind.name!r} cannot be made with these settings\n{traceback.format_exc().strip()}"
        raise ProviderError(what, hint="correct its settings, or tell who wrote it") from error


def _terms(entry: TargetSettings) -> Terms:
    return Terms(
        max_runs=entry.max_runs, most=entry.allocations, most_pending=entry.max_queued, rate=entry.submit_rate,
        bulk=entry.array_size, interval=entry.poll_interval, idle=entry.idle, drain=entry.drain, need=entry.need,
        prolog=entry.prolog, epilog=entry.epilog, python=entry.python or "",
        max_runs_per_gpu=entry.max_runs_per_gpu, avoid_foreign_gpus=entry.avoid_foreign_gpus,
        gpu_indices=entry.gpu_indices,
    )  # fmt: skip


def _for_agents(entry: TargetSettings) -> TargetSettings:
    """Without what is for the jobs that are sent there."""
    return dataclasses.replace(entry, setup=None, nodes=None, docker=None)


def _read(path: Path) -> dict[str, TargetSettings]:
    """Nothing when there is none, or it is not ours: the next job brings its target again."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {place: TargetBody(**body).as_settings() for place, body in raw.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _log.warning("%s is not read: %s", path, error)
        return {}


def make_router(table: TargetTable) -> APIRouter:
    router = APIRouter()

    @router.put("/targets/{name}")
    async def define_target(name: str, body: TargetBody) -> dict[str, str]:
        """The place that this target is for a job whose settings have it so, and what one launch there is."""
        place = await run_in_threadpool(table.define, name, body.as_settings())
        return {"place": place, "launches": table[place].provider.capabilities.launches}

    return router
