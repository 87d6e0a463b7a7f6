"""OpenFF's calculation backends over ours: what distributes Python calls over workers, here or elsewhere.

Each name is loaded when it is first used, so that nobody waits for an engine that is not used.
"""

from __future__ import annotations

from importlib import import_module

# Spelled out instead of imported, as in the package above: type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnout.compat.openff.backend import CalculationBackend
    from turnout.compat.openff.dask import (
        DaskExistingBackend,
        DaskLocalCluster,
        DaskLSFBackend,
        DaskPBSBackend,
        DaskSGEBackend,
        DaskSLURMBackend,
    )
    from turnout.compat.openff.executors import (
        CeleryBackend,
        ExecutorBackend,
        ParslBackend,
        ProcessBackend,
        RayBackend,
    )
    from turnout.compat.openff.resources import ComputeResources, QueueWorkerResources, WrongResources

_MODULES = {
    "backend": ("CalculationBackend",),
    "dask": (
        "DaskExistingBackend", "DaskLSFBackend", "DaskLocalCluster", "DaskPBSBackend", "DaskSGEBackend",
        "DaskSLURMBackend",
    ),
    "executors": ("CeleryBackend", "ExecutorBackend", "ParslBackend", "ProcessBackend", "RayBackend"),
    "resources": ("ComputeResources", "QueueWorkerResources", "WrongResources"),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "CalculationBackend", "CeleryBackend", "ComputeResources", "DaskExistingBackend", "DaskLSFBackend",
    "DaskLocalCluster", "DaskPBSBackend", "DaskSGEBackend", "DaskSLURMBackend", "ExecutorBackend", "ParslBackend",
    "ProcessBackend", "QueueWorkerResources", "RayBackend", "WrongResources",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'turnout.compat.openff' has no attribute {name!r}")
    return getattr(import_module(f"turnout.compat.openff.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
