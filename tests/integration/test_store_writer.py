"""One thread writes for all: together, each for itself when one fails, and nothing that was accepted is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.storing import Lab, job_spec, shared_database
from tests.integration.storing import lab as lab
from turnout.engine.submit import Submission, submit
from turnout.errors import NotFound, Unavailable
from turnout.store import schema
from turnout.store.database import open_engine, prepare, sqlite_url
from turnout.store.jobs import next_numbers
from turnout.store.store import Store
from turnout.store.writer import Tx, Writer


def note(tx: Tx, name: str) -> str:
    """A small write that can be seen."""
    tx.connection.execute(schema.counters.insert(), {"name": name, "value": 1})
    return name


def notes(store: Store) -> list[str]:
    with store.read() as connection:
        return sorted(connection.execute(sa.select(schema.counters.c.name)).scalars())


@contextmanager
def busy(store: Store) -> Iterator[None]:
    """What is submitted meanwhile waits, and is written together afterwards."""
    free, begun = threading.Event(), threading.Event()

    def wait(tx: Tx) -> None:
        begun.set()
        free.wait(30)

    waiting = store.submit(wait)
    assert begun.wait(30)
    yield
    free.set()
    waiting.result(30)


def test_an_answer_means_that_it_is_on_disk(lab: Lab) -> None:
    assert lab.store.write(partial(note, name="a")) == "a"
    assert notes(lab.store) == ["a"]


def test_what_waits_is_written_together(lab: Lab) -> None:
    """200 callers, a few commits: each gets its own answer."""
    times = set()

    def send(tx: Tx, index: int) -> int:
        times.add(tx.now)  # one per transaction
        return next_numbers(tx, "n", 1) * 1000 + index

    futures: list[Future[int]] = []
    lock = threading.Lock()

    def ask(first: int) -> None:
        for index in range(first, first + 20):
            future = lab.store.submit(partial(send, index=index))
            with lock:
                futures.append(future)

    with busy(lab.store):
        threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 200, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    answers = [future.result(30) for future in futures]
    assert sorted(answer // 1000 for answer in answers) == list(range(1, 201))
    assert sorted(answer % 1000 for answer in answers) == list(range(200))
    assert len(times) < 5


def test_a_refusal_disturbs_nobody(lab: Lab) -> None:
    def refuse(tx: Tx) -> None:
        raise NotFound("no such thing")

    with busy(lab.store):
        before, refused, after = (
            lab.store.submit(partial(note, name="before")), lab.store.submit(refuse),
            lab.store.submit(partial(note, name="after")),
        )  # fmt: skip
    assert (before.result(30), after.result(30)) == ("before", "after")
    with pytest.raises(NotFound):
        refused.result(30)
    assert notes(lab.store) == ["after", "before"]


@pytest.mark.parametrize("fault", ["exception", "statement"])
def test_a_fault_undoes_its_own_work_alone(lab: Lab, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(tx: Tx) -> None:
        note(tx, "mine")
        if fault == "exception":
            raise RuntimeError("a fault")
        tx.connection.execute(sa.text("SELECT nonsense"))

    with busy(lab.store):
        before = lab.store.submit(partial(note, name="before"))
        failed = lab.store.submit(fail)
        after = lab.store.submit(partial(note, name="after"))
    with pytest.raises(RuntimeError if fault == "exception" else Unavailable):
        failed.result(30)
    assert (before.result(30), after.result(30)) == ("before", "after")
    assert notes(lab.store) == ["after", "before"]
    assert ("a write failed" in caplog.text) is (fault == "exception")


def test_a_submission_after_a_fault_has_the_next_number(lab: Lab) -> None:
    """Numbers have no gaps: what was undone gave its number back."""

    def fail(tx: Tx) -> None:
        submit(tx, Submission(spec=job_spec(), principal="me", key="k", body=b""))
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError):
        lab.store.write(fail)
    assert lab.submit() == ["run1"]


def test_all_that_was_accepted_before_the_stop_is_written(lab: Lab) -> None:
    store = Store(lab.url)
    with busy(store):
        futures = [store.submit(partial(note, name=f"n{index}")) for index in range(50)]
        stopping = threading.Thread(target=store.close)
        stopping.start()
    stopping.join(30)
    assert [future.result(0) for future in futures] == [f"n{index}" for index in range(50)]
    assert len(notes(lab.store)) == 50


def test_what_comes_after_the_stop_is_refused(lab: Lab) -> None:
    store = Store(lab.url)
    store.close()
    with pytest.raises(Unavailable, match="stopping") as refused:
        store.submit(partial(note, name="late"))
    assert refused.value.retryable


def test_everyone_who_was_not_refused_is_answered(tmp_path: Path) -> None:
    """Whatever the moment of the stop: no caller waits for ever."""
    for attempt in range(8):
        store = Store(sqlite_url(tmp_path / f"{attempt}.db"))
        accepted: list[Future[str]] = []

        def ask(store: Store = store, accepted: list[Future[str]] = accepted) -> None:
            try:
                for index in range(1000):
                    accepted.append(store.submit(partial(note, name=f"{index}")))
            except Unavailable:
                pass

        asking = threading.Thread(target=ask)
        asking.start()
        store.close()
        asking.join(30)
        assert [future.result(10) for future in accepted] == [str(index) for index in range(len(accepted))]


def test_who_gives_up_before_its_turn_has_written_nothing(lab: Lab) -> None:
    with busy(lab.store):
        given_up = lab.store.submit(partial(note, name="given up"))
        stays = lab.store.submit(partial(note, name="stays"))
        assert given_up.cancel()
    assert stays.result(30) == "stays"
    with pytest.raises(CancelledError):
        given_up.result(0)
    assert notes(lab.store) == ["stays"]


def test_who_gives_up_too_late_harms_nobody(lab: Lab) -> None:
    """Its work was done, and the writer goes on."""
    free, begun = threading.Event(), threading.Event()

    def slow(tx: Tx) -> str:
        begun.set()
        free.wait(30)
        return note(tx, "slow")

    future = lab.store.submit(slow)
    begun.wait(30)
    assert not future.cancel()
    free.set()
    assert future.result(30) == "slow"
    assert lab.store.write(partial(note, name="next")) == "next"


# Telling others


def test_those_who_wait_are_told_what_changed(lab: Lab, tmp_path: Path) -> None:
    told: list[frozenset[str]] = []
    committed = threading.Event()

    def tell(topics: frozenset[str]) -> None:
        told.append(topics)
        committed.set()

    store = Store(lab.url, on_commit=tell)
    order = Submission(spec=job_spec(target="box"), principal="me", key="k", body=b"")
    store.write(lambda tx: submit(tx, order))
    assert committed.wait(30)
    store.write(partial(note, name="nothing to tell"))
    store.close()
    assert told == [frozenset({"queue:box", "job:1", "runs"})]


def test_a_listener_that_fails_does_not_end_the_writing(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    def fail(topics: frozenset[str]) -> None:
        raise RuntimeError("the event loop is closed")

    store = Store(lab.url, on_commit=fail)
    for index in range(2):
        order = Submission(spec=job_spec(), principal="me", key=str(index), body=b"")
        store.write(lambda tx, order=order: submit(tx, order))  # type: ignore[misc]
    store.close()
    assert "nobody was told" in caplog.text


# Trouble with the database


def test_a_full_disk_is_an_answer_and_passes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    engine = open_engine(sqlite_url(tmp_path / "full.db"), writer=True)
    prepare(engine, backup_dir=None)
    writer = Writer(engine)
    writer.start()

    def limit(tx: Tx, pages: int) -> int:
        return int(tx.connection.execute(sa.text(f"PRAGMA max_page_count={pages}")).scalar_one())

    def send(tx: Tx, key: str) -> dict[str, object]:
        spec = job_spec(*((f"./{'x' * 200}", str(index)) for index in range(300)))
        return submit(tx, Submission(spec=spec, principal="me", key=key, body=b""))

    pages = writer.write(partial(limit, pages=1))  # as small as what is there
    with pytest.raises(Unavailable, match="full") as refused:
        writer.write(partial(send, key="first"))
    assert "free disk space" in refused.value.hint and refused.value.retryable
    with pytest.raises(Unavailable):
        writer.write(partial(send, key="second"))
    writer.write(partial(limit, pages=pages + 10_000))
    assert writer.write(partial(send, key="second"))["job"] == "job1"
    writer.stop()
    with engine.connect() as connection:
        assert connection.execute(sa.text("PRAGMA integrity_check")).scalar() == "ok"
        assert connection.execute(sa.select(sa.func.count()).select_from(schema.runs)).scalar() == 300
    engine.dispose()
    assert caplog.text == ""


def test_a_full_disk_refuses_only_what_does_not_fit(tmp_path: Path) -> None:
    """Small things may still be written together with a large one that is refused."""
    store = Store(sqlite_url(tmp_path / "full.db"))
    store.write(lambda tx: tx.connection.execute(sa.text("PRAGMA max_page_count=1")).scalar())
    with busy(store):
        small = store.submit(partial(note, name="small"))
        large = store.submit(partial(note, name="x" * 1_000_000))
    assert small.result(30) == "small"
    with pytest.raises(Unavailable):
        large.result(30)
    assert notes(store) == ["small"]
    store.close()


def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"no/such/dir.*cannot be opened"):
        Store(sqlite_url(tmp_path / "no" / "such" / "dir" / "x.db"))
    with pytest.raises(Unavailable, match="cannot be opened"):
        Store(f"postgresql://nobody@/nothing?host={tmp_path}")


def test_what_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary" * 1000)
    with pytest.raises(Unavailable, match="not a database"):
        Store(sqlite_url(tmp_path / "notes.txt"))
    assert (tmp_path / "notes.txt").read_text() == "dear diary" * 1000


def test_after_a_lost_connection_the_store_goes_on(postgres_url: str) -> None:
    """PostgreSQL is started anew; what is asked for after that works."""
    lab = Lab(Store(shared_database(postgres_url)), "")
    lab.clear()
    lab.submit()
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    with lab.store.read() as connection:
        connection.execute(sa.text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
    assert lab.submit() == ["run2"]
    assert lab.states("run1", "run2") == ["queued", "queued"]
    lab.store.close()


def test_reading_never_waits_for_writing(lab: Lab) -> None:
    lab.submit()
    begun, free = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        note(tx, "slow")
        begun.set()
        free.wait(30)

    writing = lab.store.submit(slow)
    assert begun.wait(30)
    assert lab.states("run1") == ["queued"] and "slow" not in notes(lab.store)
    free.set()
    writing.result(30)
    assert "slow" in notes(lab.store)


def test_a_read_cannot_write(tmp_path: Path) -> None:
    store = Store(sqlite_url(tmp_path / "x.db"))
    with store.read() as connection, pytest.raises(sa.exc.OperationalError, match="readonly"):
        connection.execute(schema.counters.insert(), {"name": "x", "value": 1})
    store.close()
