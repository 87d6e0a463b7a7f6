"""A run's output and records on their way to the hub, through everything that can happen on it.

The writer is the in-run SDK's spool, the sender the agent's, the receiver the store's: the real ones, on real files.
Hypothesis plays the process that is killed, the agent that is killed, and the link that loses, repeats and reorders.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from turnout.agent import spool as agent_spool
from turnout.agent import streams as agent_streams
from turnout.agent.rundir import RunDir
from turnout.agent.streams import Streams
from turnout.store.streams import Mark, StreamKey, take_frames, take_output
from turnout.track import spool as spool_module
from turnout.track.spool import Spool
from turnout.wire.messages import Chunk

PIECE = 120
SEGMENT = 90


class Marks:
    """The receiver's high-water marks, kept as a transaction of the store would keep them."""

    def __init__(self) -> None:
        self._known: dict[StreamKey, Mark] = {}

    def get(self, key: StreamKey) -> Mark:
        return self._known.get(key) or Mark()

    def move(self, key: StreamKey, mark: Mark) -> None:
        self._known[key] = mark


class Receiver:
    """What the hub has on disk of one attempt."""

    def __init__(self) -> None:
        self.output = b""
        self.records: list[int] = []
        self._marks: Any = Marks()

    def take(self, pieces: list[tuple[Chunk, bytes]]) -> dict[str, int]:
        acks = {}
        for chunk, content in pieces:
            key = (chunk.run, chunk.attempt, chunk.stream)
            if chunk.stream == "output":
                row = take_output(self._marks, key, chunk.offset, memoryview(content))
                self.output += row["content"] if row is not None else b""
            else:
                taken = take_frames(self._marks, key, chunk.offset, memoryview(content))
                self.records += [record["n"] for record in taken]
            acks[chunk.stream] = self._marks.get(key).size
        return acks


class Shipping(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="turnout-stream-"))
        self.directory = RunDir(str(self.base / "1.1"))
        self.directory.make()
        self.limits = [
            mock.patch.object(agent_streams, "PIECE", PIECE), mock.patch.object(agent_spool, "PIECE", PIECE),
            mock.patch.object(spool_module, "SEGMENT_BYTES", SEGMENT),
        ]  # fmt: skip
        for limit in self.limits:
            limit.start()
        self.written = b""
        self.logged = 0
        self.half: tuple[Path, bytes] | None = None
        self.receiver = Receiver()
        self.streams = Streams(1, 1, self.directory)
        self.spool = Spool(self.directory.track)
        self.sent: list[list[tuple[Chunk, bytes]]] = []
        self.acks: dict[str, int] | None = None
        self.is_over = False

    def teardown(self) -> None:
        if hasattr(self, "base"):
            self.streams.close()
            for limit in self.limits:
                limit.stop()
            shutil.rmtree(self.base)

    # --- the run ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.is_over)
    @rule(text=st.binary(min_size=1, max_size=2 * PIECE))
    def print(self, text: bytes) -> None:
        with open(self.directory.output, "ab") as file:
            file.write(text)
        self.written += text

    @precondition(lambda self: not self.is_over and self.half is None)
    @rule(times=st.integers(1, 5))
    def log(self, times: int) -> None:
        for _ in range(times):
            self.spool.append(b'{"n":%d}' % self.logged)
            self.logged += 1

    @precondition(lambda self: not self.is_over and self.half is None)
    @rule(cut=st.integers(1, 20))
    def log_half(self, cut: int) -> None:
        """The operating system shows the beginning of a record before the rest of it."""
        self.log(1)
        newest = max(Path(self.directory.track).iterdir(), key=lambda path: path.name)
        whole = newest.read_bytes()
        newest.write_bytes(whole[:-cut])
        self.half = (newest, whole[-cut:])

    @precondition(lambda self: self.half is not None and not self.is_over)
    @rule()
    def log_the_rest(self) -> None:
        assert self.half is not None
        path, rest = self.half
        with open(path, "ab") as file:
            file.write(rest)
        self.half = None

    @precondition(lambda self: not self.is_over)
    @rule()
    def end(self) -> None:
        """The command is gone; a record it was in the middle of stays torn for ever."""
        self.is_over = True
        self.streams.finish()

    # --- the agent and the link ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.acks is None)
    @rule(arrives=st.booleans())
    def send(self, arrives: bool) -> None:
        """One report at a time is under way. While it is, the run goes on."""
        pieces = list(self.streams.pieces(2 * PIECE))
        self.sent.append(pieces)
        self.acks = self.receiver.take(pieces) if arrives else {}

    @precondition(lambda self: self.acks is not None)
    @rule(arrives=st.booleans())
    def hear_answer(self, arrives: bool) -> None:
        assert self.acks is not None
        for stream, have in self.acks.items() if arrives else ():
            self.streams.acknowledge(stream, have)
        self.streams.rewind()
        self.acks = None

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat_something_old(self, data: st.DataObject) -> None:
        self.receiver.take(data.draw(st.sampled_from(self.sent)))

    @rule()
    def restart_agent(self) -> None:
        """All it knew is gone; what the hub has is not."""
        self.streams.close()
        self.streams = Streams(1, 1, self.directory)
        self.acks = None
        if self.is_over:
            self.streams.finish()

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def what_is_there_is_a_beginning(self) -> None:
        if hasattr(self, "receiver"):
            assert self.written.startswith(self.receiver.output)
            assert len(set(self.receiver.records)) == len(self.receiver.records), "a record was taken twice"
            assert set(self.receiver.records) <= set(range(self.logged))

    @precondition(lambda self: self.is_over and self.acks is None)
    @rule()
    def in_the_end_everything_is_there(self) -> None:
        for _ in range(200):
            self.send(arrives=True)
            is_all = self.streams.is_all_offered()
            self.hear_answer(arrives=True)
            if is_all:
                break
        else:
            raise AssertionError("it is never all offered")
        torn = 1 if self.half is not None else 0
        assert self.receiver.output == self.written
        assert sorted(self.receiver.records) == list(range(self.logged - torn))


TestShipping = Shipping.TestCase
TestShipping.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_record_that_is_finished_while_its_beginning_is_under_way_is_not_taken_for_damage() -> None:
    story = Shipping()
    story.begin()
    try:
        story.log_half(cut=3)
        story.send(arrives=True)
        story.log_the_rest()
        story.hear_answer(arrives=True)
        assert story.streams.problems() == []
        story.log(times=2)
        story.end()
        story.in_the_end_everything_is_there()
    finally:
        story.teardown()
