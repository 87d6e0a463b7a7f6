"""Import aliases: code that was written for another tool finds what it imports, where that tool is not installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

#: The name that is imported -> our module with the same names in it; an empty one: it is only a place for others. One
#: that does not exist is no alias.
TABLE: Mapping[str, str] = {
    "interface": "turnout.compat.xt.interface",
    "xtlib": "turnout.compat.xt",
    "xtlib.backends": "turnout.compat.xt.backends",
    "xtlib.backends.backend_interface": "turnout.compat.xt.backends.backend_interface",
    "xtlib.console": "turnout.compat.xt.console",
    "xtlib.hparams": "turnout.compat.xt.hparams",
    "xtlib.hparams.hp_search_interface": "turnout.compat.xt.hparams.hp_search_interface",
    "xtlib.run": "turnout.compat.xt.run",
    "hyperopt": "",
    "hyperopt.pyll": "",
    "hyperopt.pyll.stochastic": "turnout.compat.xt.stochastic",
    "nni": "turnout.compat.nni.library",
    "nni.assessor": "turnout.compat.nni.interface",
    "nni.tuner": "turnout.compat.nni.interface",
    "nni.utils": "turnout.compat.nni.interface",
    "metapipe": "turnout.compat.metapipe",
    "metapipe.app": "turnout.compat.metapipe.app",
    "metapipe.models": "turnout.compat.metapipe.models",
    "metapipe.models.command": "turnout.compat.metapipe.commands",
    "metapipe.models.command_template": "turnout.compat.metapipe.commands",
    "metapipe.models.job": "turnout.compat.metapipe.job",
    "metapipe.models.local_job": "turnout.compat.metapipe.on_target",
    "metapipe.models.pbs_job": "turnout.compat.metapipe.batch",
    "metapipe.models.queue": "turnout.compat.metapipe.queue",
    "metapipe.models.sge_job": "turnout.compat.metapipe.batch",
    "metapipe.parser": "turnout.compat.metapipe.parser",
    "metapipe.runtime": "turnout.compat.metapipe.runtime",
    "propertyestimator": "",
    "propertyestimator.backends": "turnout.compat.openff",
    "propertyestimator.backends.backends": "turnout.compat.openff",
    "propertyestimator.backends.dask": "turnout.compat.openff.dask",
    "openff": "",
    "openff.evaluator": "",
    "openff.evaluator.backends": "turnout.compat.openff",
    "openff.evaluator.backends.backends": "turnout.compat.openff",
    "openff.evaluator.backends.dask": "turnout.compat.openff.dask",
}


class _Alias(Loader):
    """Makes a module of its own with all names of ours, so that ours stays what it is."""

    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if not self._ours:
            return
        found = vars(import_module(self._ours))
        vars(module).update({name: each for name, each in found.items() if not _is_of_the_module(name)})


def _is_of_the_module(name: str) -> bool:
    return name.startswith("__") and name not in ("__doc__", "__all__", "__getattr__")


class Aliases(MetaPathFinder):
    """The last one to be asked: what is installed comes first, and a part of it is never ours."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = TABLE.get(name)
        if ours is None or not _is_ours(name.rpartition(".")[0]) or not _exists(ours):
            return None
        is_package = any(each.startswith(f"{name}.") for each in TABLE)
        return ModuleSpec(name, _Alias(ours), is_package=is_package)


def _is_ours(above: str) -> bool:
    """Whether the package above is one of our aliases, or only a place for others: a namespace, which no file makes."""
    spec = getattr(sys.modules.get(above), "__spec__", None)
    return above not in TABLE or (spec is not None and spec.origin is None)


def _exists(ours: str) -> bool:
    try:
        return not ours or find_spec(ours) is not None
    except ModuleNotFoundError:
        return False


def install() -> None:
    """From now on, imports of this process find the aliases. Idempotent."""
    if not any(isinstance(finder, Aliases) for finder in sys.meta_path):
        sys.meta_path.append(Aliases())
