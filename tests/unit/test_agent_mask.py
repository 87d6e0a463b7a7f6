"""Secrets are covered before output leaves the node, wherever it is cut into pieces and however slowly it comes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.agent.mask import Mask
from turnout.agent.output import Output

LETTERS = st.text("ab", max_size=40)
WORDS = st.lists(st.text("ab", min_size=4, max_size=7), min_size=1, max_size=3)


def covered(text: str, words: list[str]) -> bytes:
    """What it must come to, letter by letter."""
    starred = list(text)
    for word in words:
        for place in range(len(text)):
            if text.startswith(word, place):
                starred[place : place + len(word)] = "*" * len(word)
    return "".join(starred).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key=hunter2!", "key=*******!"),
        ("hunter2hunter2", "**************"),
        ("hunter", "hunter"),
        ("", ""),
        ("héllo hunter2", "héllo *******"),
    ],
)
def test_a_star_for_each_byte(text: str, expected: str) -> None:
    assert Mask(["hunter2"]).cover(text.encode()).decode() == expected


def test_what_hides_nothing_covers_nothing() -> None:
    assert not Mask() and not Mask(["", "abc"])
    assert Mask(["abc"]).cover(b"abcabc") == b"abcabc"


def test_each_line_of_a_secret_by_itself() -> None:
    mask = Mask(["-----BEGIN\nabcdefgh\nok\n-----END"])
    assert mask.cover(b"  abcdefgh\\nok") == b"  ********\\nok"


@given(words=WORDS, parts=st.lists(LETTERS, max_size=8), most=st.integers(1, 50))
def test_however_it_is_written_and_sent(words: list[str], parts: list[str], most: int) -> None:
    """Each part is written, and sent as far as it goes, before the next; then what is left."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "output"
        file.touch()
        output, sent = Output(str(file)), b""
        output.mask = Mask(words)
        for number, part in enumerate([*parts, ""]):
            with file.open("a") as stream:
                stream.write(part)
            if number == len(parts):
                seal = output.seal()
            while not output.is_all_offered():
                offset, piece = output.next(most)
                assert offset == len(sent)
                sent += piece
                output.acknowledge(len(sent))
        output.close()
    assert sent == covered("".join(parts), words)
    assert seal.size == len(sent)


def test_the_digest_is_of_what_left(tmp_path: Path) -> None:
    plain, secret = tmp_path / "plain", tmp_path / "secret"
    plain.write_bytes(b"a ******* b")
    secret.write_bytes(b"a hunter2 b")
    masked = Output(str(secret))
    masked.mask = Mask(["hunter2"])
    assert masked.seal() == Output(str(plain)).seal()


def test_only_what_may_be_a_beginning_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "output"
    output = Output(str(file))
    output.mask = Mask(["hunter2"])
    file.write_bytes(b"go hunt")
    assert output.next(100) == (0, b"go ")
    file.write_bytes(b"go hunting")
    assert output.next(100) == (3, b"hunting")
