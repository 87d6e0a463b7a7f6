"""The names of the steps that a step waits for have a column: all else that is kept of its job, many have the same.

Revision ID: 0004
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("needs", sa.Text(), nullable=True))
    jobs = sa.table("jobs", sa.column("id"), sa.column("pipeline"), sa.column("spec"), sa.column("needs"))
    connection = op.get_bind()
    steps = connection.execute(sa.select(jobs.c.id, jobs.c.spec).where(jobs.c.pipeline.is_not(None))).all()
    for step in steps:
        needs = json.dumps(json.loads(step.spec).get("step_needs", []))
        connection.execute(jobs.update().where(jobs.c.id == step.id).values(needs=needs))
