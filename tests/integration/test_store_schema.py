"""The schema: made at once for a new database, or by migrations for an old one; the two must be equal."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.integration.storing import at_once
from turnout.errors import InvalidInput, Unavailable
from turnout.store import migrate
from turnout.store.database import HEAD, backup_sqlite, open_engine, prepare, sqlite_url
from turnout.store.schema import metadata
from turnout.store.store import Store

#: Alembic cannot see an index on an expression in SQLite; `test_both_ways_give_the_same_statements` can.
pytestmark = pytest.mark.filterwarnings("ignore:.*expression-based index")
#: A SQLite store has one hub, by the lock of its directory.
only_postgresql = pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)


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


def test_both_ways_give_the_same_statements(tmp_path: Path) -> None:
    """Down to every index and constraint."""

    def statements(path: Path) -> list[str]:
        with sa.create_engine(sqlite_url(path)).connect() as connection:
            made = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")).scalars()
            parts = (re.split(r",\s*(?![^()]*\))", re.sub(r'[\s"]+', " ", sql)) for sql in made)
            return sorted(", ".join([first, *sorted(rest)]) for first, *rest in parts)

    prepare(open_engine(sqlite_url(tmp_path / "made.db"), writer=True), backup_dir=None)
    migrate.upgrade(open_engine(sqlite_url(tmp_path / "grown.db"), writer=True), found=None, backup_dir=None)
    indexes = [sql for sql in statements(tmp_path / "made.db") if sql.startswith("CREATE INDEX")]
    assert indexes == [sql for sql in statements(tmp_path / "grown.db") if sql.startswith("CREATE INDEX")]
    assert any("substr(text, 1, 200)" in sql for sql in indexes)


@only_postgresql
def test_hubs_that_start_at_once_on_a_new_database_all_succeed(store_url: str) -> None:
    stores = at_once(*[partial(Store, store_url)] * 4)
    assert version_of(open_engine(store_url, writer=False)) == HEAD
    for store in stores:
        store.close()


@only_postgresql
def test_hubs_that_migrate_at_once_all_succeed(store_url: str) -> None:
    """In processes of their own, as they are: Alembic has one context for each."""
    program = (
        "import sys; from turnout.store import migrate; from turnout.store.database import open_engine\n"
        "migrate.upgrade(open_engine(sys.argv[1], writer=True), found=None, backup_dir=None)"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, store_url]) for _ in range(2)]
    assert [process.wait(60) for process in started] == [0, 0]
    assert differences(open_engine(store_url, writer=True)) == []


@only_postgresql
def test_a_migration_of_postgresql_makes_no_file(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a SQLite database is a file that can be copied."""
    monkeypatch.chdir(tmp_path)
    engine = open_engine(store_url, writer=True)
    prepare(engine, backup_dir=None)
    migrate.upgrade(engine, found=HEAD, backup_dir=tmp_path / "backups")
    assert list(tmp_path.iterdir()) == []


def test_a_migration_that_fails_leaves_the_database_as_it_was(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or nothing: the tables that were made before the fault are gone again."""
    engine = open_engine(store_url, writer=True)
    original = sa.schema.CreateIndex.__init__

    def fail(self: Any, element: sa.Index, *args: Any, **kwargs: Any) -> None:
        if element.name == "ix_tags_value":
            raise RuntimeError("a fault")
        original(self, element, *args, **kwargs)

    monkeypatch.setattr(sa.schema.CreateIndex, "__init__", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        migrate.upgrade(engine, found=None, backup_dir=None)
    monkeypatch.undo()
    assert sa.inspect(engine).get_table_names() == []
    migrate.upgrade(engine, found=None, backup_dir=None)
    assert differences(engine) == []


def test_steps_keep_what_they_wait_for(store_url: str) -> None:
    """Before 0004 it stood among all else that is kept of their jobs."""
    engine = open_engine(store_url, writer=True)
    command.upgrade(migrate.configuration(engine), "0003")
    with engine.begin() as connection:
        jobs = sa.Table("jobs", sa.MetaData(), autoload_with=connection)
        blank = {each.name: "" if isinstance(each.type, sa.Text) else 0 for each in jobs.c if not each.nullable}
        kept = [(1, None, {}), (2, 1, {"step_needs": []}), (3, 1, {"step_needs": ["a", "b"]}), (4, None, {})]
        for id_, pipeline, spec in kept:
            connection.execute(jobs.insert(), {**blank, "id": id_, "pipeline": pipeline, "spec": json.dumps(spec)})
    prepare(engine, backup_dir=None)
    with engine.connect() as connection:
        needs = connection.execute(sa.select(metadata.tables["jobs"].c.needs).order_by(sa.text("id"))).scalars().all()
    assert needs == [None, "[]", '["a", "b"]', None]


def test_steps_that_are_made_later_are_still_made(store_url: str) -> None:
    """Before 0005 those waited for whole steps, as runs do; also for what a condition asks about."""
    engine = open_engine(store_url, writer=True)
    command.upgrade(migrate.configuration(engine), "0004")
    with engine.begin() as connection:
        old = sa.MetaData()
        jobs = sa.Table("jobs", old, autoload_with=connection)
        blank = {each.name: "" if isinstance(each.type, sa.Text) else 0 for each in jobs.c if not each.nullable}
        late = {"pipeline": 1, "late": "{}"}
        rows: list[dict[str, object]] = [
            {"id": 1}, {"id": 2, "pipeline": 1}, {"id": 3, "unmade": 1, **late},
            {"id": 4, "unmade": 1, "bears_failures": 1, **late}, {"id": 5, **late}, {"id": 6, "pipeline": 1},
        ]  # fmt: skip
        for row in rows:
            connection.execute(jobs.insert(), {**blank, **row})
        needs = sa.Table("step_needs", old, autoload_with=connection)
        pairs = [(2, 3), (2, 4), (3, 4), (2, 5), (2, 6)]
        connection.execute(needs.insert(), [{"needed": on, "job_id": job} for on, job in pairs])
    prepare(engine, backup_dir=None)
    tables = metadata.tables
    with engine.connect() as connection:
        gates = connection.execute(sa.select(tables["jobs"].c.gate).order_by(sa.text("id"))).scalars().all()
        waiting = {tuple(row) for row in connection.execute(sa.select(tables["late_needs"]))}
        whole = {tuple(row) for row in connection.execute(sa.select(tables["step_needs"]))}
    assert gates == [0, 0, 1, 2, 0, 0]
    assert waiting == {(2, 3, 1), (2, 4, 1), (3, 4, 1), (2, 5, 1)} and whole == {(2, 5), (2, 6)}


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


def test_a_backup_never_replaces_another(tmp_path: Path) -> None:
    prepare(open_engine(sqlite_url(tmp_path / "turnout.db"), writer=True), backup_dir=None)
    (tmp_path / "backup.db").write_text("precious")
    with pytest.raises(FileExistsError):
        backup_sqlite(tmp_path / "turnout.db", tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_text() == "precious"


def test_a_url_of_no_known_kind_is_refused() -> None:
    for url in ("mysql://host/db", "sqlite://", "sqlite:///"):
        with pytest.raises(InvalidInput, match="no store for") as refused:
            Store(url)
        assert "postgresql://" in refused.value.hint


def test_a_password_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as refused:
        Store("mysql://me:hunter2@host/db")
    assert "hunter2" not in refused.value.message
    with pytest.raises(Unavailable) as unreachable:
        Store("postgresql://me:hunter2@/db?host=/no/such/place")
    assert "hunter2" not in str(unreachable.value) + unreachable.value.hint
