"""What this machine has to give."""

from __future__ import annotations

import os
import platform
import socket
from types import MappingProxyType
from typing import Any, List, Mapping, Optional, Sequence

from turnout.agent import containers
from turnout.agent.gpu_sources import CannotLook, Device, Source, find_source, visible
from turnout.agent.log import say
from turnout.agent.tree import boot_id
from turnout.wire.messages import NodeFacts


def look(gpus: Sequence[Device] = (), given: Mapping[str, Any] = MappingProxyType({})) -> NodeFacts:
    """`gpus` are those that `find_gpus` found; `given` is what we were given of this machine, where that is said: who
    gave it knows better than we do."""
    return NodeFacts(
        host=socket.gethostname(), cpus=given.get("cpus") or cpus(), memory=given.get("memory") or memory(),
        gpus=[each.facts.id for each in gpus], boot_id=boot_id(), pid=os.getpid(),
        python=platform.python_version(), cwd=os.getcwd(), gpu_facts=[each.facts for each in gpus],
        containers=containers.found(),
    )  # fmt: skip


def cpus() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def find_gpus(most: Optional[int] = None) -> "tuple[Optional[Source], List[Device]]":
    """Who can be asked about the GPUs, and those that may be handed out: what this process may see of them, and not
    more than it was given. Where a driver is there and does not answer, there are none, and that is said."""
    source = find_source()
    try:
        devices = source.devices() if source is not None else []
    except CannotLook as error:
        say(f"no GPUs: {error}")
        return None, []
    return source, visible(devices, os.environ)[:most]
