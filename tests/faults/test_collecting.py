"""Files are removed while others are sent, submitted, imported, deleted: what something accepted needs never goes."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import random
import signal
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.deaths import Hub, exported, listing_of
from tests.faults.scene import Scene, fill, kill
from tests.harness import wait_until
from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.blobs import BlobStore
from turnout.blobs.marks import Marks
from turnout.blobs.recent import Recent
from turnout.errors import Conflict, InvalidInput, NotFound, Unavailable
from turnout.hub.archives import _Incoming
from turnout.hub.shares import Shares
from turnout.hub.snapshots import Snapshots
from turnout.hub.sweeping import Sweeper
from turnout.store import deletion
from turnout.store.database import open_engine, sqlite_url
from turnout.store.snapshots import Kind, references
from turnout.store.tidying import tidy
from turnout.wire import manifest
from turnout.wire.manifest import digest_of

HOUR = 3600.0
DONE = "UPDATE runs SET state = 'completed'"


@dataclass
class Busy:
    """Everybody at once on one hub, for a while. `wrong` is what nobody may see."""

    lab: Lab
    blobs: BlobStore
    directory: Path
    archive: Callable[[int], bytes]
    stop: threading.Event = field(default_factory=threading.Event)
    wrong: list[BaseException] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def files(self, rng: random.Random) -> list[bytes]:
        return [b"content %d" % rng.randrange(120) for _ in range(3)]

    def upload(self, contents: list[bytes]) -> str:
        listing = listing_of(*contents)
        wanted = {digest_of(content): content for content in (*contents, listing)}
        absent = self.blobs.missing(wanted)
        self.blobs.put_many([(digest, wanted[digest]) for digest in absent])
        return digest_of(listing)

    def submit(self, rng: random.Random) -> None:
        snapshot = self.upload(self.files(rng))
        if rng.random() < 0.4:
            return  # somebody who changed their mind
        if self.snapshots.absent([snapshot]):
            self.count("told to send again")
            return
        self.lab.submit(before=snapshot, workspace=f"w{rng.randrange(3)}")
        self.count("submitted")

    def share(self, rng: random.Random) -> None:
        shares, name = Shares(self.lab.store, self.blobs), f"share{rng.randrange(3)}"
        try:
            shares.add(name, self.upload(self.files(rng)))
            bound = str(shares.bind(name, "")["manifest"])
            if not self.snapshots.absent([bound]):
                self.lab.submit(before=bound, workspace="w0")
            self.count("shared")
        except (Conflict, Unavailable, NotFound):
            self.count("told to send again")

    def take_in(self, rng: random.Random) -> None:
        blobs = self.blobs
        incoming = _Incoming(self.lab.store, blobs, self.snapshots, f"w{rng.randrange(3)}", "", False)
        try:
            incoming.take(io.BytesIO(self.archive(rng.randrange(1000))))
            self.count("imported")
        except (Conflict, InvalidInput):
            self.count("not imported")

    def delete(self, rng: random.Random) -> None:
        self.stop.wait(0.2)
        self.lab.store.write(lambda tx: tx.connection.exec_driver_sql(DONE))
        try:
            wanted = deletion.Wanted(workspace=f"w{rng.randrange(3)}")
            self.lab.store.write(lambda tx: deletion.delete(tx, wanted))
            self.count("deleted")
        except (Conflict, NotFound):
            pass

    def collect(self, rng: random.Random) -> None:
        removed = Sweeper(self.lab.store, self.blobs, self.directory, "home").collect().removed
        self.count("removed", removed.blobs)

    def __post_init__(self) -> None:
        self.snapshots = Snapshots(self.blobs)

    def count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def check(self) -> None:
        """Every snapshot that the store refers to now is whole."""
        for kind in Kind:
            with self.lab.store.read() as connection:
                found = references(connection, kind, count=10**6).references
            for reference in found:
                for digest in (reference.manifest, *self._named(reference.manifest)):
                    assert digest_of(self.blobs.read(digest)) == digest, reference

    def _named(self, snapshot: str) -> list[str]:
        return [entry.digest for entry in manifest.decode(self.blobs.read(snapshot))]

    def run(self, seconds: float) -> None:
        works = [self.submit, self.submit, self.share, self.take_in, self.delete, self.collect]
        threads = [threading.Thread(target=self._repeat, args=(work, seed)) for seed, work in enumerate(works)]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        self.stop.set()
        for thread in threads:
            thread.join(30)

    def _repeat(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not self.stop.is_set():
                work(rng)
        except BaseException as error:
            self.wrong.append(error)
            self.stop.set()


def test_everybody_at_once_and_nothing_that_is_needed_goes(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was wanted a second ago is old here, so that much goes; in truth that is an hour."""
    monkeypatch.setattr("turnout.blobs.store._RECENT_SECONDS", 1.0)
    monkeypatch.setattr("turnout.hub.snapshots._SURE_SECONDS", 1.0 / 6)
    (tmp_path / "there").mkdir()
    with Hub(tmp_path / "there") as there:
        there.lab.submit(workspace="lab", before=there.upload(b"content 7", b"content 8", b"only in the archive"))
        agent = there.lab.agent()
        for grant in agent.take():
            agent.run(grant)
        whole = exported(there)

    def archive(number: int) -> bytes:
        """The same, as if exported another time."""
        at = whole.index(b'"id": "') + 7
        return reseal(whole[:at] + b"%032d" % number + whole[at + 32 :])

    (tmp_path / "here").mkdir()
    busy = Busy(lab, BlobStore(tmp_path / "here" / "blobs"), tmp_path / "here", archive)
    busy.run(2.5)
    assert not busy.wrong, busy.wrong
    busy.check()
    assert BlobStore(tmp_path / "here" / "blobs").check() == []
    enough = {"submitted": 10, "shared": 3, "imported": 2, "deleted": 2, "removed": 10}
    assert all(busy.counts.get(what, 0) >= least for what, least in enough.items()), busy.counts


def reseal(content: bytes) -> bytes:
    """With a manifest that agrees with what is before it now."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        last = tar.getmembers()[-1]
        told = json.loads(tar.extractfile(last).read())  # type: ignore[union-attr]
    before = content[: last.offset]
    new = json.dumps({**told, "sha256": hashlib.sha256(before).hexdigest()}, indent=1).encode()
    last.size = len(new)
    return before + last.tobuf(tarfile.GNU_FORMAT) + new + bytes(-len(new) % 512) + bytes(1024)


def test_who_was_told_that_all_is_there_has_time_to_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when that was known from before, and the files are nobody's any more: a collection that read the store
    before the submission came leaves them alone."""
    now = 100.0 - HOUR
    monkeypatch.setattr("turnout.hub.snapshots.uptime", lambda: now)
    blobs = BlobStore(tmp_path)
    blobs._recent = Recent(HOUR, lambda: now)
    snapshots, contents = Snapshots(blobs), (b"train", b"x" * 200_000)
    listing = listing_of(*contents)
    now = 0.0
    blobs.put_many([(digest_of(each), each) for each in (*contents, listing)])
    for asked, collected in ((0.0, 101.0), (HOUR - 1, HOUR + 102)):
        now = asked
        assert snapshots.absent([digest_of(listing)]) == [], "whoever asks submits next"
        now = collected
        assert blobs.gc_at_once(set()).blobs == 0
    now += 3 * HOUR
    assert blobs.gc_at_once(set()).blobs == 3, "but not for ever"


def test_a_collection_that_cannot_note_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full: what can go goes all the same."""
    now = 0.0
    blobs = BlobStore(tmp_path)
    blobs._recent = Recent(HOUR, lambda: now)
    blobs.put_many([(digest_of(each), each) for each in (b"one", b"two", b"x" * 200_000)])
    now = 3 * HOUR
    blobs.put_many([(digest_of(b"lately"), b"lately")])

    def refuse(self: Marks, since: dict[str, float]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Marks, "replace", refuse)
    assert blobs.gc_at_once(set()).blobs == 3
    assert BlobStore(tmp_path).usage().blobs == 1


def test_marks_survive_a_death_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "unwanted"
    marks = Marks(str(path))
    marks.replace({digit * 64: 1.0 for digit in "abcd"})
    marks.release(["a" * 64, "f" * 64])
    before = path.stat().st_size
    marks.release(["b" * 64])
    whole = path.read_bytes()
    assert Marks(str(path)).since.keys() == {"c" * 64, "d" * 64}
    for end in range(before, len(whole)):
        path.write_bytes(whole[:end])
        again = Marks(str(path))
        assert again.since.keys() == {"b" * 64, "c" * 64, "d" * 64}, "who was not answered asks again"
        again.release(["c" * 64])
        assert Marks(str(path)).since.keys() == {"b" * 64, "d" * 64}
    for end in range(before - 70):
        path.write_bytes(whole[:end])
        assert set(Marks(str(path)).since) <= {digit * 64 for digit in "abcd"}


def test_a_collection_works_on_a_full_disk(small_disk: Path, scene: Scene) -> None:
    """It is what a person types then."""
    (scene.cli.cwd / "large.bin").write_bytes(random.Random(1).randbytes(6 << 20))
    for number in range(200):
        (scene.cli.cwd / f"small{number}").write_bytes(random.Random(number).randbytes(5000))
    run = str(scene.cli.json("run", "-d", "true")["runs"][0])
    scene.wait_for(run)
    scene.client.delete(runs=[run])
    scene.kill_hub()  # and with it what it knew of what was wanted lately
    scene.start_hub()
    fill(small_disk / "filler")
    told = scene.client.gc()
    assert told["blobs"]["blobs"] >= 201 and told["blobs"]["bytes"] > 6 << 20
    assert sum(path.stat().st_size for path in (small_disk / "blobs").rglob("*") if path.is_file()) < 1 << 20


def test_a_database_that_cannot_be_made_smaller_on_a_full_disk(
    tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no reason to fail: it stays as it is, and is made smaller when there is room."""
    monkeypatch.setattr("turnout.store.tidying._LEAST", 0)
    engine = open_engine(sqlite_url(tiny_disk / "store.db"), writer=True)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (content BLOB)")
        connection.exec_driver_sql("INSERT INTO t VALUES (randomblob(200000)), (randomblob(100000))")
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE length(content) = 200000")
    with closing(engine.raw_connection()) as raw:
        raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fill(tiny_disk / "filler")
    assert tidy(engine).freed == 0
    (tiny_disk / "filler").unlink()
    assert tidy(engine).freed > 100_000
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*), sum(length(content)) FROM t").one() == (1, 100_000)
    engine.dispose()


def test_a_share_that_is_deleted_while_a_run_reads_it(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets" / "cat").write_text("meow")
    scene.client.upload([tmp_path / "pets"], "pets")
    reader = 'while [ ! -e "$0/go" ]; do sleep 0.05; done; cat "$TURNOUT_DATA_DIR/cat"'
    run = scene.submit("--data", "pets", "bash", "-c", reader, str(scene.side))
    scene.wait_for(run, "running")
    scene.client.delete_share("pets")
    with pytest.raises(Conflict, match="not over yet"):
        scene.client.delete(runs=[run])
    scene.client.gc()
    scene.kill_hub()
    scene.client.gc()  # another hub, that nobody has asked for anything
    scene.allow("go")
    scene.wait_for(run)
    again = str(scene.client.rerun(run)["runs"][0])
    scene.wait_for(again)
    assert scene.output(run) == scene.output(again) == b"meow"


@pytest.mark.timeout(60)
def test_a_node_that_wakes_and_tells_of_a_run_that_was_deleted(scene: Scene) -> None:
    """Nobody listens, nobody is harmed, and it goes on to other work."""
    script = 'echo "$$" >> "$0/pids"; [ "$TURNOUT_ATTEMPT" = 1 ] || exit 0; while :; do echo more; sleep 0.1; done'
    run = scene.submit("bash", "-c", script, str(scene.side))
    wait_until(lambda: len(scene.pids()) == 1)
    scene.wait_for(run, "running")
    agent = scene.agent()
    kill(agent, signal.SIGSTOP)
    assert scene.wait_for(run, timeout=30.0)["attempts"] == 2
    assert scene.client.delete(runs=[run])["runs"] == 1
    kill(agent, signal.SIGCONT)
    wait_until(lambda: not scene.processes_of(run), 20.0, "what was left of it is ended")
    assert scene.ask(run) is None
    assert scene.wait_for(scene.submit("true"))["state"] == "completed"
    assert "Traceback" not in (scene.cli.home / "logs" / "hub.log").read_text()
