"""The schema: made at once for a new database, or by migrations for an old one; the two must be equal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from turnout.errors import InvalidInput
from turnout.store import migrate
from turnout.store.database import HEAD, open_engine, prepare, sqlite_url
from turnout.store.schema import metadata


def differences(engine: sa.Engine) -> list[object]:
    with engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def version_of(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one())


def test_a_new_database_has_the_tables_and_the_newest_version(store_url: str) -> None:
    engine = open_engine(store_url, writer=True)
    prepare(engine, backup_dir=None)
    assert differences(engine) == []
    assert version_of(engine) == HEAD


def test_the_sum_of_all_migrations_is_the_schema(store_url: str) -> None:
    engine = open_engine(store_url, writer=True)
    migrate.upgrade(engine, found=None, backup_dir=None)
    assert differences(engine) == []
    assert version_of(engine) == HEAD


def test_preparing_twice_changes_nothing(store_url: str) -> None:
    engine = open_engine(store_url, writer=True)
    prepare(engine, backup_dir=None)
    prepare(engine, backup_dir=None)
    assert differences(engine) == []


def test_a_database_of_a_newer_turnout_is_left_alone(store_url: str) -> None:
    engine = open_engine(store_url, writer=True)
    prepare(engine, backup_dir=None)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidInput, match="9999") as refused:
        prepare(engine, backup_dir=None)
    assert "upgrade" in refused.value.hint
    assert version_of(engine) == "9999"


def test_a_backup_is_taken_before_a_migration(tmp_path: Path) -> None:
    engine = open_engine(sqlite_url(tmp_path / "turnout.db"), writer=True)
    prepare(engine, backup_dir=None)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO counters VALUES ('run', 41)"))
    migrate.upgrade(engine, found=HEAD, backup_dir=tmp_path / "backups")
    (backup,) = (tmp_path / "backups").iterdir()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = sa.create_engine(sqlite_url(backup))
    with copy.connect() as connection:
        assert connection.execute(sa.text("SELECT value FROM counters")).scalar_one() == 41


def test_the_database_file_is_private_from_the_first_instant(tmp_path: Path) -> None:
    open_engine(sqlite_url(tmp_path / "turnout.db"), writer=True)
    assert stat.S_IMODE((tmp_path / "turnout.db").stat().st_mode) == 0o600
