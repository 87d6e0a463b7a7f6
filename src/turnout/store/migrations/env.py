"""Run by Alembic: one transaction for the whole upgrade, on the engine that the caller gave."""

from __future__ import annotations

from alembic import context

from turnout.store.database import lock_schema
from turnout.store.schema import metadata

with context.config.attributes["engine"].begin() as connection:
    lock_schema(connection)
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=False)
    context.run_migrations()
