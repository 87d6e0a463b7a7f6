"""The first schema.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), server_default="", nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("launch_token", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=True),
        sa.Column("kept", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("number", sa.Integer(), server_default="0", nullable=False),
        sa.Column("seat", sa.Text(), server_default="", nullable=False),
        sa.Column("need", sa.Text(), server_default="{}", nullable=False),
        sa.Column("observed", sa.Text(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("launch_token", name=op.f("uq_agents_launch_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_agents_token_hash")),
    )
    op.create_index("ix_agents_queue", "agents", ["queue"], unique=False)
    op.create_index("ix_agents_state", "agents", ["state"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("claimed", sa.Double(), nullable=False),
        sa.Column("closed", sa.Double(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "attempt", name=op.f("pk_attempts")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "environments",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("variables", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_environments")),
    )
    op.create_table(
        "events",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "imports",
        sa.Column("archive", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("first_job", sa.BigInteger(), nullable=False),
        sa.Column("last_job", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("archive", "workspace", name=op.f("pk_imports")),
    )
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_job_events")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("display", sa.Text(), nullable=False),
        sa.Column("script", sa.Text(), nullable=True),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("run_count", sa.Integer(), nullable=False),
        sa.Column("notify", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("children_made", sa.Integer(), server_default="0", nullable=False),
        sa.Column("children_total", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_created", "jobs", ["created"], unique=False)
    op.create_index(
        "ix_jobs_notify",
        "jobs",
        ["id"],
        unique=False,
        sqlite_where=sa.text("notify IS NOT NULL"),
        postgresql_where=sa.text("notify IS NOT NULL"),
    )
    op.create_index("ix_jobs_experiment", "jobs", ["experiment"], unique=False)
    op.create_index("ix_jobs_overview", "jobs", ["workspace", "experiment", "created", "run_count"], unique=False)
    op.create_index(
        "ix_jobs_label",
        "jobs",
        ["label"],
        unique=False,
        sqlite_where=sa.text("label IS NOT NULL"),
        postgresql_where=sa.text("label IS NOT NULL"),
    )
    op.create_table(
        "metric_chunks",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name_id", "start", name=op.f("pk_metric_chunks")),
    )
    op.create_table(
        "metric_names",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric_names")),
        sa.UniqueConstraint("name", name=op.f("uq_metric_names_name")),
    )
    op.create_table(
        "metrics",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last", sa.Double(), nullable=True),
        sa.Column("min", sa.Double(), nullable=True),
        sa.Column("max", sa.Double(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name_id", name=op.f("pk_metrics")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_metrics_last", "metrics", ["name_id", "last", "run_id"], unique=False)
    op.create_table(
        "output",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "start", name=op.f("pk_output")),
    )
    op.create_table(
        "parent_scripts",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("agent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "agent", name=op.f("pk_parent_scripts")),
    )
    op.create_table(
        "params",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("number", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_params")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_params_number", "params", ["name", "number"], unique=False)
    op.create_index(
        "ix_params_text",
        "params",
        ["name", sa.text("substr(text, 1, 200)")],
        unique=False,
        sqlite_where=sa.text("text IS NOT NULL"),
        postgresql_where=sa.text("text IS NOT NULL"),
    )
    op.create_table(
        "requests",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key", name=op.f("pk_requests")),
    )
    op.create_index("ix_requests_created", "requests", ["created"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("child", sa.Integer(), server_default="0", nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("parent", sa.BigInteger(), nullable=True),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), server_default="", nullable=False),
        sa.Column("outer", sa.Integer(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("argv", sa.Text(), nullable=False),
        sa.Column("params", sa.Text(), server_default="{}", nullable=False),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("progress", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("cancel", sa.Text(), nullable=True),
        sa.Column("failures_left", sa.Integer(), server_default="0", nullable=False),
        sa.Column("losses_left", sa.Integer(), server_default="0", nullable=False),
        sa.Column("children_planned", sa.Integer(), server_default="0", nullable=False),
        sa.Column("remaining", sa.Integer(), server_default="0", nullable=False),
        sa.Column("open_children", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed_children", sa.Integer(), server_default="0", nullable=False),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("agent", sa.BigInteger(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("queued", sa.Double(), nullable=True),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("event_seq", sa.Integer(), server_default="0", nullable=False),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("number", "child", name=op.f("uq_runs_number_child")),
    )
    op.create_index(
        "ix_runs_agent",
        "runs",
        ["agent"],
        unique=False,
        sqlite_where=sa.text("agent IS NOT NULL"),
        postgresql_where=sa.text("agent IS NOT NULL"),
    )
    op.create_index("ix_runs_created", "runs", ["created"], unique=False)
    op.create_index("ix_runs_ended", "runs", ["ended"], unique=False)
    op.create_index("ix_runs_exit_code", "runs", ["exit_code", "created", "id"], unique=False)
    op.create_index("ix_runs_experiment", "runs", ["experiment", "created", "id"], unique=False)
    op.create_index("ix_runs_job", "runs", ["job_id", "state", "children_planned"], unique=False)
    op.create_index(
        "ix_runs_parents",
        "runs",
        ["job_id"],
        unique=False,
        sqlite_where=sa.text("children_planned > 0"),
        postgresql_where=sa.text("children_planned > 0"),
    )
    op.create_index(
        "ix_runs_duration",
        "runs",
        [sa.text("(ended - started)")],
        unique=False,
        sqlite_where=sa.text("ended IS NOT NULL"),
        postgresql_where=sa.text("ended IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_label",
        "runs",
        ["label"],
        unique=False,
        sqlite_where=sa.text("label IS NOT NULL"),
        postgresql_where=sa.text("label IS NOT NULL"),
    )
    op.create_index("ix_runs_node", "runs", ["node", "created", "id"], unique=False)
    op.create_index(
        "ix_runs_parent",
        "runs",
        ["parent"],
        unique=False,
        sqlite_where=sa.text("parent IS NOT NULL"),
        postgresql_where=sa.text("parent IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_queue",
        "runs",
        ["queue", "waiting", "id"],
        unique=False,
        sqlite_where=sa.text("waiting IS NOT NULL"),
        postgresql_where=sa.text("waiting IS NOT NULL"),
    )
    op.create_index("ix_runs_started", "runs", ["started"], unique=False)
    op.create_index("ix_runs_state", "runs", ["state", "created", "id"], unique=False)
    op.create_index("ix_runs_target", "runs", ["target", "created", "id"], unique=False)
    op.create_index("ix_runs_workspace", "runs", ["workspace", "created", "id"], unique=False)
    op.create_table(
        "shares",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shares")),
        sa.UniqueConstraint("name", name=op.f("uq_shares_name")),
    )
    op.create_table(
        "streams",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("frames", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "stream", name=op.f("pk_streams")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tags",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_tags")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_tags_value", "tags", ["name", sa.text("substr(value, 1, 200)")], unique=False)
