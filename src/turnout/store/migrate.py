"""Migrations, by Alembic. Loaded only when the schema is not the newest."""

from __future__ import annotations

import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy.engine import Engine

from turnout.errors import InvalidInput
from turnout.store.database import backup_sqlite


def configuration(engine: Engine) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine, *, found: str | None, backup_dir: Path | None) -> None:
    """Brings the schema to the newest version, after a backup of a SQLite file. All or nothing.

    Raises InvalidInput when the database was made by a newer turnout.
    """
    config = configuration(engine)
    try:
        ScriptDirectory.from_config(config).get_revision(found or "base")
    except CommandError as error:
        raise InvalidInput(
            f"the store has schema {found!r}, which this turnout does not know",
            hint="it was written by a newer turnout: upgrade this one, or use another TURNOUT_HOME",
        ) from error
    if backup_dir is not None and engine.dialect.name == "sqlite" and engine.url.database:
        backup_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        backup_sqlite(Path(engine.url.database), backup_dir / f"before-{found}-{time.time_ns()}.db")
    command.upgrade(config, "head")
