"""Starting the command of a run: which file it is, how it is executed, and why it could not be."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Any, Dict, List, Optional

from turnout.wire.long_words import LONGEST, size

Environment = Dict[bytes, bytes]

_PATH = b"/usr/local/bin:/usr/bin:/bin"
_DEFAULTED = [s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP)]
_TRIES = 20
_PAUSE = 0.1
#: No process to be had at the moment, or the program's file is still open for writing somewhere.
_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY})
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells have it


class SpawnError(Exception):
    """The command could not be started; nothing of it was executed. `code` is what a shell would exit with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def spawn(argv: List[str], env: Environment, output: int, *, umask: Optional[int] = None) -> int:
    """Execute `argv` here, in a session of its own, and return its pid. SpawnError when that cannot be done.

    Its stdin is ours (``/dev/null``), stdout and stderr are `output`, no other descriptor is open, no signal is
    blocked or ignored, and its umask is `umask` or, when that is None, ours. A shortage that may pass is waited for,
    two seconds at most.
    """
    program = find_program(argv[0], env)
    ours = os.umask(umask) if umask is not None else None
    try:
        return _insist(program, argv, env, output)
    finally:
        if ours is not None:
            os.umask(ours)


def _insist(program: str, argv: List[str], env: Environment, output: int) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    tries = _TRIES
    while True:
        tries -= 1
        try:
            return _posix_spawn(program, argv, env, file_actions=actions, setsigmask=(), setsigdef=_DEFAULTED)
        except ValueError as error:
            raise SpawnError(
                _NOT_EXECUTABLE, f"an argument or environment variable is not possible: {error}"
            ) from error
        except OSError as error:
            if error.errno not in _PASSING or not tries:
                raise _explain(error, program, argv, env) from error
        time.sleep(_PAUSE)


def find_program(name: str, env: Environment) -> str:
    """The file that a command's name means under the command's own PATH. SpawnError when there is none."""
    if "/" in name:
        return name
    path = os.fsdecode(env.get(b"PATH", _PATH))
    present = ""
    for directory in path.split(":") if name else []:
        candidate = os.path.join(directory or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            present = present or candidate
    if present:
        raise _not_executable(present)
    raise SpawnError(_NOT_FOUND, f"command not found: {name!r}, PATH is {path!r}")


def _posix_spawn(program: str, argv: List[str], env: Environment, **options: Any) -> int:
    try:
        return os.posix_spawn(program, argv, env, setsid=True, **options)
    except NotImplementedError:
        # An interpreter built for an old C library. A process group is as good, a terminal to lose is not there.
        return os.posix_spawn(program, argv, env, setpgroup=0, **options)


def _explain(error: OSError, program: str, argv: List[str], env: Environment) -> SpawnError:
    if error.errno == errno.E2BIG:
        return SpawnError(_NOT_EXECUTABLE, f"{program} cannot be executed: {_too_long(argv, env)}")
    if error.errno == errno.ENOENT and os.path.lexists(program):
        first = _first_line(program)
        what = f"its first line asks for {first!r}" if first.startswith("#!") else "a file it is linked to"
        return SpawnError(_NOT_EXECUTABLE, f"{program} cannot be executed: {what}, which is not on this machine")
    if error.errno == errno.ENOENT:
        return SpawnError(_NOT_FOUND, f"no such file: {program} (looked for from {os.getcwd()})")
    if error.errno == errno.EACCES:
        return _not_executable(program)
    if error.errno == errno.ENOEXEC:
        return SpawnError(_NOT_EXECUTABLE, f"{program} is neither a binary for this machine nor begins with a #! line")
    return SpawnError(_NOT_EXECUTABLE, f"{program} cannot be executed: {os.strerror(error.errno or 0)}")


def _too_long(argv: List[str], env: Environment) -> str:
    """Which of the kernel's limits it is, and how to do without so much."""
    instead = (
        "let it read them from a file. In a step, a `command` that is a text takes any number:"
        " printf '%s\\n' {inputs} | xargs PROGRAM"
    )
    longest = max(map(size, argv))
    variable = max(env, key=lambda name: len(name) + len(env[name]), default=b"")
    if longest > LONGEST:
        return f"one of its arguments has {longest:,} bytes, and Linux hands over up to {LONGEST:,} in one; {instead}"
    if len(variable) + len(env.get(variable, b"")) >= LONGEST:
        return f"the variable {os.fsdecode(variable)} of its environment has more than {LONGEST:,} bytes"
    total = sum(map(size, argv)) + sum(len(name) + len(value) for name, value in env.items())
    what = f"its {len(argv) - 1:,} arguments and its environment have {total:,} bytes"
    return f"{what}, which is more than this machine hands over at once (see `getconf ARG_MAX`); {instead}"


def _not_executable(program: str) -> SpawnError:
    if os.path.isdir(program):
        return SpawnError(_NOT_EXECUTABLE, f"{program} is a directory")
    return SpawnError(_NOT_EXECUTABLE, f"{program} may not be executed; chmod +x it, or name the program that reads it")


def _first_line(program: str) -> str:
    try:
        with open(program, "rb") as file:
            return file.readline(200).decode(errors="replace").strip()
    except OSError:
        return ""
