"""Opening a database: the engine, its settings, and the schema brought up to date."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine, make_url

from turnout.errors import InvalidInput, Unavailable
from turnout.query import regex
from turnout.store.schema import metadata

#: The newest migration. A new database is made from the tables directly and stamped with it; a test compares the two.
HEAD = "0005"
_VERSION = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


def sqlite_url(path: Path) -> str:
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def open_engine(url: str, *, writer: bool) -> Engine:
    """An engine for one writer connection, or for many short reads. Connects to nothing yet.

    SQLite: WAL, ``BEGIN IMMEDIATE`` for the writer, ``synchronous=FULL``: a committed transaction is on the disk.
    Raises Unavailable when its file cannot be made.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgres(parsed.set(drivername="postgresql+psycopg"), writer=writer)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise InvalidInput(f"no store for {parsed.render_as_string()!r}", hint="give sqlite:///PATH or postgresql://…")
    return _sqlite(parsed, writer=writer)


def _postgres(url: sa.URL, *, writer: bool) -> Engine:
    options = "-c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000"
    return sa.create_engine(
        url,
        pool_size=1 if writer else 8,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={"options": options, "connect_timeout": 10},
    )


def _sqlite(url: sa.URL, *, writer: bool) -> Engine:
    path = url.database
    assert path is not None
    if writer:  # 0600 from the first instant: SQLite would use the umask, and copies this mode to -wal and -shm
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Unavailable(
                f"the store {path} cannot be opened: {error.strerror}", hint="see `turnout doctor`"
            ) from error
    engine = sa.create_engine(url, poolclass=None if writer else sa.QueuePool, **({} if writer else {"pool_size": 8}))

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        for pragma in (
            "busy_timeout=10000",
            "foreign_keys=ON",
            "trusted_schema=OFF",
            "mmap_size=0",
            "cache_size=-16000" if writer else "cache_size=-8000",
            *(("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=2000") if writer else ("query_only=ON",)),
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        connection.create_function("regexp", 2, regex.search, deterministic=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")

    return engine


def prepare(engine: Engine, *, backup_dir: Path | None) -> None:
    """Makes or migrates the schema. A SQLite database is copied to `backup_dir` before a migration.

    Raises Unavailable when the database cannot be reached or written, InvalidInput when it is newer than this program.
    """
    try:
        with engine.begin() as connection:
            lock_schema(connection)
            if not sa.inspect(connection).has_table("alembic_version"):
                metadata.create_all(connection)
                _VERSION.create(connection)
                connection.execute(_VERSION.insert().values(version_num=HEAD))
                return
            found = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    except sa.exc.DBAPIError as error:
        raise Unavailable(f"the store cannot be opened: {error.orig}", hint="see `turnout doctor`") from error
    if found != HEAD:
        from turnout.store import migrate

        migrate.upgrade(engine, found=str(found), backup_dir=backup_dir)


def lock_schema(connection: sa.Connection) -> None:
    """Until this transaction ends, no other hub makes or migrates the schema. (SQLite's only writer needs no lock.)"""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(7220817)"))


def backup_sqlite(source: Path, target: Path) -> None:
    """A consistent, checked copy of a live SQLite database, 0600."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
        (verdict,) = copy.execute("PRAGMA quick_check").fetchone()
    if verdict != "ok":
        raise Unavailable(f"the backup {target} is damaged: {verdict}", hint="the database was left as it is")
