"""Blobs that nothing refers to are removed after a day; nothing else ever is, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import turnout
from tests.harness import wait_until
from tests.integration.storing import Lab, captured, ended, running
from tests.integration.storing import lab as lab
from turnout.blobs import BlobStore
from turnout.errors import TurnoutError
from turnout.hub.snapshots import Snapshots
from turnout.hub.sweeping import DAY, Sweeper
from turnout.wire import manifest
from turnout.wire.manifest import Entry, digest_of

AT_ONCE = 0.0
LARGE = b"large" * 40_000


@dataclass
class Shelf:
    """A hub's store and blobs, and what clients and agents do with them."""

    lab: Lab
    blobs: BlobStore
    directory: Path

    def sweeper(self, database: str = "home") -> Sweeper:
        return Sweeper(self.lab.store, self.blobs, self.directory, database)

    def upload(self, *contents: bytes) -> str:
        """A snapshot of files with these contents; the digest of its manifest."""
        return self.put(*contents, self.manifest(*contents))[-1]

    def manifest(self, *contents: bytes) -> bytes:
        entries = [Entry(f"file{n}", 0o644, len(each), digest_of(each)) for n, each in enumerate(contents)]
        return manifest.encode(entries)

    def put(self, *contents: bytes) -> list[str]:
        digests = [digest_of(content) for content in contents]
        self.blobs.put_many(zip(digests, contents, strict=True))
        return digests

    def is_whole(self, snapshot: str) -> bool:
        return Snapshots(self.blobs).absent([snapshot]) == []


@pytest.fixture
def shelf(lab: Lab, tmp_path: Path) -> Shelf:
    return Shelf(lab, BlobStore(tmp_path / "blobs"), tmp_path / "blobs")


def test_what_jobs_were_given_and_runs_left_is_kept_and_the_rest_goes(shelf: Shelf) -> None:
    given, left = shelf.upload(b"train", LARGE), shelf.upload(b"model", b"train")
    shelf.upload(b"never submitted", LARGE + b"1")
    agent, grant = shelf.lab.started(before=given)
    agent.tell(running(grant), ended(grant), captured(grant, manifest=left))
    removed = shelf.sweeper().sweep(older_than=AT_ONCE)
    assert removed is not None and removed.blobs == 3
    assert shelf.is_whole(given) and shelf.is_whole(left)
    assert shelf.blobs.usage().blobs == 5


def test_nothing_goes_that_was_sent_or_asked_for_within_a_day(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, unasked = shelf.put(b"asked for", b"not asked for")
    sweeper, began = shelf.sweeper(), time.time()

    def sweep_at(now: float) -> int:
        monkeypatch.setattr("turnout.blobs.store.time.time", lambda: now)
        removed = sweeper.sweep()
        assert removed is not None
        return removed.blobs

    assert sweep_at(began) == 0
    assert sweep_at(began + DAY - 1) == 0
    shelf.blobs.missing([asked])
    assert sweep_at(began + DAY) == 1
    assert shelf.blobs.missing([asked, unasked]) == [unasked]


def test_a_file_that_happens_to_be_a_manifest_hides_nothing(shelf: Shelf) -> None:
    """One snapshot has the list of files of another one among its files; what that names is kept all the same."""
    other = shelf.upload(b"a file")
    holder = shelf.upload(shelf.blobs.read(other))
    shelf.lab.submit(before=other)
    shelf.lab.submit(before=holder)  # newer, so it is looked at first
    removed = shelf.sweeper().sweep(older_than=AT_ONCE)
    assert removed is not None and removed.blobs == 0
    assert shelf.is_whole(other)


def test_all_of_many_pages_are_looked_at(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.hub.sweeping._PAGE", 2)
    snapshots = [shelf.upload(b"file %d" % number) for number in range(5)]
    for snapshot in snapshots:
        shelf.lab.submit(before=snapshot)
        shelf.lab.submit()
    shelf.sweeper().sweep(older_than=AT_ONCE)
    assert all(map(shelf.is_whole, snapshots))


def test_while_a_snapshot_cannot_be_read_nothing_goes(shelf: Shelf) -> None:
    """Nobody can tell which files were its own, and they heal when it is submitted again."""
    shelf.lab.submit(before="d" * 64)
    (unwanted,) = shelf.put(b"unwanted")
    with pytest.raises(TurnoutError, match="job1"):
        shelf.sweeper().sweep(older_than=AT_ONCE)
    assert shelf.blobs.missing([unwanted]) == []


def test_blobs_that_were_used_with_two_databases_stay(shelf: Shelf) -> None:
    """Each knows only its own snapshots."""
    (foreign,) = shelf.put(b"of a job in the other database")
    shelf.sweeper("home")
    for database in ("elsewhere", "home"):
        with pytest.raises(TurnoutError, match="several databases"):
            shelf.sweeper(database).sweep(older_than=AT_ONCE)
    assert shelf.blobs.missing([foreign]) == []


def test_it_happens_once_a_day(shelf: Shelf) -> None:
    shelf.put(b"unwanted")
    marks, stamp = shelf.directory / "unwanted", shelf.directory / "swept"
    first = shelf.sweeper()
    first.start_if_due()
    wait_until(stamp.exists, 20.0)
    first.stop()
    assert marks.exists()
    marks.unlink()
    for when, is_due in ((time.time(), False), (time.time() - DAY - 1, True), (time.time() + DAY, True)):
        stamp.write_text(str(when))
        sweeper = shelf.sweeper()
        sweeper.start_if_due()
        sweeper.stop()
        assert (sweeper._thread is not None) is is_due


def test_submissions_at_the_same_time_lose_nothing(shelf: Shelf) -> None:
    """Files come and go and come again in new snapshots while one sweep follows the other. Unwanted ones are old after
    a second here, so that many go; those of a job that was accepted never do."""
    rng = random.Random(7)
    snapshots = Snapshots(shelf.blobs)
    stop, accepted, wrong = threading.Event(), list[str](), list[BaseException]()
    refused = removed = 0

    def submit() -> None:
        nonlocal refused
        while not stop.is_set():
            files = [b"content %d" % rng.randrange(200) for _ in range(3)]
            shelf.put(*files)
            stop.wait(rng.choice((0.02, 0.02, 1.3)))  # some are slow: the last file comes when the first is old
            if rng.random() < 0.6:  # somebody who changed their mind
                continue
            (snapshot,) = shelf.put(shelf.manifest(*files))
            while snapshots.absent([snapshot]):
                refused += 1
                shelf.upload(*files)
            shelf.lab.submit(before=snapshot)
            accepted.append(snapshot)

    def sweep() -> None:
        nonlocal removed
        while not stop.is_set():
            found = shelf.sweeper().sweep(older_than=1.0)
            removed += found.blobs if found is not None else 0

    def guarded(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            wrong.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (*[submit] * 6, sweep)]
    for thread in threads:
        thread.start()
    stop.wait(4.0)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not wrong, wrong
    assert len(accepted) > 10 and removed > 10 and refused
    again = BlobStore(shelf.directory)
    assert Snapshots(again).absent(accepted) == []
    assert again.check() == []


KILLED = """
import os, shutil, signal, sys
from turnout.blobs import BlobStore, packs
from turnout.wire.manifest import digest_of
packs.PACK_BYTES = 4000
source, copy = sys.argv[1:]
contents = [b"%d" % n * 400 for n in range(10)] + [b"large%d" % n * 20_000 for n in range(2)]
store = BlobStore(source)
for content in contents:
    store.put_many([(digest_of(content), content)])
store.close()
store.put_many([(digest_of(b"new"), b"new")])
keep = {digest_of(content) for content in contents[::3]}

def sweep_until(count):
    seen = set()
    def trace(frame, event, arg):
        place = frame.f_code.co_filename, frame.f_lineno
        if "/turnout/blobs/" in place[0] and event == "line":
            seen.add((*place, place in seen))
            seen.add(place)
            if sum(len(each) == 3 for each in seen) == count:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    store = BlobStore(copy)
    sys.settrace(trace)
    store.gc(keep, 0.0, now=0.0)
    sys.settrace(None)
    os._exit(0)

line, status = 0, 1
while status:
    line += 1
    shutil.copytree(source, copy)
    child = os.fork() or sweep_until(line)
    status = os.waitpid(child, 0)[1]
    store = BlobStore(copy)
    assert store.missing(keep) == [], line
    assert [digest for digest in keep if digest_of(store.read(digest)) != digest] == [], line
    store.gc(keep, 0.0, now=1.0)
    assert store.usage().blobs == len(keep) and BlobStore(copy).missing(keep) == [], line
    shutil.rmtree(copy)
print(line)
"""


def test_a_sweep_killed_at_any_line_loses_nothing(tmp_path: Path) -> None:
    """Killed with -9 at each line of the code that removes, the first and the second time it comes there; the next one
    finishes what it began."""
    environment = {**os.environ, "PYTHONPATH": str(Path(turnout.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "source"), str(tmp_path / "copy")],
        env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150
