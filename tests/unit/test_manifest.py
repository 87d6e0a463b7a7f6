"""A manifest says exactly what may be written, and nothing that could be used to write elsewhere."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

DIGEST = "ab" * 32
FILE = Entry("src/train.py", 0o644, 5, DIGEST)

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)
odd_names = st.binary(min_size=1, max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
files = st.builds(
    Entry, paths, st.sampled_from(manifest.FILE_MODES), st.integers(0, 2**63 - 1), digests, st.just("")
)  # fmt: skip


def without_clashes(entries: list[Entry]) -> list[Entry]:
    """Those whose path is no directory of another's, each path once."""
    kept = {entry.path: entry for entry in entries}
    parents = {"/".join(path.split("/")[:depth]) for path in kept for depth in range(1, path.count("/") + 1)}
    return [entry for path, entry in kept.items() if path not in parents]


@given(st.lists(files, max_size=12).map(without_clashes))
def test_what_was_encoded_is_decoded_sorted_by_path(entries: list[Entry]) -> None:
    assert manifest.decode(manifest.encode(entries)) == sorted(entries)


@given(st.lists(files, max_size=8).map(without_clashes), st.randoms())
def test_the_bytes_do_not_depend_on_the_order_the_files_were_found_in(entries: list[Entry], rng: object) -> None:
    shuffled = list(entries)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert manifest.encode(shuffled) == manifest.encode(entries)


@given(st.lists(files, min_size=1, max_size=4).map(without_clashes))
def test_the_bytes_are_the_json_that_json_would_write(entries: list[Entry]) -> None:
    assert json.loads(manifest.encode(entries)) == [list(entry[:4]) for entry in sorted(entries)]


@given(odd_names)
def test_names_that_are_not_text_survive(name: str) -> None:
    if "/" in name or "\0" in name or name in (".", ".."):
        return
    entry = Entry(name, 0o644, 0, DIGEST)
    assert manifest.decode(manifest.encode([entry])) == [entry]


@pytest.mark.parametrize(
    "path",
    [
        "../../marker.txt",
        "a/../../b",
        "/etc/passwd",
        "",
        ".",
        "..",
        "a//b",
        "a/",
        "a/./b",
        "nul\0byte",
        "x" * 256,
        "é" * 128,  # 256 bytes
        "/".join(["d"] * 200),
        "a/" * 2100 + "a",
        "lone surrogate \ud800",
    ],
)
def test_a_path_that_leads_out_or_cannot_be_is_refused(path: str) -> None:
    with pytest.raises(BadManifest):
        manifest.decode(manifest.encode([FILE._replace(path=path)]))


@pytest.mark.parametrize(
    "path",
    ["..%2f..%2fmarker.txt", "%252e%252e%252f", "..;/x", "....//x".replace("//", "/"), "\\..\\x", "file:x", "~/x"],
)
def test_a_path_that_only_looks_dangerous_is_a_plain_name(path: str) -> None:
    assert manifest.check_path(path) == path


@pytest.mark.parametrize("link", ["../x", "/etc/passwd", "..", "a/../../..", "sub/../../x", "", "x\0y", "x" * 5000])
def test_a_link_that_leads_out_is_refused(link: str) -> None:
    with pytest.raises(BadManifest, match="outside"):
        manifest.link_entry("top", link)


def test_a_link_may_climb_only_at_its_beginning() -> None:
    """Behind the name of another link, ``..`` would climb from somewhere else than the text shows."""
    assert manifest.link_entry("a/b/link", "../../c/d").link == "../../c/d"
    with pytest.raises(BadManifest):
        manifest.link_entry("a/b/link", "c/../d")


@pytest.mark.parametrize(
    "entry",
    [
        FILE._replace(mode=0o4755),  # setuid
        FILE._replace(mode=0o777),
        FILE._replace(mode=0o100644),
        FILE._replace(mode=True),
        FILE._replace(size=-1),
        FILE._replace(size=2**63),
        FILE._replace(size=1.0),  # type: ignore[arg-type]
        FILE._replace(digest="AB" * 32),
        FILE._replace(digest="ab" * 31 + "a"),
        FILE._replace(digest=DIGEST + "\n"),
        FILE._replace(digest="../" * 21 + "a"),
        FILE._replace(path=7),  # type: ignore[arg-type]
        FILE._replace(link="train2.py"),  # a link with content
    ],
)
def test_an_odd_entry_is_refused(entry: Entry) -> None:
    with pytest.raises(BadManifest):
        manifest.check([entry])


def test_twins_are_refused() -> None:
    with pytest.raises(BadManifest, match="twice"):
        manifest.check([FILE, FILE._replace(size=6)])
    with pytest.raises(BadManifest, match="a file and a directory"):
        manifest.check([FILE, FILE._replace(path="src")])
    with pytest.raises(BadManifest, match="a file and a directory"):
        manifest.check([manifest.link_entry("src", "lib"), FILE])  # a file through a link


def test_names_that_differ_only_in_case_are_two_files() -> None:
    manifest.check([FILE, FILE._replace(path="SRC/train.py")])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"null",
        b'["abcd"]',
        b'[["a",420,0]]',
        b'[["a",420,0,"' + DIGEST.encode() + b'","",1]]',
        b"[" * 100_000,
        b'[{"path":"a"}]',
        b"\xff\xfe",
        b"[" + b"[]," * 3_000_000 + b"[]]",
    ],
)
def test_what_is_not_a_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(BadManifest):
        manifest.decode(content)


def test_too_many_files_are_refused_before_they_are_unpacked() -> None:
    many = manifest.encode(Entry(f"f{n}", 0o644, 0, DIGEST) for n in range(2_000))
    with pytest.raises(BadManifest, match="limit"):
        manifest.decode(many, max_entries=100)
    assert len(manifest.decode(many, max_entries=2_000)) == 2_000


@given(st.binary(max_size=300) | st.text(string.printable, max_size=300).map(str.encode))
def test_no_bytes_raise_anything_but_bad_manifest(content: bytes) -> None:
    try:
        manifest.decode(content)
    except BadManifest:
        pass
