"""Data and model of a run: put where it finds them, and named in its environment."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, NamedTuple

from turnout.agent.cache import Cache
from turnout.agent.rundir import RunDir
from turnout.agent.views import Views, make_read_only
from turnout.wire.messages import InputOrder, JobOrder


class NoInput(Exception):
    """What the run should read is not on this node."""


class Placed(NamedTuple):
    """`env` names the directories, `told` says how they came to be."""

    env: Dict[str, str]
    told: Dict[str, Any]


def needs_carrying(job: JobOrder) -> bool:
    """Whether files have to be moved for them."""
    return any(order.manifest is not None for order in job.inputs.values())


def place(directory: RunDir, job: JobOrder, cache: Cache, views: Views, is_wanted: Callable[[], bool]) -> Placed:
    """All inputs of a job are where its run in `directory` finds them. Raises NoInput, and what `Cache.restore`
    and `Views.get` raise."""
    placed = Placed({}, {})
    for name, order in job.inputs.items():
        path = _place_one(name, order, directory, job, cache, views, is_wanted, placed.told)
        if path:
            placed.env.update({f"TURNOUT_{name.upper()}_DIR": path, f"XT_{name.upper()}_DIR": path})
    return placed


def _place_one(
    name: str, order: InputOrder, directory: RunDir, job: JobOrder, cache: Cache, views: Views,
    is_wanted: Callable[[], bool], told: Dict[str, Any],
) -> str:  # fmt: skip
    if order.manifest is None:
        if order.local is not None and not os.path.isdir(order.local):
            raise NoInput(f"its {name} should be in {order.local}, which is no directory on this node")
        return order.local or ""
    if order.action == "mount":
        got, entries = views.get(order.manifest, job=job.job, user=directory.path, is_wanted=is_wanted)
        told[name] = {"action": "mount", "files": len(entries), "found": got.found}
        return got.path
    target = f"{directory.path}/{name}"
    done = cache.restore(cache.read_manifest(order.manifest, is_wanted), target, is_wanted)
    if not order.writable:
        make_read_only(target)
    told[name] = {"action": "download", **done}
    return target
