"""turnout runs experiments on any compute. These are its public names; each is loaded when it is first used."""

from __future__ import annotations

import os

from turnout._version import __version__

# Spelled out instead of imported: `typing` alone would cost more than all the rest. Type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnout.client import Client
    from turnout.client.pipeline_job import PipelineFailed
    from turnout.client.python_pipeline import Pipeline
    from turnout.futures.completing import as_completed
    from turnout.futures.errors import EngineLost, TaskTimeout, WorkerDied
    from turnout.futures.executor import Executor
    from turnout.futures.future import Future
# Inside a run at once, and it is light: a child forked while a thread imports waits for that import for ever.
if TYPE_CHECKING or "TURNOUT_SPOOL" in os.environ:
    from turnout.track import artifact, is_restart, log, output_dir, params, tag

__all__ = [
    "Client", "EngineLost", "Executor", "Future", "Pipeline", "PipelineFailed", "TaskTimeout", "WorkerDied",
    "__version__", "artifact", "as_completed", "is_restart", "log", "output_dir", "params", "tag",
]  # fmt: skip

_HOME = {
    "Client": "turnout.client",
    "EngineLost": "turnout.futures.errors",
    "Executor": "turnout.futures.executor",
    "Future": "turnout.futures.future",
    "Pipeline": "turnout.client.python_pipeline",
    "PipelineFailed": "turnout.client.pipeline_job",
    "TaskTimeout": "turnout.futures.errors",
    "WorkerDied": "turnout.futures.errors",
    "artifact": "turnout.track",
    "as_completed": "turnout.futures.completing",
    "is_restart": "turnout.track",
    "log": "turnout.track",
    "output_dir": "turnout.track",
    "params": "turnout.track",
    "tag": "turnout.track",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'turnout' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value  # the next use is an ordinary, fast lookup
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
