"""The store as the hub holds it: one writer, many short reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from turnout.store.database import open_engine, prepare
from turnout.store.tidying import Tidied, tidy
from turnout.store.writer import Tx, Writer

T = TypeVar("T")
Connection = sa.Connection


class Store:
    """Opens (and makes or migrates) the database at construction; `close` when done.

    Reads are single short transactions, so that SQLite's write-ahead log can always be folded back.
    """

    def __init__(
        self,
        url: str,
        *,
        backup_dir: Path | None = None,
        on_commit: Callable[[frozenset[str]], None] = lambda topics: None,
    ) -> None:
        self._write_engine = open_engine(url, writer=True)
        prepare(self._write_engine, backup_dir=backup_dir)
        self._read_engine = open_engine(url, writer=False)
        self._writer = Writer(self._write_engine, on_commit=on_commit)
        self._writer.start()

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        """Queues a write; its future is answered after the commit."""
        return self._writer.submit(work)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._writer.write(work)

    def tidy(self, *, dry_run: bool = False) -> Tidied:
        """Gives room that nothing uses any more back to the disk; nobody writes meanwhile."""
        return self._writer.submit_alone(lambda engine: tidy(engine, dry_run=dry_run)).result()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with self._read_engine.connect() as connection:
            yield connection

    def close(self) -> None:
        self._writer.stop()
        self._read_engine.dispose()
        self._write_engine.dispose()
