"""Names: what the system gives (``run12``, ``run12.3``, ``job7``) and what people may give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnout.errors import InvalidInput

_RUN = re.compile(r"run(\d{1,18})(?:\.(\d{1,9}))?\Z", re.ASCII)
_JOB = re.compile(r"job(\d{1,18})\Z", re.ASCII)
_STEP = re.compile(r"job(\d{1,18})\.([\w.@+-]{1,128})\Z")
_LABEL = re.compile(r"[^\W_][\w.@+-]{0,127}\Z")
_TAG_KEY = re.compile(r"[A-Za-z_][\w.-]{0,63}\Z", re.ASCII)
_ADDRESS = re.compile(r"(?:[A-Za-z0-9_][\w.+-]{0,127}@)?[A-Za-z0-9_:\[][\w.:%\[\]-]{0,254}\Z", re.ASCII)
_ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z", re.ASCII)


def run_name(number: int, child: int | None = None) -> str:
    return f"run{number}" if child is None else f"run{number}.{child}"


def job_name(number: int) -> str:
    return f"job{number}"


def parse_run_name(text: str) -> tuple[int, int | None] | None:
    """``(12, 3)`` for ``run12.3``, ``(12, None)`` for ``run12``, None for anything else."""
    found = _RUN.match(text)
    if not found:
        return None
    return int(found[1]), int(found[2]) if found[2] else None


def parse_job_name(text: str) -> int | None:
    found = _JOB.match(text)
    return int(found[1]) if found else None


def parse_step_name(text: str) -> tuple[int, str] | None:
    """``(9, "trim")`` for ``job9.trim``, a step of a pipeline; None for anything else."""
    found = _STEP.match(text)
    return (int(found[1]), found[2]) if found else None


def is_job_name(text: str) -> bool:
    """Whether it can only be a job: ``job7``, or ``job9.trim``, which is a step."""
    return _JOB.match(text) is not None or _STEP.match(text) is not None


def span_of(first: str, last: str) -> str:
    """``job3``, or ``job3 to job7``."""
    return first if first == last else f"{first} to {last}"


def list_jobs(jobs: Sequence[int], most: int = 5) -> str:
    """As people say it: ``job3 to job7`` if none between is left out; else one by one, and not more than a few."""
    names = [job_name(job) for job in sorted(jobs)]
    if len(names) > 2 and max(jobs) - min(jobs) == len(jobs) - 1:
        return span_of(names[0], names[-1])
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def place_name(target: str, digest: str) -> str:
    """A target whose settings are not those the hub began with; `digest` is of those it has."""
    return f"{target}~{digest[:12]}"


def place_of(queue: str) -> str:
    """The place whose queue this is, or a node's of it."""
    return queue.partition("#")[0]


def target_of(place: str) -> str:
    """The target that a place, or a queue of one, is; a target is a place itself."""
    return place_of(place).partition("~")[0]


def check_label(text: str, what: str) -> str:
    """A name a person gave to a workspace, experiment, target or run.

    Raises InvalidInput for anything that is not letters, digits and ``. _ @ + -``, begins oddly, holds ``..``,
    or looks like a name only the system gives.
    """
    if ".." in text or not _LABEL.match(text):
        raise InvalidInput(
            f"{what} {text!r} is not a valid name",
            hint="use 1 to 128 letters, digits, '.', '_', '@', '+' or '-', begin with a letter or digit, no '..'",
        )
    if _RUN.match(text) or _JOB.match(text):
        raise InvalidInput(f"{what} {text!r} looks like a name turnout gives itself", hint="choose another name")
    return text


def check_address(text: str) -> str:
    """A machine as ssh is told of it. What could be taken for an option, or for words of a shell, is none."""
    if not _ADDRESS.match(text):
        hint = "write HOST or USER@HOST, as for ssh; a port goes into `port`, all else into ~/.ssh/config"
        raise InvalidInput(f"{text!r} is no address of a machine", hint=hint)
    return text


def check_tag_key(text: str) -> str:
    if not _TAG_KEY.match(text):
        raise InvalidInput(
            f"tag {text!r} is not a valid tag name", hint="write --tag key=value, key of letters, digits, '.', '_', '-'"
        )
    return text


def check_param_name(text: str) -> str:
    """The rule for tags holds for parameters, too: both are typed in filters and columns."""
    if not _TAG_KEY.match(text):
        raise InvalidInput(
            f"parameter {text!r} is not a valid name",
            hint="use 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or '_'",
        )
    return text


def check_pattern(text: str) -> str:
    """A pattern of files that a run leaves: relative to its directory, and not out of it."""
    if not text.strip() or text.startswith("/") or ".." in text.split("/"):
        what = "an empty pattern" if not text.strip() else f"the pattern {text!r} leads out of the files of a run"
        raise InvalidInput(what, hint="write what to keep below the run's directory, as in 'output/**'")
    return text


def check_env_key(text: str) -> str:
    if not _ENV_KEY.match(text):
        raise InvalidInput(f"{text!r} is not a valid environment variable name", hint="write --env NAME=VALUE")
    return text
