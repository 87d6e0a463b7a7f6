"""The tables. A change here needs a migration in ``migrations/``; a test compares the two.

Times are seconds since the epoch (UTC). Ids of jobs are their numbers; ids of runs are opaque. ``child`` is 0 for a run
that is no child, so that (number, child) is unique everywhere.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_WHERE = "where"  # which rows an index holds, in its `info`
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Time: sa.types.TypeEngine[float] = sa.Double()


def start_of(text: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """What indexes hold of a text that may be long: PostgreSQL refuses index entries over 2,700 bytes."""
    return sa.func.substr(text, sa.literal_column("1"), sa.literal_column("200"))


@sa.event.listens_for(metadata, "before_create")
def _name_conditions(target: sa.MetaData, connection: sa.Connection, **more: object) -> None:
    """Told to SQLAlchemy only for the dialect in use: it imports each that is named, and PostgreSQL's takes long."""
    for table in target.tables.values():
        for index in table.indexes:
            if _WHERE in index.info:
                index.dialect_kwargs[f"{connection.dialect.name}_where"] = sa.text(index.info[_WHERE])


counters = sa.Table(
    "counters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

environments = sa.Table(  # the values a submitter's runs get: read by the engine alone, never shown or exported
    "environments",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("variables", sa.Text, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", _Id, primary_key=True, autoincrement=False),
    sa.Column("workspace", sa.Text, nullable=False),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("label", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("display", sa.Text, nullable=False),
    sa.Column("script", sa.Text),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("before", sa.Text),
    sa.Column("data", sa.Text),  # the manifests of what its runs read, bound at submit
    sa.Column("model", sa.Text),
    sa.Column("created", _Time, nullable=False),
    sa.Column("run_count", sa.Integer, nullable=False),
    sa.Column("notify", sa.Text),  # the command to run when it is over; NULL = none, or done
    sa.Column("origin", sa.Text),  # its name in the archive it was imported from
    sa.Column("children_made", sa.Integer, nullable=False, server_default="0"),  # of a stock that parents share
    sa.Column("children_total", sa.Integer),  # NULL = each parent has its own
    sa.Column("pipeline", sa.BigInteger),  # the job of which it is a step
    sa.Column("step", sa.Text),  # its name there
    sa.Column("needs", sa.Text),  # the names of the steps that it, or one of its runs, waits for
    sa.Column("blocked", sa.Integer, nullable=False, server_default="0"),  # steps that it waits for
    sa.Column("open", sa.Integer, nullable=False, server_default="0"),  # of a step: its runs that are not over
    sa.Column("late", sa.Text),  # what makes its runs, where they were not known at submit
    sa.Column("unmade", sa.SmallInteger, nullable=False, server_default="0"),  # whether it has still to do so
    sa.Column("gate", sa.SmallInteger, nullable=False, server_default="0"),  # that its runs have: see `Gate`
    sa.Column("each", sa.Text),  # of files like this, which others left, each of its runs is given only its own
    sa.Column("stale", sa.SmallInteger, nullable=False, server_default="0"),  # made of what was done again since
    sa.Column("continues", sa.BigInteger),  # the step of an earlier pipeline whose results it takes over
    sa.Index("ix_jobs_unmade", "id", info={_WHERE: "unmade = 1"}),
    sa.Index("ix_jobs_continues", "id", info={_WHERE: "continues IS NOT NULL"}),
    sa.Index("ix_jobs_pipeline", "pipeline", "id", info={_WHERE: "pipeline IS NOT NULL"}),
    sa.Index("ix_jobs_created", "created"),
    sa.Index("ix_jobs_notify", "id", info={_WHERE: "notify IS NOT NULL"}),
    sa.Index("ix_jobs_experiment", "experiment"),
    sa.Index("ix_jobs_overview", "workspace", "experiment", "created", "run_count", "pipeline"),
    sa.Index("ix_jobs_label", "label", info={_WHERE: "label IS NOT NULL"}),
)

job_events = sa.Table(
    "job_events",
    metadata,
    sa.Column("job_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", _Time, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("child", sa.Integer, nullable=False, server_default="0"),
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("parent", sa.BigInteger),
    sa.Column("workspace", sa.Text, nullable=False),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False, server_default=""),  # which agents may take it
    sa.Column("outer", sa.Integer),  # of a job with nodes of its own: which of them
    sa.Column("label", sa.Text),
    sa.Column("argv", sa.Text, nullable=False),
    sa.Column("params", sa.Text, nullable=False, server_default="{}"),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("waiting", sa.Integer),  # place in the queue, lowest first: minus the priority; NULL = not in it
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("progress", sa.SmallInteger, nullable=False, server_default="0"),
    sa.Column("reason", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("signal", sa.Integer),
    sa.Column("message", sa.Text, nullable=False, server_default=""),
    sa.Column("cancel", sa.Text),
    sa.Column("failures_left", sa.Integer, nullable=False, server_default="0"),
    sa.Column("losses_left", sa.Integer, nullable=False, server_default="0"),
    sa.Column("children_planned", sa.Integer, nullable=False, server_default="0"),
    sa.Column("remaining", sa.Integer, nullable=False, server_default="0"),
    sa.Column("open_children", sa.Integer, nullable=False, server_default="0"),
    sa.Column("failed_children", sa.Integer, nullable=False, server_default="0"),
    sa.Column("good_children", sa.Integer, nullable=False, server_default="0"),
    sa.Column("stage", sa.SmallInteger, nullable=False, server_default="0"),  # of a search's parent: 1 = open, 2 = not
    sa.Column("node", sa.Text),
    sa.Column("agent", sa.BigInteger),
    sa.Column("created", _Time, nullable=False),
    sa.Column("queued", _Time),
    sa.Column("started", _Time),
    sa.Column("ended", _Time),
    sa.Column("event_seq", sa.Integer, nullable=False, server_default="0"),
    sa.Column("after", sa.Text),
    sa.Column("origin", sa.Text),  # its name in the archive it was imported from
    sa.Column("blocked", sa.Integer, nullable=False, server_default="0"),  # runs and steps that it waits for
    sa.Column("gate", sa.SmallInteger, nullable=False, server_default="0"),  # somebody has to look before it begins
    sa.Column("step", sa.SmallInteger, nullable=False, server_default="0"),  # 1 = of a pipeline, 2 = made again
    sa.Column("outputs", sa.Text),  # what it has to leave behind
    sa.Column("carried", sa.BigInteger),  # the run that was executed, if this one only has its result
    sa.UniqueConstraint("number", "child"),
    sa.Index("ix_runs_queue", "queue", "waiting", "id", info={_WHERE: "waiting IS NOT NULL"}),
    sa.Index("ix_runs_agent", "agent", info={_WHERE: "agent IS NOT NULL"}),
    sa.Index("ix_runs_job", "job_id", "state", "children_planned"),
    sa.Index("ix_runs_parents", "job_id", info={_WHERE: "children_planned > 0"}),
    sa.Index("ix_runs_parent", "parent", info={_WHERE: "parent IS NOT NULL"}),
    sa.Index("ix_runs_child", "job_id", "child"),  # of all runs: SQLite does not take a partial one for child = ?
    sa.Index("ix_runs_state", "state", "created", "id"),
    sa.Index("ix_runs_experiment", "experiment", "created", "id"),
    sa.Index("ix_runs_workspace", "workspace", "created", "id"),
    sa.Index("ix_runs_target", "target", "created", "id"),
    sa.Index("ix_runs_node", "node", "created", "id"),
    sa.Index("ix_runs_created", "created"),
    sa.Index("ix_runs_started", "started"),
    sa.Index("ix_runs_ended", "ended"),
    sa.Index("ix_runs_duration", sa.text("(ended - started)"), info={_WHERE: "ended IS NOT NULL"}),
    sa.Index("ix_runs_carried", "carried", info={_WHERE: "carried IS NOT NULL"}),
    sa.Index("ix_runs_replaced", "job_id", "state", info={_WHERE: "step = 2"}),
    sa.Index("ix_runs_skipped", "job_id", info={_WHERE: "reason = 'condition'"}),
    sa.Index("ix_runs_gate", "job_id", info={_WHERE: "gate > 0 AND blocked = 0 AND state = 'created'"}),
    sa.Index("ix_runs_exit_code", "exit_code", "created", "id"),
    sa.Index("ix_runs_label", "label", info={_WHERE: "label IS NOT NULL"}),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("agent", sa.BigInteger, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("claimed", _Time, nullable=False),
    sa.Column("closed", _Time),
    sa.Column("cause", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("signal", sa.Integer),
    sa.Column("message", sa.Text),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", _Time, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

streams = sa.Table(  # how much of each byte stream of an attempt is here, without a gap
    "streams",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("frames", sa.BigInteger, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)

output = sa.Table(
    "output",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

metric_names = sa.Table(
    "metric_names",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)

metrics = sa.Table(  # one row per run and metric: what tables and sorts need
    "metrics",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("name_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last", sa.Double),
    sa.Column("min", sa.Double),
    sa.Column("max", sa.Double),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Index("ix_metrics_last", "name_id", "last", "run_id"),
    sqlite_with_rowid=False,
)

metric_chunks = sa.Table(  # the points, in columns; `low` and `high` are the next coarser level for plots
    "metric_chunks",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("name_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("first_step", sa.BigInteger, nullable=False),
    sa.Column("last_step", sa.BigInteger, nullable=False),
    sa.Column("low", sa.Double),
    sa.Column("high", sa.Double),
    sa.Column("points", sa.LargeBinary, nullable=False),
)

params = sa.Table(  # `value` is JSON; a number stands in `number` as well, a text in `text`, to be compared and sorted
    "params",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("number", sa.Double),
    sa.Column("text", sa.Text),
    sa.Index("ix_params_number", "name", "number"),
    sqlite_with_rowid=False,
)
sa.Index("ix_params_text", params.c.name, start_of(params.c.text), info={_WHERE: "text IS NOT NULL"})

tags = sa.Table(
    "tags",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
sa.Index("ix_tags_value", tags.c.name, start_of(tags.c.value))

searches = sa.Table(  # what of a search changes while it goes on
    "searches",
    metadata,
    sa.Column("job_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text, nullable=False),  # active | paused | over
    sa.Column("wanted", sa.Integer),  # runs in all; NULL = any number
    sa.Column("deadline", _Time),
    sa.Column("concurrent", sa.Integer),  # runs at once; NULL = as many as find room
    sa.Column("asked", sa.Integer, nullable=False, server_default="0"),  # proposals made
    sa.Column("forgiven", sa.Integer, nullable=False, server_default="0"),  # first runs whose failures do not count
    sa.Column("message", sa.Text, nullable=False, server_default=""),  # why it is paused or over
    sa.Column("ended", _Time),
    sa.Index("ix_searches_open", "job_id", info={_WHERE: "state <> 'over'"}),
)

proposals = sa.Table(  # the parameters of a search's runs, by the number of the child that they become
    "proposals",
    metadata,
    sa.Column("job_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("params", sa.Text, nullable=False),
    sa.Column("memo", sa.Text, nullable=False, server_default="{}"),  # the sampler's own
    sa.Column("result", sa.Text),  # of one that was brought in from elsewhere: what became of it
    sa.Column("value", sa.Double),  # and of that, the first objective
    sa.Index("ix_proposals_value", "job_id", "value", info={_WHERE: "value IS NOT NULL"}),
    sqlite_with_rowid=False,
)

parent_scripts = sa.Table(  # where the script of a parent has run: its children may run there
    "parent_scripts",
    metadata,
    sa.Column("run_id", _Id, primary_key=True, autoincrement=False),
    sa.Column("agent", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("time", _Time, nullable=False),
)

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False, server_default=""),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("launch_token", sa.Text, nullable=False, unique=True),
    sa.Column("token_hash", sa.Text, nullable=False, unique=True),
    sa.Column("handle", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("facts", sa.Text),
    sa.Column("kept", sa.SmallInteger, nullable=False, server_default="0"),  # 1 = stays until it is released
    sa.Column("number", sa.Integer, nullable=False, server_default="0"),  # tells it from others of its place
    sa.Column("seat", sa.Text, nullable=False, server_default=""),  # the machine of its provider's that it is for
    sa.Column("need", sa.Text, nullable=False, server_default="{}"),  # what it was to be given
    sa.Column("observed", sa.Text),  # how its provider last saw it
    sa.Column("created", _Time, nullable=False),
    sa.Column("ended", _Time),
    sa.Index("ix_agents_state", "state"),
    sa.Index("ix_agents_queue", "queue"),
)

requests = sa.Table(  # answers already given, by idempotency key
    "requests",
    metadata,
    sa.Column("principal", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body_hash", sa.Text, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("created", _Time, nullable=False),
    sa.Index("ix_requests_created", "created"),
)

shares = sa.Table(  # named files: what a name means now; a job that read it keeps the manifest it was bound to
    "shares",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("files", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("created", _Time, nullable=False),
    sa.Column("updated", _Time, nullable=False),
)

imports = sa.Table(  # archives that were taken in, once into a workspace: jobs `first_job` to `last_job`
    "imports",
    metadata,
    sa.Column("archive", sa.Text, primary_key=True),
    sa.Column("workspace", sa.Text, primary_key=True),
    sa.Column("first_job", sa.BigInteger, nullable=False),
    sa.Column("last_job", sa.BigInteger, nullable=False),
    sa.Column("created", _Time, nullable=False),
)

run_needs = sa.Table(  # which run waits for which
    "run_needs",
    metadata,
    sa.Column("needed", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Index("ix_run_needs_run_id", "run_id"),
    sqlite_with_rowid=False,
)

step_needs = sa.Table(  # the runs of which step wait for all runs of which
    "step_needs",
    metadata,
    sa.Column("needed", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Index("ix_step_needs_job_id", "job_id"),
    sqlite_with_rowid=False,
)

late_needs = sa.Table(  # which step has to be there for the runs of which to be made
    "late_needs",
    metadata,
    sa.Column("needed", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("over", sa.SmallInteger, nullable=False),  # 1 = all its runs are to be over, 0 = they are to be made
    sa.Index("ix_late_needs_job_id", "job_id"),
    sqlite_with_rowid=False,
)
