"""Which runs belong to a job: its own, and those of its steps."""

from __future__ import annotations

import sqlalchemy as sa

from turnout.store import schema

_RUNS, _JOBS = schema.runs, schema.jobs
#: What `runs.step` is for one of a step, and for one in whose place another was made.
OF_STEP, REPLACED = 1, 2


def of_job(job: int | sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    steps = sa.select(_JOBS.c.id).where(_JOBS.c.pipeline == job)
    return sa.or_(_RUNS.c.job_id == job, _RUNS.c.job_id.in_(steps))
