"""The ``turnout`` that a run finds: installed as ``turnout/__init__.py`` in a directory first on PYTHONPATH.

It carries `track` for machines where turnout is not installed. Where a ``turnout`` lies further along ``sys.path`` (the
whole of it, or somebody's module of that name) the script means that one, and gets it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import List, Optional


def _further_along() -> Optional[ModuleSpec]:
    """Where the next ``turnout`` is; only behind this one, so that the stubs of nested runs end in the last."""
    here = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    entries: List[str] = [os.path.realpath(entry) for entry in sys.path]
    behind = sys.path[entries.index(here) + 1 :] if here in entries else []
    for finder in sys.meta_path:
        path_based = getattr(finder, "__name__", "") == "PathFinder"
        find = getattr(finder, "find_spec", None)
        spec: Optional[ModuleSpec] = find("turnout", behind if path_based else None) if find else None
        if spec is not None and spec.has_location:  # a bare directory of that name has none
            return spec
    return None


_spec = _further_along()
if _spec is not None and _spec.loader is not None:
    from importlib.util import module_from_spec

    sys.modules[__name__] = module_from_spec(_spec)  # what the import statement then returns
    _spec.loader.exec_module(sys.modules[__name__])
else:
    from turnout.track import artifact, is_restart, log, output_dir, params, tag

    __all__ = ["artifact", "is_restart", "log", "output_dir", "params", "tag"]

    def __getattr__(name: str) -> object:
        raise AttributeError(f"turnout is not installed here: a run has {', '.join(__all__)}, but not {name!r}")
