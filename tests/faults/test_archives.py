"""Export and import when the disk is full, and when what is exported changes meanwhile."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.faults.deaths import Hub, entries_of, exported
from tests.faults.scene import Scene, fill
from tests.integration.storing import Lab, captured, ended, output, running, staged
from tests.integration.storing import lab as lab
from tests.integration.test_archived_tables import life
from turnout.blobs import BlobStore
from turnout.errors import Conflict
from turnout.hub import archives
from turnout.hub.snapshots import Snapshots
from turnout.store import deletion
from turnout.wire import archive, manifest
from turnout.wire.manifest import digest_of

MEGABYTE = 1 << 20


def keep(blobs: BlobStore, *contents: bytes) -> str:
    listing = manifest.encode(entries_of(*contents))
    blobs.put_many([(digest_of(content), content) for content in (*contents, listing)])
    return digest_of(listing)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An archive of five megabytes, half of them output and half files, made by another hub."""
    (tmp_path / "there").mkdir()
    with Hub(tmp_path / "there") as hub:
        hub.lab.submit(workspace="lab", before=hub.upload(os.urandom(5 * MEGABYTE // 2), b"small"))
        agent = hub.lab.agent()
        (grant,) = agent.take()
        said = os.urandom(5 * MEGABYTE // 2)
        agent.tell(staged(grant), running(grant), output(grant, said))
        agent.tell(ended(grant), captured(grant, said))
        (tmp_path / "large.turnout").write_bytes(exported(hub))
    return tmp_path / "large.turnout"


def test_an_import_that_the_disk_cannot_take(small_disk: Path, scene: Scene, large: Path) -> None:
    """Wherever it ends (as the archive comes, as its files are kept, as its rows are), nothing of it is to be seen."""
    scene.start_hub()
    filler = small_disk / "filler"
    for room in (0, 2, 6, 9):
        fill(filler, leave=room * MEGABYTE)
        refused = scene.cli("import", str(large), check=False)
        assert refused.returncode == 6 and "Traceback" not in refused.stderr, refused
        assert "space" in refused.stderr or "disk" in refused.stderr, refused.stderr
        assert scene.client.runs() == []
        filler.unlink()
        scene.client.gc()
    told = scene.cli.json("import", str(large))
    assert told["imported"] and len(scene.output(told["first_run"])) == 5 * MEGABYTE // 2


def test_an_export_to_a_disk_that_cannot_take_it(tiny_disk: Path, scene: Scene) -> None:
    scene.wait_for(scene.submit("--workspace", "lab", "head", "-c", str(2 * MEGABYTE), "/dev/urandom"))
    refused = scene.cli("export", "lab", str(tiny_disk / "lab.turnout"), check=False)
    assert refused.returncode == 6 and "cannot be written: No space left" in refused.stderr, refused
    assert list(tiny_disk.iterdir()) == []


def test_what_runs_while_it_is_exported_is_left_out_or_waited_for(scene: Scene, tmp_path: Path) -> None:
    wait = 'while [ ! -e "$0/go" ]; do sleep 0.05; done; echo over'
    over, going = scene.submit("echo", "over"), scene.submit("bash", "-c", wait, str(scene.side))
    scene.wait_for(over)
    scene.wait_for(going, "running")
    with pytest.raises(Conflict):
        scene.client.export_workspace("default", tmp_path / "all")
    assert scene.client.export_workspace("default", tmp_path / "some", finished=True)["runs"] == 1
    scene.allow("go")
    scene.wait_for(going)
    assert scene.client.export_workspace("default", tmp_path / "all")["runs"] == 2


@pytest.mark.parametrize("part", ["rows/jobs", "rows/tags", "output/", "blobs/"])
def test_what_is_deleted_while_it_is_exported_is_missed(lab: Lab, tmp_path: Path, part: str) -> None:
    """The archive ends with that, and is none."""
    blobs = BlobStore(tmp_path)
    life(lab)
    lab.submit(workspace="lab", before=keep(blobs, b"a file"))
    agent = lab.agent()
    for grant in agent.take():
        agent.run(grant)
    plan = archives._plan(lab.store, blobs, Snapshots(blobs), archives.ExportRequest(workspace="lab"))
    written = b""
    is_deleted = False
    for piece in archives._parts(lab.store, blobs, plan):
        written += piece
        if not is_deleted and piece.startswith(part.encode()):
            lab.store.write(lambda tx: deletion.delete(tx, deletion.Wanted(runs=["run1"])))
            is_deleted = True
    assert is_deleted
    with pytest.raises(archive.Failed, match="changed while it was exported"):
        archive.check(io.BytesIO(written))
