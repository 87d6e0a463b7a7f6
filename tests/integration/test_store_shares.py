"""Named shares: changed in one step, no upload lost to another, nothing that is referred to swept away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.blobs import BlobStore
from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.hub.shares import Shares
from turnout.hub.snapshots import Snapshots
from turnout.hub.sweeping import Sweeper
from turnout.model.inputs import Action, Input
from turnout.store.shares import delete_share, set_share
from turnout.wire import manifest
from turnout.wire.manifest import Entry, digest_of


class Depot:
    """A hub's shares, and what clients do with them."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.blobs = BlobStore(directory)
        self.shares = Shares(lab.store, self.blobs)
        self._sweeper = Sweeper(lab.store, self.blobs, directory, "home")

    def upload(self, share: str, **files: str) -> str:
        """Files by name and content; the share's manifest then."""
        entries = [Entry(name, 0o644, len(text), digest_of(text.encode())) for name, text in files.items()]
        listing = manifest.encode(entries)
        contents = [*(text.encode() for text in files.values()), listing]
        self.blobs.put_many([(digest_of(content), content) for content in contents])
        return self.shares.add(share, digest_of(listing)).manifest

    def paths(self, digest: str) -> list[str]:
        return sorted(entry.path for entry in Snapshots(self.blobs).entries(digest))

    def is_whole(self, digest: str) -> bool:
        return Snapshots(self.blobs).absent([digest]) == []

    def sweep(self) -> None:
        self._sweeper.sweep(older_than=0.0)


@pytest.fixture
def depot(lab: Lab, tmp_path: Path) -> Depot:
    return Depot(lab, tmp_path / "blobs")


def test_an_upload_is_merged_and_the_old_manifest_is_still_what_it_was(depot: Depot) -> None:
    old = depot.upload("pets", a="1", b="2")
    new = depot.upload("pets", b="3", c="4")
    assert depot.paths(old) == ["a", "b"] and depot.paths(new) == ["a", "b", "c"]
    found = depot.shares.find("pets")
    assert (found.manifest, found.files, found.bytes) == (new, 3, 3)
    assert found.updated >= found.created


def test_uploads_at_the_same_time_are_all_in_it(depot: Depot) -> None:
    threads = [threading.Thread(target=depot.upload, args=("pets",), kwargs={f"f{n}": str(n)}) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert depot.paths(depot.shares.find("pets").manifest) == sorted(f"f{n}" for n in range(12))


def test_a_change_is_refused_when_somebody_else_came_first(depot: Depot) -> None:
    old = depot.upload("pets", a="1")
    new = depot.upload("pets", b="2")
    write = depot.lab.store.write
    assert not write(lambda tx: set_share(tx, "pets", old, files=1, size=1, instead_of=old))
    assert not write(lambda tx: set_share(tx, "pets", old, files=1, size=1, instead_of=None))
    assert depot.shares.find("pets").manifest == new
    assert write(lambda tx: delete_share(tx, "pets")) and not write(lambda tx: delete_share(tx, "pets"))


def test_a_part_of_a_share_is_a_manifest_of_its_own(depot: Depot) -> None:
    entries = [Entry(path, 0o644, 1, digest_of(b"x")) for path in ("a/b/c", "a/d", "e")]
    entries.append(manifest.link_entry("a/out", "../e"))
    listing = manifest.encode(entries)
    depot.blobs.put_many([(digest_of(b"x"), b"x"), (digest_of(listing), listing)])
    depot.shares.add("pets", digest_of(listing))
    assert depot.paths(depot.shares.bind("pets", "a/b")["manifest"]) == ["c"]
    assert depot.paths(depot.shares.bind("pets", "e")["manifest"]) == ["e"]
    assert depot.shares.bind("pets", "")["files"] == 4
    with pytest.raises(InvalidInput, match="cannot stand alone"):
        depot.shares.bind("pets", "a")
    with pytest.raises(NotFound, match="no 'a/z' in share 'pets'"):
        depot.shares.bind("pets", "a/z")
    with pytest.raises(NotFound, match="no share 'dogs'"):
        depot.shares.bind("dogs", "")


def test_what_is_not_all_here_cannot_be_shared(depot: Depot) -> None:
    listing = manifest.encode([Entry("a", 0o644, 1, digest_of(b"never sent"))])
    depot.blobs.put_many([(digest_of(listing), listing)])
    with pytest.raises(Conflict, match="not all here"):
        depot.shares.add("pets", digest_of(listing))
    assert depot.shares.all() == []


def test_nothing_that_a_share_or_a_job_refers_to_is_swept_away(depot: Depot) -> None:
    bound = depot.upload("pets", a="first", b="second")
    read = Input(action=Action.MOUNT, share="pets", manifest=bound)
    depot.lab.submit(data=read)
    weights = depot.upload("nets", w="weights")
    depot.lab.submit(model=Input(action=Action.DOWNLOAD, share="nets", manifest=weights))
    now = depot.upload("pets", a="changed")
    lost = depot.upload("gone", z="nobody's")
    for name in ("nets", "gone"):
        depot.lab.store.write(lambda tx, name=name: delete_share(tx, name))  # type: ignore[misc]
    depot.sweep()
    assert depot.is_whole(bound) and depot.is_whole(weights) and depot.is_whole(now)
    assert not depot.is_whole(lost)
