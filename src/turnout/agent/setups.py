"""Environments with the packages of a setup: made once on this node, then entered by every run that asks for the same.

They are made where they stay (a venv knows its own path) and count only once they are whole: see `shelf`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from turnout.agent.awaiting import wait_for
from turnout.agent.leash import Leash
from turnout.agent.mask import Mask
from turnout.agent.secrets import reveal
from turnout.agent.shelf import Shelf
from turnout.wire.messages import JobOrder, SetupOrder

FAILED = ".failed"
_LONGEST = 3600.0
_SHOWN_LINES, _SHOWN_BYTES = 12, 2000
#: Of the submitter's environment, what would put other packages into the new environment, or ours in front of them.
_NOT_WANTED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER", "PIP_PREFIX", "__PYVENV_LAUNCHER__")


class SetupFailed(Exception):
    """It could not be made; the message ends with what the programs said. Another try may go better."""


class Prepared(NamedTuple):
    """`environment` is where its packages are, None when it has none; `told` is for the run's history."""

    environment: Optional[str]
    told: Dict[str, Any]


class Setups:
    """For one thread."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def prepare(self, job: JobOrder, user: str, is_wanted: Callable[[], bool]) -> Prepared:
        """What the job's setup installs is there on return, for a run in the directory `user`.

        Who asks for one that is just being made waits. Raises SetupFailed, Abandoned, OSError.
        """
        setup = job.setup
        assert setup is not None
        if not setup.needs_environment:
            return Prepared(None, {})
        began = time.monotonic()
        secrets = reveal(job.env)
        env = {name: value for name, value in {**job.env, **secrets}.items() if name not in _NOT_WANTED}

        def make(target: str, lock: int) -> int:
            return _make(setup, target, env, lock, is_wanted, Mask(secrets.values()))

        got = self._shelf.get(_key(setup, env), user, make, is_wanted=is_wanted, is_whole=_is_whole)
        told = {"setup": setup.name, "found": got.found, "seconds": round(time.monotonic() - began, 3)}
        return Prepared(got.path, told)


def entrance(setup: SetupOrder, environment: Optional[str]) -> str:
    """The script that switches the setup on and then executes its arguments. Where that cannot be, it says so into a
    file beside itself, too, whose name is its own and FAILED."""
    lines = ["#!/usr/bin/env bash", f"# made by turnout: setup {setup.name}"]
    lines += _activation(setup, f' | tee "$0{FAILED}" >&2')
    if environment is not None:
        kind = "CONDA_PREFIX" if setup.conda else "VIRTUAL_ENV"
        bin_path = shlex.quote(f"{environment}/bin")
        lines += [f"export {kind}={shlex.quote(environment)}", f'export PATH={bin_path}:"$PATH"', "unset PYTHONHOME"]
    return "\n".join([*lines, 'exec "$@"', ""])


def _activation(setup: SetupOrder, to: str = " >&2") -> List[str]:
    """Its lines, and an end of all, told `to` somebody, if one of them ends the shell or the last of them fails."""
    if not setup.activate:
        return []
    said = shlex.quote(f"turnout: the activate lines of setup {setup.name} failed, exit code")
    check = "turnout_code=$?; if [ $turnout_code -ne 0 ]; then exit $turnout_code; fi; unset turnout_code"
    return [f"trap {shlex.quote(f'echo {said} $?{to}')} EXIT", setup.activate, check, "trap - EXIT"]


def _key(setup: SetupOrder, env: Dict[str, str]) -> str:
    """One environment for each lock and Python that it would be made with."""
    python = shutil.which(_python(setup), path=env.get("PATH")) or ""
    parts = [setup.lock, os.path.realpath(python), platform.machine(), platform.python_version()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _python(setup: SetupOrder) -> str:
    if setup.python is None:
        return "python3"
    return setup.python if "/" in setup.python else f"python{setup.python}"


def _make(
    setup: SetupOrder, target: str, env: Dict[str, str], lock: int, is_wanted: Callable[[], bool], mask: Mask
) -> int:
    beside = os.path.dirname(target)
    requirements, log = f"{beside}/requirements.txt", f"{beside}/log"
    with open(requirements, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in setup.pip)
    lines = [*_activation(setup), "set -e", *_recipe(setup, target, requirements)]
    with open(log, "wb") as output, Leash() as leash:
        shell = shutil.which("bash") or "/bin/sh"
        child = subprocess.Popen(
            [shell, "-c", "\n".join([leash.line, *lines])], stdin=leash.stdin, stdout=output, stderr=output, cwd=beside,
            env=env, start_new_session=True, pass_fds=(lock,),
        )  # fmt: skip
        code = wait_for(child, _LONGEST, is_wanted)
    if code is None:
        raise SetupFailed(f"it was not made within {_LONGEST:g} s")
    if code != 0 or not _is_whole(target, 0):
        raise SetupFailed(f"setup {setup.name} could not be made (exit code {code}):\n{_last_lines(log, mask)}")
    return _size(target)


def _recipe(setup: SetupOrder, target: str, requirements: str) -> List[str]:
    env, python = shlex.quote(target), shlex.quote(_python(setup))
    lines = []
    if setup.conda:
        wanted = [
            *setup.conda,
            *([f"python={setup.python}"] if setup.python else []),
            *(["python", "pip"] if setup.pip else []),
        ]
        lines += [
            "conda=$(command -v micromamba || command -v mamba || command -v conda) || conda=",
            'if [ -z "$conda" ]; then echo "conda packages are asked for, and there is no conda, mamba or micromamba'
            ' on this node"; exit 127; fi',
            f'"$conda" create --yes --prefix {env} {" ".join(map(shlex.quote, wanted))}',
        ]
    else:
        lines += [
            f'command -v {python} >/dev/null || {{ echo "there is no {_python(setup)} on this node"; exit 127; }}',
            f"{python} -m venv {env}",
        ]
    if setup.pip:
        pip = f"{env}/bin/python -m pip --disable-pip-version-check --no-input"
        lines.append(f"{pip} install -r {shlex.quote(requirements)}")
    return lines


def _is_whole(target: str, _made: int) -> bool:
    """Its Python is there: what it was made from may have been removed since. An environment without Python is whole
    when it has programs."""
    python = f"{target}/bin/python"
    return os.path.exists(python) if os.path.lexists(python) else os.path.isdir(f"{target}/bin")


def _size(target: str) -> int:
    total = 0
    for folder, _, names in os.walk(target):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _last_lines(log: str, mask: Mask) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN_BYTES - mask.reach))
        said = mask.cover(file.read())[-_SHOWN_BYTES:]
    return "\n".join(said.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:])
