"""Functions that steps call, before anything begins: what is wrong with them as far as their text tells.

Nothing of the user's is executed. What cannot be known here, such as a module that is installed elsewhere, is left to
the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from turnout.client.module_text import Module
from turnout.errors import NotFound
from turnout.pipeline.native import LateStep
from turnout.pipeline.plan import CALL, StepPlan
from turnout.snapshot import Joined


@dataclass(frozen=True, slots=True)
class Call:
    """`path` is ``module:name``. `given` are the names of its arguments, `values` those of the values of its runs, from
    which it takes what else it needs."""

    module: str
    name: str
    path: str
    given: Collection[str]
    values: Collection[str]


def call_of(step: StepPlan, values: Collection[str] = ()) -> Call | None:
    """What its runs call; None = they do not call a function. It has `values` besides its own."""
    if isinstance(step.late, LateStep) and step.late.step.function is not None:
        path, given, own = step.late.step.function, tuple(step.late.step.args), step.late.names
    elif step.runs and step.runs[0].argv[:1] == (CALL,):
        _, path, text = step.runs[0].argv
        given, own = tuple(json.loads(text)), tuple(step.runs[0].values)
    else:
        return None
    module, _, name = path.partition(":")
    return Call(module, name, path, given, {*own, *values})


def check(call: Call, frozen: Joined, working_dir: str, python: str | None) -> None:
    """InvalidInput or NotFound, with what to write instead. `python` is the one that will call it, if it is one of this
    machine; what is not among the frozen files may be installed for it."""
    path = _file_of(call.module, frozen, working_dir)
    if path is None:
        if python is not None and not _has(python, call.module):
            raise NotFound(f"no module {call.module!r} among the files of the project", hint=_where(call, frozen))
        return
    try:
        module = Module(path, _read(path, frozen))
    except (OSError, SyntaxError, ValueError):  # another Python may know what this one does not
        return
    module.check_name(call.name)
    module.check_arguments(call.name, call.given, call.values)


def _file_of(module: str, frozen: Joined, working_dir: str) -> str | None:
    """Its path in the tree; None = it is not there. NotFound when its package is there, and it is not in that."""
    paths = {entry.path for entry in frozen.entries}
    top, _, below = module.partition(".")
    inside = f"{working_dir}/" if working_dir else ""
    wanted = inside + module.replace(".", "/")
    for path in (f"{wanted}/__init__.py", f"{wanted}.py"):
        if path in paths:
            return path
    is_ours = bool({f"{inside}{top}/__init__.py", f"{inside}{top}.py"} & paths)
    if below and is_ours and not any(path.startswith(f"{wanted}.") for path in paths):  # else it is compiled
        raise NotFound(f"no module {module!r} in {inside}{top}", hint="check the name, and that git does not ignore it")
    return None


def _has(python: str, module: str) -> bool:
    """Whether it finds the module's package, which is not imported for that."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    look = "import sys, importlib.util as u; sys.exit(u.find_spec(sys.argv[1]) is None)"
    return subprocess.run([python, "-c", look, top], cwd="/", capture_output=True).returncode == 0


def _where(call: Call, frozen: Joined) -> str:
    """Where there is one of that name, or what to look at."""
    wanted = call.module.replace(".", "/") + ".py"
    for entry in frozen.entries:
        if entry.path.endswith(f"/{wanted}"):
            return f"there is {entry.path}: write `working-dir: {entry.path.removesuffix(wanted).rstrip('/')}`"
    return "check the name, and that git does not ignore it; it is looked for from where a run begins"


def _read(path: str, frozen: Joined) -> bytes:
    for part in frozen.parts:
        place = f"{part.place}/" if part.place else ""
        if path.startswith(place) and any(place + entry.path == path for entry in part.snapshot.entries):
            return Path(part.snapshot.root, path.removeprefix(place)).read_bytes()
    raise FileNotFoundError(path)
