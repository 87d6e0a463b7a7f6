"""A store that was killed at any byte opens again with everything it had acknowledged, and with nothing false."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import turnout
from turnout.blobs import BlobStore
from turnout.wire import pack
from turnout.wire.manifest import digest_of

CONTENTS = [b"blob number %d " % number * (number + 1) for number in range(12)]
DIGESTS = [digest_of(content) for content in CONTENTS]


def put(store: BlobStore, contents: list[bytes]) -> None:
    store.put_many([(digest_of(content), content) for content in contents])


def the_pack(directory: Path) -> Path:
    (path,) = (directory / "packs").iterdir()
    return path


def sound(store: BlobStore) -> set[bytes]:
    """What of CONTENTS is there; all of it must be readable."""
    here = set(DIGESTS) - set(store.missing(DIGESTS))
    return {store.read(digest) for digest in here}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A store of eight blobs with a saved index, and four more that the index does not know."""
    store = BlobStore(tmp_path / "written")
    put(store, CONTENTS[:8])
    store.close()
    put(store, CONTENTS[8:])
    return tmp_path / "written"


def ends(directory: Path) -> list[int]:
    """Where each blob ends in the pack."""
    total, found = 0, []
    for content in CONTENTS:
        total += pack.HEADER.size + len(content)
        found.append(total)
    assert found[-1] == the_pack(directory).stat().st_size
    return found


@pytest.mark.parametrize("with_index", [True, False])
def test_a_pack_cut_at_any_byte_keeps_its_whole_blobs(written: Path, tmp_path: Path, with_index: bool) -> None:
    whole = ends(written)
    cuts = sorted({0, 1, *whole, *(end + delta for end in whole[:-1] for delta in (-1, 1, 20, 43, 44, 45))})
    for cut in cuts:
        copy = tmp_path / f"cut{cut}"
        shutil.copytree(written, copy)
        if not with_index:
            (copy / "index").unlink()
        os.truncate(the_pack(copy), cut)
        store = BlobStore(copy)
        survivors = [content for content, end in zip(CONTENTS, whole, strict=True) if end <= cut]
        assert sound(store) == set(survivors)
        assert the_pack(copy).stat().st_size == max([0, *(end for end in whole if end <= cut)])
        put(store, CONTENTS)  # the torn tail is no obstacle to what follows
        assert BlobStore(copy).missing(DIGESTS) == []
        assert BlobStore(copy).check() == []
        shutil.rmtree(copy)


def test_a_tail_of_zeros_or_noise_is_cut(written: Path) -> None:
    """After a power cut a file may have its new length without its new content."""
    size = the_pack(written).stat().st_size
    for tail in (bytes(5000), random.Random(1).randbytes(5000), pack.MAGIC * 100, pack.header("ab" * 32, 10**12)):
        with open(the_pack(written), "ab") as file:
            file.write(tail)
        assert len(sound(BlobStore(written))) == 12
        assert the_pack(written).stat().st_size == size


def test_damage_in_the_middle_costs_only_the_blob_it_hits(written: Path) -> None:
    (written / "index").unlink()
    content = bytearray(the_pack(written).read_bytes())
    start, end = ends(written)[4], ends(written)[5]
    for at in (start, start + 5, start + 20, end - 1):  # its magic, size, digest, content
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        the_pack(written).write_bytes(damaged)
        (written / "index").unlink(missing_ok=True)
        store = BlobStore(written)
        assert store.missing(DIGESTS) == [DIGESTS[5]]
        assert len(sound(store)) == 11
        assert the_pack(written).stat().st_size == len(content)


def test_an_index_cut_or_damaged_anywhere_is_made_again(written: Path) -> None:
    index = (written / "index").read_bytes()
    rng = random.Random(2)
    images = [index[:cut] for cut in range(0, len(index), 7)]
    for _ in range(60):
        flipped = bytearray(index)
        flipped[rng.randrange(len(index))] ^= 1 << rng.randrange(8)
        images.append(bytes(flipped))
    for image in [*images, b"", b"\0" * len(index), index + b"more"]:
        (written / "index").write_bytes(image)
        assert BlobStore(written).missing(DIGESTS) == []


def test_an_index_that_promises_more_than_the_packs_have_is_not_believed(written: Path) -> None:
    BlobStore(written).close()
    the_pack(written).unlink()
    store = BlobStore(written)
    assert store.missing(DIGESTS) == DIGESTS
    put(store, CONTENTS)
    assert len(sound(store)) == 12


def test_a_temporary_of_a_killed_write_is_removed(written: Path) -> None:
    (written / "files" / ".new-0123").write_bytes(b"half")
    (written / "index.new").write_bytes(b"half")
    store = BlobStore(written)
    assert os.listdir(written / "files") == []
    store.close()
    assert BlobStore(written).missing(DIGESTS) == []


WRITER = """
import hashlib, os, sys
from turnout.blobs import BlobStore
store = BlobStore(sys.argv[1])
number = 0
while True:
    contents = [os.urandom(50 + 997 * (n % 3)) for n in range(20)] + ([os.urandom(70_000)] if number % 3 == 0 else [])
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    store.put_many(zip(digests, contents))
    if number % 4 == 1:
        store.close()
    print("\\n".join(digests), flush=True)
    number += 1
"""


def test_a_writer_killed_at_any_moment_has_lost_nothing_it_acknowledged(tmp_path: Path) -> None:
    """Five times: start a process that writes and acknowledges, kill -9 it in the middle, and look."""
    acknowledged: list[str] = []
    environment = {**os.environ, "PYTHONPATH": str(Path(turnout.__file__).parents[1])}
    for round_ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "blobs")], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert writer.stdout is not None
        for _ in range(60 + 37 * round_):
            acknowledged.append(writer.stdout.readline().strip())
        writer.kill()
        rest, _ = writer.communicate()
        acknowledged += [line for line in rest.split("\n")[:-1] if line]
        store = BlobStore(tmp_path / "blobs")
        assert store.missing(acknowledged) == []
        assert store.check() == []
    assert len(acknowledged) > 300
