"""An archive that somebody made to do harm, or that was damaged: refused with what is wrong with it, and nothing kept.

Both who looks at it are asked: the command, before it sends anything, and the hub, which believes nobody.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.deaths import Hub, exported
from tests.integration.test_archived_tables import life
from turnout.client.archive import inspect
from turnout.errors import InvalidInput
from turnout.hub.archives import _Incoming
from turnout.hub.snapshots import Snapshots

Part = tuple[tarfile.TarInfo, bytes]


@dataclass
class Door:
    """A whole archive, and a hub that has nothing yet."""

    hub: Hub
    whole: bytes
    file: Path

    def refuses(self, content: bytes, message: str = "") -> None:
        self.file.write_bytes(content)
        with pytest.raises(InvalidInput, match=message or None) as told:
            inspect(self.file, lambda done, total: None)
        assert told.value.exit_code == 2 and "nothing was imported" in told.value.hint and "\n" not in str(told.value)
        with pytest.raises(InvalidInput):
            self.take(content)
        assert not any(self.hub.lab.everything()[table] for table in ("jobs", "runs", "events", "imports"))

    def take(self, content: bytes) -> dict[str, object]:
        blobs = self.hub.blobs
        return _Incoming(self.hub.store, blobs, Snapshots(blobs), None, "", False).take(io.BytesIO(content))

    def parts(self) -> list[Part]:
        """All but the manifest."""
        with tarfile.open(fileobj=io.BytesIO(self.whole)) as tar:
            return [(member, tar.extractfile(member).read()) for member in tar][:-1]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with Hub(tmp_path_factory.mktemp("there")) as there:
        life(there.lab)
        there.lab.submit(("with files",), workspace="lab", before=there.upload(b"train"))
        agent = there.lab.agent()
        for grant in agent.take():
            agent.run(grant)
        return exported(there)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("here")) as hub:
        yield hub


@pytest.fixture
def door(whole: bytes, here: Hub, tmp_path: Path) -> Door:
    return Door(here, whole, tmp_path / "archive")


def member(name: str, content: bytes = b"", **fields: object) -> Part:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, content


def sealed(parts: list[Part], *, counts: Callable[[dict[str, int]], None] = lambda counts: None) -> bytes:
    """An archive of these parts whose manifest agrees with them: only what is in it can give it away."""
    content = b"".join(made.tobuf(tarfile.GNU_FORMAT) + each + b"\0" * (-len(each) % 512) for made, each in parts)
    found: dict[str, int] = {}
    for made, each in parts:
        kind, _, name = made.name.partition("/")
        if kind == "rows" and name.endswith(".gz"):
            table = f"rows.{name.rpartition('-')[0]}"
            found[table] = found.get(table, 0) + zlib.decompress(each, 31).count(b"\n")
        elif kind in ("output", "blobs"):
            found[kind] = found.get(kind, 0) + 1
            size = f"{kind.removesuffix('s')}_bytes"
            found[size] = found.get(size, 0) + len(each)
    counts(found)
    told = {"counts": found, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    last, manifest = member("manifest.json", json.dumps(told).encode())
    return content + last.tobuf() + manifest + b"\0" * (-len(manifest) % 512) + b"\0" * 1024


def test_one_that_was_only_sealed_again_is_taken(door: Door) -> None:
    """So that the others are refused for what is wrong with them, and not for how they are made here."""
    assert door.take(sealed(door.parts()))["imported"]
    door.hub.lab.clear()


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "blobs/../../x", "rows/runs-0001.sql", "output/../x-1.txt", "blobs/" + "A" * 64,
     "", ".", "rows/runs-0001.jsonl.gz/", "blobs/\nx", "output/run1-1.txt\x1b[2J"],
)  # fmt: skip
def test_a_name_that_is_not_of_an_archive(door: Door, name: str) -> None:
    door.refuses(sealed([*door.parts(), member(name, b"x")]))


def test_names_with_a_nul_and_names_without_end(door: Door) -> None:
    parts = door.parts()
    made = bytearray(sealed([*parts, member("blobs/" + "a" * 64, b"x")]))
    at = made.index(b"blobs/" + b"a" * 64)
    made[at + 40 : at + 48] = b"\0/../../"
    door.refuses(bytes(made))
    door.refuses(sealed([*parts, member("blobs/" + "a" * 5000, b"x")]), "is not a file")
    made = bytearray(sealed([*parts, member("b" * 100, b"x")]))
    door.refuses(bytes(made), "is not a part of an archive")


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.XHDTYPE,
     tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE],
)  # fmt: skip
def test_what_is_no_file(door: Door, kind: bytes) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    door.refuses(sealed([*door.parts(), member(f"blobs/{digest}", type=kind, linkname="/etc/passwd")]), "is not a file")


def test_the_same_part_twice(door: Door) -> None:
    parts = door.parts()
    for kind in ("rows/runs", "output/", "blobs/"):
        (part, *_) = (part for part in parts if part[0].name.startswith(kind))
        door.refuses(sealed([*parts, part]), "twice in the archive")


def test_the_same_row_twice(door: Door) -> None:
    """In another part of the table, with a manifest that counts it."""
    parts = door.parts()
    for table in ("jobs", "runs", "events", "attempts", "metrics", "tags"):
        (rows,) = (content for made, content in parts if made.name.startswith(f"rows/{table}-"))
        door.file.write_bytes(sealed([*parts, member(f"rows/{table}-0002.jsonl.gz", rows)]))
        with pytest.raises(InvalidInput, match=f"row.* of {table}.* twice"):
            door.take(door.file.read_bytes())
        assert not door.hub.lab.everything()["jobs"]


@pytest.mark.parametrize("child", ["run77", "job1", ["run1"], {"run": 1}, 7])
def test_an_event_that_names_a_run_which_is_not_in_it(door: Door, child: object) -> None:
    """It would be taken for a run of this store."""
    row = {"run": "run1", "seq": 99, "time": 1.0, "event": "child_created", "data": json.dumps({"child": child})}
    rows = member("rows/events-0002.jsonl.gz", gzip.compress(json.dumps(row).encode() + b"\n"))
    with pytest.raises(InvalidInput, match="is not in the archive"):
        door.take(sealed([*door.parts(), rows]))
    assert not any(door.hub.lab.everything()[table] for table in ("jobs", "runs", "events", "imports"))


def test_content_that_is_not_what_its_name_says(door: Door) -> None:
    door.refuses(sealed([*door.parts(), member("blobs/" + "a" * 64, b"something else")]), "blob a+ is damaged")
    large = b"x" * (2 << 20)
    door.refuses(sealed([*door.parts(), member("blobs/" + "b" * 64, large)]), "blob b+ is damaged")
    assert set(door.hub.blobs.missing(["a" * 64, "b" * 64])) == {"a" * 64, "b" * 64}


def test_a_snapshot_whose_files_are_not_in_it(door: Door) -> None:
    digest = hashlib.sha256(b"train").hexdigest()
    parts = [part for part in door.parts() if part[0].name != f"blobs/{digest}"]
    door.hub.blobs.gc(set(), 0.0)  # others have brought it
    with pytest.raises(InvalidInput, match="files of its snapshots are not in it"):
        door.take(sealed(parts))
    assert not door.hub.lab.everything()["jobs"]


@pytest.mark.parametrize("size", [1 << 33, 1 << 60, -1])
def test_a_size_that_is_not_its_size(door: Door, size: int) -> None:
    made, _ = member("blobs/" + "a" * 64)
    made.size = size
    head = b"".join(each.tobuf(tarfile.GNU_FORMAT) + c + b"\0" * (-len(c) % 512) for each, c in door.parts()[:1])
    door.refuses(head + made.tobuf(tarfile.GNU_FORMAT) + b"x" * 512, "cut short" if size > 0 else "")


def test_rows_that_would_fill_the_memory(door: Door) -> None:
    """Of a megabyte in the archive, and nothing but names of rows in it."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = packer.compress(b"{}\n" * (8 << 20)) + packer.flush()
    bomb = sealed([*door.parts()[:1], member("rows/jobs-0001.jsonl.gz", packed)])
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="row 1 of jobs"):
            door.take(bomb)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_rows_that_are_more_than_can_be(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.wire.archive._LARGEST_ROWS", 1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b"\n" * (64 << 20)) + packer.flush()
    door.refuses(sealed([*door.parts()[:1], member("rows/jobs-0001.jsonl.gz", packed)]), "too many")


def test_a_manifest_that_promises_other_amounts(door: Door) -> None:
    def more(counts: dict[str, int]) -> None:
        counts["rows.runs"] += 1

    door.refuses(sealed(door.parts(), counts=more), "its manifest says")


def test_cut_short_at_every_twentieth(door: Door) -> None:
    door.refuses(b"")
    for part in range(1, 20):
        door.refuses(door.whole[: len(door.whole) * part // 20], "cut short")


@pytest.mark.parametrize("version", [b"0", b"2", b"9"])
def test_another_version(door: Door, version: bytes) -> None:
    other = door.whole.replace(b'"format": 1', b'"format": ' + version, 1)
    door.refuses(other, f"has format {version.decode()}.* reads format 1")


def test_a_head_that_is_nonsense(door: Door) -> None:
    parts = door.parts()
    for head in (b"[]", b"{", b"\xff", b"[" * 100_000, b'{"format": "1"}', b'{"format": 1}', b"{}"):
        made = sealed([member("turnout-archive.json", head), *parts[1:]])
        with pytest.raises(InvalidInput):
            door.take(made)
    assert not door.hub.lab.everything()["jobs"]
