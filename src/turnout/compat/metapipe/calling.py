"""Commands that job types call, and job types that are called."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

_LONGEST = 500  # of what a command complained, in a message


class Said(str):
    """What a command printed. ``out, err = call(argv)``, as Metapipe's own code has it, works as well."""

    returncode: int
    stderr: str

    def __iter__(self) -> Iterator[str]:
        return iter((str(self), self.stderr))


class SubmitFailed(ValueError):
    """A job was not submitted: the command for that was not well."""


class SubmitUnclear(ValueError):
    """The command for that was well, and then something was raised: the job is somewhere, and nobody knows where."""


#: The commands that were called while a job is submitted, with what came of them.
_called: ContextVar[list[tuple[list[str], Said]] | None] = ContextVar("called", default=None)


def call(argv: Sequence[str]) -> Said:
    """Executes a command to its end, and gives the text that it printed. Its exit code and what it complained are there
    as `returncode` and `stderr`; OSError when there is no such program."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = Said(done.stdout.decode(errors="replace"))
    said.returncode, said.stderr = done.returncode, done.stderr.decode(errors="replace")
    called = _called.get()
    if called is not None:
        called.append((list(argv), said))
    return said


def submit(job: Any) -> None:
    """Lets a job submit itself; its ``submit`` may take a job, as Metapipe's document shows both. Whatever it raises;
    but SubmitFailed when it called its own ``cmd``, and that was not well: few classes look at exit codes. And
    SubmitUnclear when that was well, and it raises all the same."""
    called: list[tuple[list[str], Said]] = []
    token = _called.set(called)
    try:
        job.submit(job) if _takes_job(job.submit) else job.submit()
    except Exception as error:
        _check(job, called, error)
        raise
    finally:
        _called.reset(token)
    _check(job, called, None)


def _takes_job(method: Any) -> bool:
    try:
        taken = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in taken)


def _check(job: Any, called: Sequence[tuple[list[str], Said]], cause: Exception | None) -> None:
    own = list(job.cmd) if called else []
    for argv, said in called:
        if argv == own and said.returncode != 0:
            why = (said.stderr.strip() or said.strip())[-_LONGEST:]
            raise SubmitFailed(f"{argv[0]} exited with {said.returncode}" + (f": {why}" if why else "")) from cause
    if cause is not None and any(argv == own for argv, _ in called):
        raise SubmitUnclear(f"{own[0]} was well, and then {type(cause).__name__}: {cause}") from cause
