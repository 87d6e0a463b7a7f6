"""A launch as a job of Metapipe: its script, its directory, and what is kept of the job."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.compat.launched import Told
from turnout.compat.metapipe.commands import Command
from turnout.compat.metapipe.job import for_bash
from turnout.plugin.provider import Launch, Work

_SHELL = ("bash", "-c")
#: In the directory of a launch.
_STATE = "job.json"


@dataclass(frozen=True)
class Launched(Told):
    """What a handle says: the run, the job's own name where it was submitted, and its directory."""

    token: str
    run: str
    id: str
    folder: str

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In its directory, as long as there is one: there the class finds its files under the names it gave them."""
        try:
            before = os.getcwd()
        except FileNotFoundError:  # the project was removed
            before = "/"
        with contextlib.suppress(FileNotFoundError):  # its run is over, and nobody needs its files
            os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)

    def keep(self, job: Any) -> None:
        """Writes down what its object knows, as far as it is plain."""
        path = os.path.join(self.folder, _STATE)
        with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(state_of(job))
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)

    def put_back(self, job: Any) -> None:
        """Gives a new object what another knew. Without that it only knows what the job is called."""
        job.id = self.id
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.folder, _STATE)) as file:
            vars(job).update(json.loads(file.read()))


def folder_of(work: Work) -> Path:
    """A new directory for a launch of this run, beside the files of its job. OSError, also when those are not there."""
    os.stat(work.files)
    folder = Path(work.files).parent / "launches" / f"{work.run}.{work.attempt}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def command_of(launch: Launch, work: Work, folder: Path, options: Sequence[str]) -> Command:
    """What copies the run's files into its directory and executes it there. Its script begins with `options`, and with
    the comments that the run's own script begins with: there batch systems look for theirs."""
    _keep_variables(folder / "variables", work.env)
    files, copy = shlex.quote(work.files), shlex.quote(str(folder / "files"))
    lines = [
        *options, *_head(work.command),
        f"umask 077; mkdir -p {copy} && cp -RPp {files}/. {copy} && cd {copy} || exit",
        f". {shlex.quote(str(folder / 'variables'))}",
        f"exec {shlex.join(work.argv)}",
    ]  # fmt: skip
    return Command(alias=work.run, script=for_bash("\n".join(lines) + "\n"))


def _head(command: Sequence[str]) -> list[str]:
    """The comments before the first command of a script, if it is one."""
    if tuple(command[:2]) != _SHELL or len(command) < 3:
        return []
    head = []
    for line in command[2].splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            break
        head.append(line)
    return head


def state_of(job: Any) -> str:
    """What its object knows, as far as it is plain."""
    return json.dumps({name: value for name, value in vars(job).items() if name != "command" and _is_plain(value)})


def _is_plain(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _keep_variables(path: Path, variables: Mapping[str, str]) -> None:
    """As lines for a shell, in a file that nobody else can read."""
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(lines)
