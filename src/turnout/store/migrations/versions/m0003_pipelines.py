"""Pipelines: jobs that are steps of another, and runs that wait for others.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("pipeline", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("step", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("blocked", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("open", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("late", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("unmade", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("bears_failures", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("continues", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("carried", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("blocked", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("step", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("outputs", sa.Text(), nullable=True))
    op.drop_index("ix_jobs_overview", table_name="jobs")
    overview = ["workspace", "experiment", "created", "run_count", "pipeline"]
    op.create_index("ix_jobs_overview", "jobs", overview, unique=False)
    for index, table, columns, condition in (
        ("ix_jobs_pipeline", "jobs", ["pipeline", "id"], "pipeline IS NOT NULL"),
        ("ix_jobs_continues", "jobs", ["id"], "continues IS NOT NULL"),
        ("ix_jobs_unmade", "jobs", ["id"], "unmade = 1"),
        ("ix_runs_carried", "runs", ["carried"], "carried IS NOT NULL"),
        ("ix_runs_replaced", "runs", ["job_id", "state"], "step = 2"),
        ("ix_runs_skipped", "runs", ["job_id"], "reason = 'condition'"),
    ):
        where = sa.text(condition)
        op.create_index(index, table, columns, unique=False, sqlite_where=where, postgresql_where=where)
    for table, waits in (("run_needs", "run_id"), ("step_needs", "job_id")):
        op.create_table(
            table,
            sa.Column("needed", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column(waits, sa.BigInteger(), autoincrement=False, nullable=False),
            sa.PrimaryKeyConstraint("needed", waits, name=op.f(f"pk_{table}")),
            sqlite_with_rowid=False,
        )
        op.create_index(f"ix_{table}_{waits}", table, [waits], unique=False)
