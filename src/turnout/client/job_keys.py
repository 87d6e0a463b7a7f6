"""What a pipeline's file says of the jobs of its steps, beside ``pipeline:`` and in them; and where that is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from turnout.client import search_file
from turnout.client.preparing import Wish
from turnout.client.yaml_text import Lines
from turnout.errors import InvalidInput
from turnout.pipeline.native.model import Step
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.reading import KEYS

PIPELINE = "pipeline"


class Places:
    """The lines of a file. It is read again, for only mistakes are asked about."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def below(self, place: str) -> int | None:
        """Of ``steps.trim.inputs``, or the nearest that is written there."""
        return self._lines.of([PIPELINE, *filter(None, place.split("."))])

    def beside(self, place: str) -> int | None:
        return self._lines.of(place.split("."))

    def of(self, place: str) -> int | None:
        """Of what is said of jobs: in a step, or beside them all."""
        return self.below(place) if place.startswith("steps.") else self.beside(place)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._path.read_text(encoding="utf-8-sig"))


@dataclass(frozen=True, slots=True)
class Where:
    """Tells how errors call a step, or one of its keys: by the line that says it. `said` are the keys that each step
    has itself, `beside` those for all; `typed` are those that the command line says instead of these."""

    path: Path
    said: Mapping[str, Collection[str]]
    beside: Collection[str]
    typed: Collection[str] = field(default=())

    def __call__(self, step: str, key: str | None) -> str:
        place = f"steps.{step}" if key is None else f"steps.{step}.{key}"
        if key in search_file.JOB_KEYS and key not in (*KEYS, *self.said.get(step, ())):
            if key in self.typed or key not in self.beside:
                return f"step {step}"
            place = key
        line = Places(self.path).of(place)
        return f"{self.path.name}: {place}" if line is None else f"{self.path.name}:{line}: {place}"


def wishes(steps: Iterable[Step], of_all: Mapping[str, object], path: Path) -> dict[str, Wish]:
    """What the job of each step is to have besides its command. InvalidInput has all that is wrong, with its lines."""
    steps = list(steps)
    try:
        return alike(steps, lambda step: _wish({**of_all, **step.job}, path.parent))
    except InvalidInput:
        check(of_all, path, steps)
        raise


def check(of_all: Mapping[str, object], path: Path, steps: Iterable[Step] = ()) -> None:
    """InvalidInput has all that is wrong with what is said for all steps, and with what these say, with its lines."""
    problems = Problems(path.name, Places(path).of)
    for above, content in (("", of_all), *((f"steps.{step.name}.", step.job) for step in steps)):
        for key, value in content.items():
            try:
                _wish({key: value}, path.parent)
            except InvalidInput as error:
                place, what = _split(key, error.message)
                problems.add(f"{above}{place}", what, error.hint.replace(f"--{key} ", f"{key}: "))
    problems.check()


def _wish(content: Mapping[str, object], directory: Path) -> Wish:
    return search_file.from_mapping({**content, "command": ""}, directory).wish


def _split(key: str, message: str) -> tuple[str, str]:
    """``search.of: …``, or ``--time …``, as what is there or below it, and what is wrong with that."""
    found = re.match(rf"({re.escape(key)}(?:\.[\w-]+)*): ", message)
    return (found[1], message[found.end() :]) if found else (key, re.sub(rf"\A(--)?{re.escape(key)} ", "", message))


def alike(steps: Iterable[Step], wish_of: Callable[[Step], Wish]) -> dict[str, Wish]:
    """The wishes for the jobs of these steps, by their names. Those of which the same is said have the same one."""
    made: dict[str, Wish] = {}
    found: dict[str, Wish] = {}
    for step in steps:
        said = _as_text(step.job)
        if said is None:
            found[step.name] = wish_of(step)
        elif said not in made:
            found[step.name] = made[said] = wish_of(step)
        else:
            found[step.name] = made[said]
    return found


def _as_text(job: Mapping[str, object]) -> str | None:
    """The same for what is the same; None for what only Python has."""
    if not job:
        return ""
    try:
        return json.dumps(job)
    except (TypeError, ValueError):
        return None
