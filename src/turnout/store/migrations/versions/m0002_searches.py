"""Searches, and the parameters that are proposed for their runs.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("good_children", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("stage", sa.SmallInteger(), server_default="0", nullable=False))
    op.create_index("ix_runs_child", "runs", ["job_id", "child"], unique=False)
    op.create_table(
        "searches",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=True),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("concurrent", sa.Integer(), nullable=True),
        sa.Column("asked", sa.Integer(), server_default="0", nullable=False),
        sa.Column("forgiven", sa.Integer(), server_default="0", nullable=False),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_searches")),
    )
    op.create_index(
        "ix_searches_open",
        "searches",
        ["job_id"],
        unique=False,
        sqlite_where=sa.text("state <> 'over'"),
        postgresql_where=sa.text("state <> 'over'"),
    )
    op.create_table(
        "proposals",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("memo", sa.Text(), server_default="{}", nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_proposals")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_proposals_value",
        "proposals",
        ["job_id", "value"],
        unique=False,
        sqlite_where=sa.text("value IS NOT NULL"),
        postgresql_where=sa.text("value IS NOT NULL"),
    )
