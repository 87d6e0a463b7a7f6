"""What XT's `Run` tells that runs of turnout tell in another way."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from time import time

import turnout

EVENTS = "xt-events.jsonl"
_LARGEST = 2.0**62


def whole(step: object) -> int | None:
    """A step; None for what is none, or has more bits than a step can have."""
    try:
        number = float(step)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and abs(number) < _LARGEST else None


def note(event: str, told: Mapping[str, object]) -> None:
    """At once and in one write, so that several processes of a run may."""
    line = json.dumps({"time": time(), "event": event, "data": dict(told)})
    with open(turnout.output_dir() / EVENTS, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def say_how_to_tag_the_job(tags: Mapping[str, object]) -> None:
    job = os.environ.get("TURNOUT_JOB")
    if job and tags:
        words = [name if value is None else f"{name}={value}" for name, value in tags.items()]
        command = shlex.join(["turnout", "set", "tags", job, *words])
        print(f"turnout: a run cannot tag its job, so the run has the tags; `{command}` tags the job", file=sys.stderr)
