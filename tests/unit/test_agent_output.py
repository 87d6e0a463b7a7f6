"""A command's output crosses to the hub once, whatever becomes of the file: cut by its run, or lost with its disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnout.agent.output import Output
from turnout.wire.stream import fresh_part


class Copy:
    """The hub's side: takes what continues what it has, and says how much that is."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def take(self, output: Output, most: int = 1 << 20) -> None:
        """One report: all there is, answered."""
        offset, piece = output.next(most)
        if piece:
            skip = fresh_part(len(self.content), offset, len(piece))
            self.content += b"" if skip is None else piece[skip:]
            output.acknowledge(len(self.content))
        output.sender.rewind()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "output"
    path.touch()
    return path


def add(file: Path, content: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(content)


def test_what_grows_arrives_byte_by_byte(file: Path) -> None:
    output, hub = Output(str(file)), Copy()
    for part in (b"one ", b"two ", b"three"):
        add(file, part)
        hub.take(output)
    assert hub.content == b"one two three"
    assert output.seal().size == 13 and output.seal().sha256 is not None and not output.problem


def test_an_agent_that_begins_again_goes_on_where_the_hub_is(file: Path) -> None:
    hub = Copy(b"0123456789")
    add(file, b"0123456789abc")
    output = Output(str(file))
    hub.take(output, most=4)
    hub.take(output)
    assert hub.content == b"0123456789abc" and not output.problem


@pytest.mark.parametrize("most", [7, 60, 1 << 20], ids=["in pieces", "exactly", "at once"])
def test_what_the_node_lost_is_final_at_the_hub_and_what_is_left_does_not_go_twice(file: Path, most: int) -> None:
    """100 bytes are with the hub; a crash of the node left 60 of them."""
    hub = Copy(b"x" * 100)
    add(file, b"x" * 60)
    output = Output(str(file))
    hub.take(output, most)
    hub.take(output, most)
    assert hub.content == b"x" * 100
    assert output.is_all_offered() and output.size() == 100
    assert "shorter" in output.problem


def test_what_comes_after_a_loss_is_put_behind(file: Path) -> None:
    hub = Copy(b"x" * 100)
    add(file, b"x" * 60)
    output = Output(str(file))
    hub.take(output)
    add(file, b"more")
    hub.take(output)
    add(file, b" and more")
    hub.take(output)
    assert hub.content == b"x" * 100 + b"more and more"
    seal = output.seal()
    assert (seal.size, seal.sha256) == (113, None)


def test_a_loss_that_is_seen_when_the_run_is_over_is_settled(file: Path) -> None:
    hub = Copy(b"x" * 100)
    add(file, b"x" * 60)
    output = Output(str(file))
    assert output.seal().size == 60
    hub.take(output)
    assert hub.content == b"x" * 100
    assert output.settle().size == 100


def test_what_a_run_prints_after_it_cut_its_output_is_put_behind(file: Path) -> None:
    output, hub = Output(str(file)), Copy()
    add(file, b"before")
    hub.take(output)
    file.write_bytes(b"")
    hub.take(output)
    add(file, b"after")
    hub.take(output)
    assert hub.content == b"beforeafter" and "cut" in output.problem


def test_the_next_agent_knows_where_an_output_was_cut(file: Path) -> None:
    output, hub = Output(str(file)), Copy()
    add(file, b"before")
    hub.take(output)
    file.write_bytes(b"after")
    hub.take(output)
    output.close()
    add(file, b" all")
    following = Output(str(file))
    hub.take(following)
    assert hub.content == b"beforeafter all"
    assert (following.seal().size, following.seal().sha256) == (15, None)


@pytest.mark.parametrize("note", ["1000", "-3", "nonsense"])
def test_a_run_that_lies_about_it_harms_nothing_but_its_own_output(file: Path, note: str) -> None:
    """The note lies where the run can write."""
    Path(f"{file}.shift").symlink_to(note)
    output, hub = Output(str(file)), Copy()
    add(file, b"text")
    hub.take(output)
    hub.take(output)
    assert hub.content == b"text"
    assert output.is_all_offered() and output.size() == 4


def test_late_news_of_what_was_sent_before_a_cut_loses_nothing(file: Path) -> None:
    """The cut is seen while what was read before it is still under way."""
    output, hub = Output(str(file)), Copy()
    add(file, b"12345")
    hub.take(output)
    add(file, b"67890")
    offset, piece = output.next(1 << 20)
    file.write_bytes(b"new")
    output.sender.rewind()
    assert output.size() == 8, "what is not known to be with the hub is lost, as far as can be told"
    hub.content += piece
    output.acknowledge(10)
    hub.take(output)
    assert (offset, hub.content) == (5, b"1234567890new")
