"""Runs of pipelines have gates, and steps whose runs are made later say what has to be there for that.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_IS_DUE = "gate > 0 AND blocked = 0 AND state = 'created'"


def upgrade() -> None:
    for table in ("jobs", "runs"):
        op.add_column(table, sa.Column("gate", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("stale", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("each", sa.Text(), nullable=True))
    where = sa.text(_IS_DUE)
    op.create_index("ix_runs_gate", "runs", ["job_id"], unique=False, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "late_needs",
        sa.Column("needed", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("over", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("needed", "job_id", name=op.f("pk_late_needs")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_late_needs_job_id", "late_needs", ["job_id"], unique=False)
    # What was late waited for steps that were over; what had a condition was late.
    op.execute(
        "INSERT INTO late_needs (needed, job_id, over) SELECT needed, job_id, 1 FROM step_needs"
        " WHERE job_id IN (SELECT id FROM jobs WHERE late IS NOT NULL)"
    )
    op.execute("DELETE FROM step_needs WHERE job_id IN (SELECT id FROM jobs WHERE unmade = 1)")
    op.execute("UPDATE jobs SET gate = 2 WHERE bears_failures = 1")
    op.execute("UPDATE jobs SET gate = 1 WHERE bears_failures = 0 AND unmade = 1")
    op.drop_column("jobs", "bears_failures")
