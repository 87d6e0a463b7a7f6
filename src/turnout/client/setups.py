"""A setup as its runs get it: taken from the settings, with versions that are known here filled in."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from collections.abc import Mapping, Sequence

from turnout.config import SetupSettings
from turnout.errors import InvalidInput, NotFound
from turnout.model.setup import Setup

_AS_HERE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*\*\Z")
_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


def specify(name: str | None, known: Mapping[str, SetupSettings], *, python: str) -> Setup | None:
    """The setup called `name`. ``pkg==*`` becomes the version that `python`, a program of this machine, has installed.

    NotFound when there is no such setup; InvalidInput for a package that is not here, or a line that is none.
    """
    if name is None:
        return None
    if name not in known:
        near = difflib.get_close_matches(name, list(known), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"setups: {', '.join(sorted(known)) or 'none'}"
        raise NotFound(f"no setup {name!r}", hint=f"{hint}; they are in the section `setups` of turnout.yaml")
    given = known[name]
    for line in (*given.pip_packages, *given.conda_packages):
        if not line.strip() or "\n" in line or "\0" in line:
            raise InvalidInput(f"setup {name}: {line!r} is no package", hint="one package per entry, as pip takes it")
    return Setup(
        name=name, activate=(given.activate or "").strip(), conda=tuple(given.conda_packages), python=given.python,
        pip=_pinned(name, given.pip_packages, python),
    )  # fmt: skip


def _pinned(setup: str, packages: Sequence[str], python: str) -> tuple[str, ...]:
    asked = [found[1] for line in packages if (found := _AS_HERE.match(line.strip()))]
    if not asked:
        return tuple(line.strip() for line in packages)
    versions = _versions_here(asked, python)
    missing = [name for name in asked if versions[name] is None]
    if missing:
        hint = f"install it here first, or give a version: {missing[0]}==1.0"
        raise InvalidInput(f"setup {setup}: {missing[0]}==* means the version installed here, and none is", hint=hint)
    pinned = []
    for line in packages:
        found = _AS_HERE.match(line.strip())
        pinned.append(f"{found[1]}{found[2] or ''}=={versions[found[1]]}" if found else line.strip())
    return tuple(pinned)


def _versions_here(names: Sequence[str], python: str) -> dict[str, str | None]:
    try:
        done = subprocess.run([python, "-c", _VERSIONS, *names], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        hint = "give versions instead of ==*, or activate an environment whose Python works"
        raise InvalidInput(f"{python} cannot tell what is installed here: {error}", hint=hint) from error
    return dict(json.loads(done.stdout))
