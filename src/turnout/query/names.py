"""How people name several runs at once: ``run3-run9``, ``run3.1-run3.5``, ``run1*``, ``job4``, ``baseline``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turnout.errors import InvalidInput
from turnout.model.ids import parse_job_name, parse_run_name, parse_step_name

_RANGE = re.compile(r"((?:run|job)[\d.]+)(?:-|\.\.)((?:run|job)?[\d.]+)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class OneRun:
    """``run12``, or ``run12.3``; `child` is 0 for a run that is no child."""

    number: int
    child: int


@dataclass(frozen=True, slots=True)
class RunRange:
    """Runs `first` to `last`, children apart; with a `parent`, its children of these numbers."""

    first: int
    last: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class JobRange:
    """All runs of these jobs; of one, where first = last."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """The names that fit: ``*`` is anything, ``?`` one character."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A name that a person gave: a label, or an experiment."""

    text: str


@dataclass(frozen=True, slots=True)
class StepRuns:
    """All runs of a step of a pipeline: ``job9.trim``."""

    job: int
    step: str


Named = OneRun | RunRange | JobRange | StepRuns | Pattern | Word


def parse_name(text: str) -> Named:
    """Raises InvalidInput for a range that goes nowhere, or nothing at all."""
    if not text.strip():
        raise InvalidInput("an empty name", hint="a shell makes nothing of $lastrun: write '$lastrun', or @lastrun")
    run, job = parse_run_name(text), parse_job_name(text)
    if run is not None:
        return OneRun(run[0], run[1] or 0)
    if job is not None:
        return JobRange(job, job)
    found = _RANGE.match(text)
    if found is not None:
        return _range(text, found[1], found[2])
    step = parse_step_name(text)
    if step is not None:
        return StepRuns(*step)
    return Pattern(text) if "*" in text or "?" in text else Word(text)


def _range(text: str, first: str, last: str) -> RunRange | JobRange:
    """``run3-9`` is ``run3-run9``."""
    if last[0].isdigit():
        last = first[:3] + last
    from_run, to_run = parse_run_name(first), parse_run_name(last)
    from_job, to_job = parse_job_name(first), parse_job_name(last)
    if from_job is not None and to_job is not None and from_job <= to_job:
        return JobRange(from_job, to_job)
    if from_run is not None and to_run is not None:
        (number, child), (to_number, to_child) = from_run, to_run
        if child is None and to_child is None and number <= to_number:
            return RunRange(number, to_number)
        if child is not None and to_child is not None and number == to_number and child <= to_child:
            return RunRange(child, to_child, parent=number)
    hint = "write run3-run9, run3.1-run3.5 or job2-job4, the smaller number first"
    raise InvalidInput(f"{text!r} is not a range of runs", hint=hint)
