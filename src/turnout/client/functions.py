"""Functions that steps call, before anything begins: what is wrong with them as far as their text tells.

Nothing of the user's is executed. What cannot be known here, such as a module that is installed elsewhere, is left to
the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from turnout.client.module_text import Module
from turnout.errors import InvalidInput, NotFound, about
from turnout.pipeline.native import LateStep
from turnout.pipeline.plan import CALL, StepPlan
from turnout.snapshot import Joined
from turnout.wire.manifest import Entry

_COMPILED = (".so", ".pyd", ".pyc")


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
    inside = f"{working_dir}/" if working_dir else ""
    wanted = inside + call.module.replace(".", "/")
    entries = {entry.path: entry for entry in frozen.entries}
    path = next((each for each in (f"{wanted}/__init__.py", f"{wanted}.py") if each in entries), None)
    if path is not None:
        _check_text(call, path, _read(path, frozen), python)
    elif not _has_no_text(wanted, entries):
        _check_installed(call, inside, frozen, python)


def _check_text(call: Call, path: str, text: bytes, python: str | None) -> None:
    try:
        module = Module(path, text)
    except SyntaxError as error:
        if python is not None and _can_read(python, text):
            return
        hint = "mend it"
        if python is None:
            version = ".".join(map(str, sys.version_info[:2]))
            hint += f"; if one newer than Python {version} executes it, `env: {{PYTHONPATH: .}}` has it not looked at"
        where = f"{path}:{error.lineno}" if error.lineno else path
        raise InvalidInput(f"{where}: {error.msg}", hint=hint) from error
    except RecursionError:
        return
    module.check_name(call.name)
    with about("args"):
        module.check_arguments(call.name, call.given, call.values)


def _has_no_text(wanted: str, entries: Mapping[str, Entry]) -> bool:
    """Whether it is compiled, or found through a link."""
    names = (f"{wanted}.", f"{wanted}/__init__.")
    if any(path.startswith(names) and path.endswith(_COMPILED) for path in entries):
        return True
    ways = accumulate(f"{wanted}.py".split("/"), "{}/{}".format)
    return any(way in entries and entries[way].link for way in (*ways, wanted))


def _check_installed(call: Call, inside: str, frozen: Joined, python: str | None) -> None:
    """NotFound when its package is here, and it is not in that, or when nobody has it."""
    top, _, below = call.module.partition(".")
    is_ours = any(entry.path in (f"{inside}{top}/__init__.py", f"{inside}{top}.py") for entry in frozen.entries)
    if below and is_ours:
        hint = "check the name, and that git does not ignore it"
        raise NotFound(f"no module {call.module!r} in {inside}{top}", hint=hint)
    if python is not None and not _has(python, call.module):
        raise NotFound(f"no module {call.module!r} among the files of the project", hint=_where(call, inside, frozen))


def _can_read(python: str, text: bytes) -> bool:
    """Another Python may know what this one does not."""
    look = "import sys; compile(sys.stdin.buffer.read(), '', 'exec')"
    return subprocess.run([python, "-c", look], cwd="/", input=text, capture_output=True).returncode == 0


def _has(python: str, module: str) -> bool:
    """Whether it finds the module's package, which is not imported for that."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    look = "import sys, importlib.util as u; sys.exit(u.find_spec(sys.argv[1]) is None)"
    return subprocess.run([python, "-c", look, top], cwd="/", capture_output=True).returncode == 0


def _where(call: Call, inside: str, frozen: Joined) -> str:
    """Where there is one of that name, or what to look at."""
    package = inside + call.module.replace(".", "/")
    if any(entry.path.startswith(f"{package}/") for entry in frozen.entries):
        instead = f"a function of a module in it is {call.module}.MODULE:{call.name}"
        return f"{package} has no __init__.py, and so no function; {instead}"
    wanted = call.module.replace(".", "/") + ".py"
    for entry in frozen.entries:
        if entry.path.endswith(f"/{wanted}"):
            return f"there is {entry.path}: write `working-dir: {entry.path.removesuffix(wanted).rstrip('/')}`"
    return "check the name, and that git does not ignore it; it is looked for from where a run begins"


def _read(path: str, frozen: Joined) -> bytes:
    for part in frozen.parts:
        place = f"{part.place}/" if part.place else ""
        if path.startswith(place) and any(place + entry.path == path for entry in part.snapshot.entries):
            try:
                return Path(part.snapshot.root, path.removeprefix(place)).read_bytes()
            except OSError as error:
                raise InvalidInput(f"{path} cannot be read: {error.strerror}", hint="let it be readable") from error
    raise NotFound(f"no file {path!r} among those of the project", hint="submit it again")
