"""Variables that look as if they set something, and set nothing: a typing error there would go unnoticed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

from turnout.config.layers import variable_of, variables
from turnout.config.problem import Problem
from turnout.config.secrets import VARIABLE
from turnout.config.sections import ROOT

#: What is no setting: where turnout itself lives, and what a run finds around it (a run may call turnout).
_OTHERS = frozenset({
    "TURNOUT_HOME", "TURNOUT_DATABASE", "TURNOUT_RUN_NAME", "TURNOUT_ATTEMPT", "TURNOUT_JOB", "TURNOUT_NODE",
    "TURNOUT_EXPERIMENT", "TURNOUT_WORKSPACE", "TURNOUT_OUTPUT_DIR", "TURNOUT_WORK_DIR", "TURNOUT_DATA_DIR",
    "TURNOUT_MODEL_DIR", "TURNOUT_PARAMS", "TURNOUT_SPOOL",
})  # fmt: skip


def strays() -> Iterator[Problem]:
    """One for each variable of this environment that begins like ours and is none that anybody reads."""
    settings = [name for name, _, _ in variables()]
    in_files = {variable_of(*path): ".".join(path) for path in _paths()}
    for name in sorted(os.environ):
        if not name.startswith("TURNOUT_") or name.startswith(VARIABLE) or name in {*settings, *_OTHERS}:
            continue
        if name in in_files:
            yield Problem(name, f"{in_files[name]} cannot be set by a variable", "write it into turnout.yaml")
        else:
            yield Problem(name, "no setting has this variable", _instead(name, settings))


def _instead(name: str, settings: list[str]) -> str:
    ends = [each.removeprefix("TURNOUT_") for each in settings]
    near = difflib.get_close_matches(name.removeprefix("TURNOUT_"), ends, 1)
    return f"did you mean TURNOUT_{near[0]}? If not, unset it" if near else "unset it, or see `turnout config show`"


def _paths() -> Iterator[tuple[str, ...]]:
    for section, each in ROOT.keys.items():
        yield (section,)
        yield from ((section, name) for name in getattr(each.kind, "keys", ()))
