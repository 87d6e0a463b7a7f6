"""Things that are killed with -9 at one line after the other: ``python -m tests.faults.deaths SCENARIO DIRECTORY``.

Each scenario is prepared once. Then, for many moments spread over the whole of it, it is done in a child process on a
copy of what was prepared, and killed as it comes to a line for the first or the second time. `check` looks at what is
left, and does it again. A process of its own, because a test's has threads, and this one forks.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, ClassVar

from tests.integration.storing import Lab
from tests.integration.test_archived_tables import life, rows_of
from turnout.agent.shelf import Shelf
from turnout.blobs import BlobStore
from turnout.client import archive as receiving
from turnout.client import shares as downloading
from turnout.config.by_path import ByPath
from turnout.config.by_path import digest_of as code_digest
from turnout.engine.hosts import Hosts
from turnout.home import Home
from turnout.hub import archives
from turnout.hub.blobs import send_pack
from turnout.hub.shares import Shares
from turnout.hub.snapshots import Snapshots
from turnout.snapshot.laying import lay_out
from turnout.store import deletion, shares
from turnout.store.database import sqlite_url
from turnout.store.requests import once
from turnout.store.store import Store
from turnout.wire import archive, manifest
from turnout.wire.manifest import Entry, digest_of

LARGE = b"large" * 40_000
KEY = "key-of-a-request"
LAST = 8
"""lines before the end at each of which it is killed: that is where things are put in place"""


class Scenario(ABC):
    """`work` is what dies; `parts` are the places in the code where it does."""

    parts: ClassVar[tuple[str, ...]]

    @abstractmethod
    def prepare(self, directory: Path) -> None: ...
    @abstractmethod
    def work(self, directory: Path) -> object: ...
    @abstractmethod
    def check(self, directory: Path) -> None:
        """Also that it can be done again, and is then done."""


class Hub:
    """A hub's store and blobs; ``with`` closes them, so that nothing of it is in the way of the next fork."""

    def __init__(self, directory: Path) -> None:
        self.url = sqlite_url(directory / "turnout.db")
        self.store = Store(self.url)
        self.blobs = BlobStore(directory / "blobs")
        self.lab = Lab(self.store, self.url)

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.blobs.close()

    def upload(self, *contents: bytes) -> str:
        """A snapshot of files with these contents."""
        listing = listing_of(*contents)
        self.blobs.put_many([(digest_of(content), content) for content in (*contents, listing)])
        return digest_of(listing)


def entries_of(*contents: bytes) -> list[Entry]:
    return [Entry(f"file{n}", 0o644, len(each), digest_of(each)) for n, each in enumerate(contents)]


def listing_of(*contents: bytes) -> bytes:
    return manifest.encode(entries_of(*contents))


def exported(hub: Hub, workspace: str = "lab") -> bytes:
    wanted = archives.ExportRequest(workspace=workspace)
    plan = archives._plan(hub.store, hub.blobs, Snapshots(hub.blobs), wanted)
    return b"".join(archives._write(hub.store, hub.blobs, plan))


class Import(Scenario):
    parts = (
        "hub/archives.py", "hub/staging.py", "store/importing.py", "store/requests.py", "store/writer.py",
        "turnout/blobs/",
    )  # fmt: skip

    def prepare(self, directory: Path) -> None:
        (directory / "past").mkdir()
        with Hub(directory / "past") as hub:
            life(hub.lab)
            hub.lab.submit(("with files",), workspace="lab", before=hub.upload(b"train", LARGE))
            agent = hub.lab.agent()
            for grant in agent.take():
                agent.run(grant)
            (directory / "archive").write_bytes(exported(hub))
            self.rows = {table: len(rows) for table, rows in rows_of(hub.lab, "lab").items()}
        shutil.rmtree(directory / "past")
        with Hub(directory):
            pass

    def work(self, directory: Path) -> dict[str, Any]:
        with Hub(directory) as hub, open(directory / "archive", "rb") as file:
            return archives._Incoming(hub.store, hub.blobs, Snapshots(hub.blobs), None, "", False, KEY).take(file)

    def check(self, directory: Path) -> None:
        with Hub(directory) as hub:
            found = {table: len(rows) for table, rows in rows_of(hub.lab, "lab").items()}
            assert found in (self.rows, dict.fromkeys(self.rows, 0)), found
        assert self.work(directory)["imported"], "whoever lost the answer asks again, and is told the same"
        with Hub(directory) as hub:
            assert {table: len(rows) for table, rows in rows_of(hub.lab, "lab").items()} == self.rows
            assert hub.blobs.check() == [] and hub.blobs.missing([digest_of(LARGE), digest_of(b"train")]) == []


class Delete(Scenario):
    parts = ("store/deletion.py", "store/requests.py", "store/writer.py", "store/roomy.py")

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            life(hub.lab)
            self.doomed, self.kept = rows_of(hub.lab, "lab"), rows_of(hub.lab, "elsewhere")

    def work(self, directory: Path) -> dict[str, Any]:
        wanted = deletion.Wanted(workspace="lab")
        with Hub(directory) as hub:
            return hub.store.write(
                lambda tx: once(tx, KEY, "delete", lambda: {"runs": len(deletion.delete(tx, wanted).runs)})
            )

    def check(self, directory: Path) -> None:
        with Hub(directory) as hub:
            found = rows_of(hub.lab, "lab")
            assert found == self.doomed or not any(found.values()), "all, or nothing"
        runs = len(self.doomed["runs"])
        assert self.work(directory) == {"runs": runs}, "whoever lost the answer asks again, and is told the same"
        with Hub(directory) as hub:
            assert not any(rows_of(hub.lab, "lab").values()) and rows_of(hub.lab, "elsewhere") == self.kept


class AddToShare(Scenario):
    parts = ("hub/shares.py", "store/shares.py", "store/writer.py", "turnout/blobs/")

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            self.before = Shares(hub.store, hub.blobs).add("pets", hub.upload(b"cat", LARGE)).manifest
            self.upload = hub.upload(b"dog")

    def work(self, directory: Path) -> str:
        with Hub(directory) as hub:
            return Shares(hub.store, hub.blobs).add("pets", self.upload).manifest

    def check(self, directory: Path) -> None:
        after = digest_of(listing_of(b"dog", LARGE))
        with Hub(directory) as hub, hub.store.read() as connection:
            share = shares.find_share(connection, "pets")
            assert share is not None and share.manifest in (self.before, after), "the old one until it is the new one"
            assert Snapshots(hub.blobs).absent([share.manifest]) == []
        assert self.work(directory) == after


class Download(Scenario):
    parts = ("client/shares.py", "client/filling.py", "wire/restore.py", "wire/pack.py")

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            hub.upload(b"cat", LARGE)

    def work(self, directory: Path) -> dict[str, Any]:
        blobs = BlobStore(directory / "blobs")

        class Line:
            def open_blobs(self, digests: Sequence[str]) -> BinaryIO:
                return io.BytesIO(b"".join(send_pack(blobs, list(digests))))

        return downloading.write(Line(), entries_of(b"cat", LARGE), directory / "out")

    def check(self, directory: Path) -> None:
        out = directory / "out"
        if not out.exists():
            self.work(directory)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == {"file0": b"cat", "file1": LARGE}


class Export(Scenario):
    parts = ("client/archive.py", "client/appearing.py", "wire/archive.py")

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            life(hub.lab)
            (directory / "coming").write_bytes(exported(hub))
        self.head = self._head(directory / "coming")

    def work(self, directory: Path) -> dict[str, Any]:
        with open(directory / "coming", "rb") as stream:
            return receiving.receive(_Answer(stream), directory / "lab.turnout", lambda done, total: None)

    def check(self, directory: Path) -> None:
        file = directory / "lab.turnout"
        if not file.exists():
            self.work(directory)
        assert self._head(file) == self.head, "it is there whole, or not at all"
        assert not list(directory.glob(".*")), "and nothing else is"

    @staticmethod
    def _head(file: Path) -> dict[str, Any]:
        with open(file, "rb") as stream:
            return archive.check(stream).head


class KeepCode(Scenario):
    """The code of a provider is kept with the job that was submitted with it."""

    parts = ("engine/hosts.py", "turnout/home.py", "shutil.py")

    def prepare(self, directory: Path) -> None:
        (directory / "own").mkdir()
        for name in ("places.py", "helpers.py"):
            (directory / "own" / name).write_text(f"what = {name!r}\n")

    def work(self, directory: Path) -> None:
        package = directory / "own"
        code = ByPath(
            path="own.places.Yard", project=str(directory), python_path=(str(directory),), digest=code_digest(package),
            package=str(package),
        )  # fmt: skip
        Hosts(Home(directory / "home"))._freeze("here", code)

    def check(self, directory: Path) -> None:
        kept = directory / "home" / "plugins" / "code" / code_digest(directory / "own")
        if kept.is_dir():
            assert code_digest(kept / "own") == kept.name, "it is there whole, or not at all"
        self.work(directory)
        assert code_digest(kept / "own") == kept.name
        Hosts(Home(directory / "home")).keep(["here"])
        assert [each.name for each in kept.parent.iterdir()] == [kept.name], "and nothing else stays"


class LayOut(Scenario):
    """The files of a job, for a provider that launches its runs."""

    parts = ("snapshot/laying.py", "wire/restore.py", "turnout/blobs/")

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            self.snapshot = hub.upload(b"cat", LARGE)

    def work(self, directory: Path) -> None:
        lay_out(BlobStore(directory / "blobs"), self.snapshot, directory / "job" / "files")

    def check(self, directory: Path) -> None:
        files = directory / "job" / "files"
        for _ in range(2):
            if files.exists():
                assert {path.name: path.read_bytes() for path in files.iterdir()} == {"file0": b"cat", "file1": LARGE}
            self.work(directory)


class _Answer:
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream


class Shelve(Scenario):
    parts = ("agent/shelf.py", "faults/deaths.py")

    def prepare(self, directory: Path) -> None:
        (directory / "run").mkdir()

    def work(self, directory: Path) -> bool:
        def make(thing: str, lock: int) -> int:
            os.mkdir(thing)
            for name in ("one", "two", "three"):
                Path(thing, name).write_text("all of it")
            return 27

        shelf = Shelf(str(directory / "shelf"))
        whole = lambda path, made: True  # noqa: E731
        got = shelf.get("key", str(directory / "run"), make, is_wanted=lambda: True, is_whole=whole)
        found = {path.name: path.read_text() for path in Path(got.path).iterdir()}
        assert found == dict.fromkeys(("one", "two", "three"), "all of it"), "nothing half made is given out"
        (directory / "run").rmdir()
        return shelf.drop_oldest()

    def check(self, directory: Path) -> None:
        (directory / "run").mkdir(exist_ok=True)
        assert self.work(directory), "and what nobody uses can go"


SCENARIOS: dict[str, type[Scenario]] = {
    "import": Import, "delete": Delete, "share": AddToShare, "download": Download, "export": Export, "shelf": Shelve,
    "code": KeepCode, "layout": LayOut,
}  # fmt: skip


class Trace:
    """Counts the first and the second coming to each line of `parts`, in all threads; kills at the `last`."""

    def __init__(self, parts: tuple[str, ...], last: float) -> None:
        self._parts = parts
        self._last = last
        self._seen: dict[tuple[str, int], int] = {}
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if not any(part in place[0] for part in self._parts):
            return None
        if event == "line":
            self._seen[place] = self._seen.get(place, 0) + 1
            self.count += self._seen[place] <= 2
            if self.count >= self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def die(scenario: Scenario, directory: Path, last: float) -> int:
    """Does it in a child that is killed at the `last` line; how many lines there were, 0 if it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        trace = Trace(scenario.parts, last)
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            scenario.work(directory)
        except BaseException as error:
            sys.settrace(None)
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(1)
        sys.settrace(None)
        os.write(write, str(trace.count).encode())
        os._exit(0)
    os.close(write)
    status = os.waitpid(child, 0)[1]
    with open(read, "rb") as pipe:
        told = pipe.read()
    assert told or os.WTERMSIG(status) == signal.SIGKILL, f"line {last}: it failed by itself"
    return int(told or 0)


def main(name: str, root: Path, moments: int) -> None:
    scenario = SCENARIOS[name]()
    source, copy = root / "source", root / "copy"
    source.mkdir()
    scenario.prepare(source)
    shutil.copytree(source, copy)
    total = die(scenario, copy, float("inf"))
    scenario.check(copy)
    shutil.rmtree(copy)
    killed = 0
    spread = (1 + total * moment // moments for moment in range(moments))
    for last in dict.fromkeys((*spread, *range(total - LAST, total + 1))):
        shutil.copytree(source, copy)
        killed += die(scenario, copy, last) == 0
        try:
            scenario.check(copy)
        except BaseException:
            print(f"after a death at line {last} of {total}", file=sys.stderr)
            raise
        shutil.rmtree(copy)
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
