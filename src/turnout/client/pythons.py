"""Which Python a Python file gets when it has no setup: the one that is active here, or what the settings name."""

from __future__ import annotations

import os
import shlex


def active_here() -> tuple[str, ...]:
    """Shell lines for the venv or conda environment that is active in this shell; none when none is."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            lines = [f"export {variable}={shlex.quote(prefix)}", _path(prefix)]
            name = os.environ.get("CONDA_DEFAULT_ENV")
            if variable == "CONDA_PREFIX" and name:
                lines.append(f"export CONDA_DEFAULT_ENV={shlex.quote(name)}")
            return tuple(lines)
    return ()


def named(environment: str | None) -> tuple[str, ...]:
    """Shell lines for an environment elsewhere: the path of one, or a name that conda knows there."""
    if not environment:
        return ()
    if "/" in environment:
        return (f"export VIRTUAL_ENV={_quoted(environment)}", _path(environment))
    return (
        "conda=$(command -v conda || command -v mamba || command -v micromamba) ||"
        f' {{ echo "turnout: no conda here for environment {environment}" >&2; exit 127; }}',
        'eval "$("$conda" shell.bash hook 2>/dev/null || "$conda" shell hook --shell bash)"',
        f'"$(basename "$conda")" activate {shlex.quote(environment)} || exit 127',
    )


def _path(prefix: str) -> str:
    return f'export PATH={_quoted(prefix.rstrip("/") + "/bin")}:"$PATH"'


def _quoted(path: str) -> str:
    """A leading ~ is the home over there."""
    return '"$HOME"' + shlex.quote(path[1:]) if path.startswith("~/") else shlex.quote(path)
