"""What this machine has to give."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from typing import List

from turnout.agent.tree import boot_id
from turnout.wire.messages import NodeFacts


def look() -> NodeFacts:
    return NodeFacts(
        host=socket.gethostname(), cpus=cpus(), memory=memory(), gpus=gpus(), boot_id=boot_id(), pid=os.getpid(),
        python=platform.python_version(), cwd=os.getcwd(),
    )  # fmt: skip


def cpus() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gpus() -> List[str]:
    """The indices of the GPUs that may be handed out: those this process may see, else all that the driver lists."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [part.strip() for part in visible.split(",") if part.strip() not in ("", "-1")]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        listed = subprocess.run(
            [program, "--query-gpu=index", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return listed.stdout.split() if listed.returncode == 0 else []
