"""The store behaves as a dict would, through restarts, crashes and collections."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from turnout.blobs import BlobStore
from turnout.blobs.index import Index, Place
from turnout.wire.manifest import digest_of

WAIT = 100.0
contents = st.binary(max_size=30) | st.integers(0, 3).map(lambda kind: b"%d" % kind * 70_000)


class StoreMachine(RuleBasedStateMachine):
    """`here` is what must be there, `since` when the model first saw a blob unwanted."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="blobs-"))
        self.store = BlobStore(self.directory)
        self.here: dict[str, bytes] = {}
        self.since: dict[str, float] = {}
        self.now = 0.0

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @rule(blobs=st.lists(contents, max_size=6))
    def put_many(self, blobs: list[bytes]) -> None:
        named = {digest_of(blob): blob for blob in blobs}
        self.store.put_many(named.items())
        self.here |= named
        self._want(named)

    @rule(blob=contents)
    def put_stream(self, blob: bytes) -> None:
        digest = digest_of(blob)
        self.store.put_stream(digest, [blob[:7], blob[7:]])
        self.here[digest] = blob
        self._want([digest])

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        known = sorted({*self.here, digest_of(b"never put")})
        asked = data.draw(st.lists(st.sampled_from(known), unique=True))
        assert set(self.store.missing(asked)) == {digest for digest in asked if digest not in self.here}
        self._want(asked)

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        digest = data.draw(st.sampled_from(sorted(self.here)))
        assert self.store.read(digest) == self.here[digest]
        assert self.store.size(digest) == len(self.here[digest])

    @rule(data=st.data(), later=st.sampled_from([1.0, WAIT / 2, WAIT]))
    def gc(self, data: st.DataObject, later: float) -> None:
        self.now += later
        keep = set(data.draw(st.lists(st.sampled_from(sorted(self.here)), unique=True))) if self.here else set()
        self.since = {digest: self.since.get(digest, self.now) for digest in self.here if digest not in keep}
        gone = {digest for digest, since in self.since.items() if self.now - since >= WAIT}
        assert self.store.gc(keep, WAIT, now=self.now).blobs == len(gone)
        for digest in gone:
            del self.here[digest], self.since[digest]

    @rule(save=st.booleans())
    def open_again(self, save: bool) -> None:
        """As after a stop, or after kill -9: what a dropped blob left in a pack may come back, but nothing may go."""
        if save:
            self.store.close()
        self.store = BlobStore(self.directory)
        self._note_returned()

    @rule()
    def open_without_index(self) -> None:
        (self.directory / "index").unlink(missing_ok=True)
        self.store = BlobStore(self.directory)
        self._note_returned()

    @rule(noise=st.binary(min_size=1, max_size=60))
    def crash_while_writing(self, noise: bytes) -> None:
        packs = sorted((self.directory / "packs").iterdir())
        if packs:
            with open(packs[-1], "ab") as file:
                file.write(noise)
        (self.directory / "files" / ".new-123").write_bytes(noise)
        self.store = BlobStore(self.directory)
        self._note_returned()

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.store.usage().blobs == len(self.here)

    def _want(self, digests: object) -> None:
        for digest in digests:  # type: ignore[attr-defined]
            self.since.pop(digest, None)

    def _note_returned(self) -> None:
        for digest, content in self.store.read_many(self.store._all()):
            if digest not in self.here:
                assert digest_of(content) == digest
                self.here[digest] = content


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestStore = StoreMachine.TestCase


class IndexMachine(RuleBasedStateMachine):
    """The compact table with its dict of news, against a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="index-")
        self.index = Index()
        self.model: dict[bytes, Place] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    digests = st.integers(0, 40).map(lambda number: bytes([number % 3, 0]) * 15 + number.to_bytes(2, "big"))
    places = st.builds(Place, st.integers(1, 9), st.integers(0, 2**40), st.integers(0, 2**16))

    @rule(places=st.dictionaries(digests, places, max_size=8))
    def update(self, places: dict[bytes, Place]) -> None:
        self.index.update(places)
        self.model |= places

    @rule(digest=digests)
    def drop(self, digest: bytes) -> None:
        self.index.drop(digest)
        self.model.pop(digest, None)

    @rule(reload=st.booleans())
    def save(self, reload: bool) -> None:
        path = os.path.join(self.directory, "index")
        self.index.save(path, {3: 77})
        assert not self.index.changed
        if reload:
            self.index = Index()
            assert self.index.load(path) == {3: 77}

    @invariant()
    def they_agree(self) -> None:
        assert dict(self.index.items()) == self.model
        assert len(self.index) == len(self.model)
        asked = [bytes([number % 3, 0]) * 15 + number.to_bytes(2, "big") for number in range(41)]
        assert {digest: self.index.find(digest) for digest in asked} == {
            digest: self.model.get(digest) for digest in asked
        }
        assert self.index.absent(asked) == {digest for digest in asked if digest not in self.model}


IndexMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestIndex = IndexMachine.TestCase
