"""Which runs and jobs are meant by what a person typed: names, ranges, wildcards, labels, jobs, experiments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from turnout.errors import InvalidInput, NotFound
from turnout.model.ids import run_name
from turnout.query.names import JobRange, Named, OneRun, Pattern, RunRange, StepRuns, Word, parse_name
from turnout.store import schema
from turnout.store.belonging import REPLACED, of_job
from turnout.store.conditions import COLUMNS, Condition
from turnout.store.globs import fits
from turnout.store.parts import in_parts
from turnout.store.reads import find_called, find_job

_RUNS, _JOBS = schema.runs, schema.jobs
MOST_NAMES = 10_000
MOST_RUNS = 100_000
_LEADING = re.compile(r"run(\d{1,17})\*\Z", re.ASCII)
_CHILDREN = re.compile(r"run(\d{1,18})\.\*\Z", re.ASCII)
_DIGITS = 18
_LONG = 20_000
_HINT = "`turnout list runs` shows what there is"


def chosen(connection: sa.Connection, names: Sequence[str], *, standing: bool = False) -> Condition | None:
    """What the runs of these names have in common; None for no names, which is no limit.

    A label means the runs of the newest job that has it, or all runs of the pipeline, or the step, that is called so;
    any other word means an experiment. Raises NotFound for a name that nothing has, InvalidInput for what can be no
    name.
    """
    if not names:
        return None
    if len(names) > MOST_NAMES:
        raise InvalidInput(
            f"{len(names)} names are too many", hint=f"give at most {MOST_NAMES}, or a range, or a filter"
        )
    named = [parse_name(name) for name in names]
    single = [name for name in named if isinstance(name, OneRun)]
    conditions = [_condition(connection, name) for name in named if not isinstance(name, OneRun)]
    if standing:
        conditions = [sa.and_(each, _RUNS.c.step != REPLACED) for each in conditions]
    if single:
        ids = _ids(connection, single)
        conditions.append(_RUNS.c.id.in_(sa.bindparam(None, ids, expanding=True, literal_execute=True)))
    return sa.or_(*conditions)


def resolve(
    connection: sa.Connection, names: Sequence[str], *, most: int = MOST_RUNS, standing: bool = False
) -> list[int]:
    """The ids of the runs of these names, each once, run2 before run10. Raises as `chosen`, and for too many.
    `standing`: where a name means several, without those in whose places others were made."""
    condition = chosen(connection, names, standing=standing)
    if condition is None:
        return []
    select = sa.select(_RUNS.c.id).where(condition).order_by(_RUNS.c.number, _RUNS.c.child).limit(most + 1)
    found = [row.id for row in connection.execute(select)]
    if len(found) > most:
        raise InvalidInput(f"more than {most} runs", hint="name fewer at a time")
    return found


def resolve_jobs(connection: sa.Connection, names: Sequence[str]) -> list[int]:
    """The numbers of the jobs of these names: ``job3``, ``job3-job7``, a label. NotFound for one that there is not."""
    found: dict[int, None] = {}
    for name in names:
        match parse_name(name):
            case JobRange(first, last):
                where: Condition = _JOBS.c.id.between(first, last)
            case Pattern(text):
                where = _glob(connection, sa.literal("job").concat(sa.cast(_JOBS.c.id, sa.Text)), text)
            case Word(text):
                newest = sa.select(sa.func.max(_JOBS.c.id)).where(_JOBS.c.label == text).scalar_subquery()
                where = _JOBS.c.id == newest
            case _:
                where = sa.false()
        jobs = connection.execute(sa.select(_JOBS.c.id).where(where).order_by(_JOBS.c.id).limit(MOST_RUNS)).scalars()
        numbers = list(jobs)
        if not numbers:
            raise NotFound(f"no job {name!r}", hint="`turnout list jobs` shows what there is")
        found.update(dict.fromkeys(numbers))
    return list(found)


def _ids(connection: sa.Connection, wanted: list[OneRun]) -> list[int]:
    found: dict[tuple[int, int], int] = {}
    columns = (_RUNS.c.id, _RUNS.c.number, _RUNS.c.child)
    for part in in_parts(wanted):
        outer = [name.number for name in part if not name.child]
        inner = [(name.number, name.child) for name in part if name.child]
        pairs = sa.or_(
            sa.and_(_RUNS.c.number.in_(outer), _RUNS.c.child == 0),
            sa.tuple_(_RUNS.c.number, _RUNS.c.child).in_(inner),
        )
        found.update({(row.number, row.child): row.id for row in connection.execute(sa.select(*columns).where(pairs))})
    for name in wanted:
        if (name.number, name.child) not in found:
            raise NotFound(f"no run {run_name(name.number, name.child or None)!r}", hint=_HINT)
    return list(found.values())


def _condition(connection: sa.Connection, named: Named) -> Condition:
    match named:
        case RunRange(first, last, None):
            return _known(connection, _outer(first, last), f"run{first}-run{last}")
        case RunRange(first, last, parent):
            wanted = sa.and_(_RUNS.c.number == parent, _RUNS.c.child.between(first, last))
            return _known(connection, wanted, f"run{parent}.{first}-run{parent}.{last}")
        case JobRange(first, last):
            wanted = of_job(first) if first == last else _RUNS.c.job_id.between(first, last)
            if first == last and connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.id == first)).first() is None:
                raise NotFound(f"no job 'job{first}'", hint="`turnout list jobs` shows what there is")
            return wanted
        case StepRuns(job, step):
            return _RUNS.c.job_id == find_job(connection, f"job{job}.{step}")
        case Pattern(text):
            return _known(connection, _pattern(connection, text), text)
        case Word(text):
            return _word(connection, text)
        case OneRun(number, child):
            return sa.and_(_RUNS.c.number == number, _RUNS.c.child == child)


def _known(connection: sa.Connection, wanted: Condition, text: str) -> Condition:
    if connection.execute(sa.select(_RUNS.c.id).where(wanted).limit(1)).first() is None:
        raise NotFound(f"no run {text!r}", hint=_HINT)
    return wanted


def _word(connection: sa.Connection, text: str) -> Condition:
    job = find_called(connection, text)
    if job is not None:
        return of_job(job)
    newest = connection.execute(sa.select(sa.func.max(_RUNS.c.job_id)).where(_RUNS.c.label == text)).scalar()
    if newest is not None:
        return sa.and_(_RUNS.c.job_id == newest, _RUNS.c.label == text)
    if connection.execute(sa.select(_RUNS.c.id).where(_RUNS.c.experiment == text).limit(1)).first() is not None:
        return _RUNS.c.experiment == text
    raise NotFound(f"no run, job or experiment {text!r}", hint=_HINT)


def _outer(first: int, last: int) -> Condition:
    """A long range is no way to find runs, but a test for those on the way: no index is to be used for it."""
    number = _RUNS.c.number if last - first < _LONG else _RUNS.c.number + 0
    return sa.and_(number.between(first, last), _RUNS.c.child == 0)


def _pattern(connection: sa.Connection, text: str) -> Condition:
    """The usual ones become ranges of numbers, which an index knows: ``run1*`` is 1, 10 to 19, 100 to 199 …"""
    if text == "*":
        return sa.true()
    if text.startswith("job"):
        return _glob(connection, COLUMNS["job"], text)
    children, leading = _CHILDREN.match(text), _LEADING.match(text)
    if children is not None:
        return sa.and_(_RUNS.c.number == int(children[1]), _RUNS.c.child > 0)
    if leading is not None and not leading[1].startswith("0"):
        prefix = int(leading[1])
        powers = range(_DIGITS - len(leading[1]) + 1)
        return sa.or_(*(_RUNS.c.number.between(prefix * 10**n, (prefix + 1) * 10**n - 1) for n in powers))
    if text.startswith("run"):
        return _glob(connection, COLUMNS["name"], text)
    return sa.or_(_glob(connection, _RUNS.c.label, text), _glob(connection, _RUNS.c.experiment, text))


def _glob(connection: sa.Connection, place: sa.ColumnElement[Any], pattern: str) -> Condition:
    return sa.and_(place.is_not(None), fits(connection, place, pattern))
