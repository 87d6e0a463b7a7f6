"""``secret:NAME`` in a run's environment: what it stands for is looked up here, at the start. It is kept nowhere but in
the attempt's own directory, for as long as that is there: see `RunDir.remember`."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Dict, Mapping, Optional

PREFIX = "secret:"
VARIABLE = "TURNOUT_SECRET_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")


class NoSecret(Exception):
    """One that the run needs is not known on this node."""


def reveal(env: Mapping[str, str]) -> Dict[str, str]:
    """Those variables of a run's environment that name a secret, with the secret.

    It is looked for in that environment (the submitter may have sent it along), in this process's, and in the file
    that only this user can read. NoSecret says where it is not.
    """
    found: Dict[str, str] = {}
    kept: Optional[Dict[str, object]] = None
    for variable, text in env.items():
        name = text[len(PREFIX) :] if text.startswith(PREFIX) else ""
        if not name:
            continue
        if not _NAME.match(name):
            raise NoSecret(f"{variable}: {name!r} is no name of a secret: use letters, digits and _")
        value: object = env.get(VARIABLE + name, os.environ.get(VARIABLE + name))
        if value is None:
            kept = _kept() if kept is None else kept
            value = kept.get(name)
        if not isinstance(value, str):
            raise NoSecret(f"{variable}: no secret {name!r} on this node; `turnout secret set {name}` keeps one")
        found[variable] = value
    return found


def _kept() -> Dict[str, object]:
    """The file's names and secrets; none where there is no such file, or others could have read or written it."""
    home = os.environ.get("TURNOUT_HOME") or os.path.expanduser("~/.turnout")
    try:
        fd = os.open(os.path.join(home, "secrets.json"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    with os.fdopen(fd, encoding="utf-8") as file:
        about = os.fstat(fd)
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            return {}
        try:
            found = json.load(file)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}
