"""YAML, read by us: what PyYAML makes of it, but for names that are there twice."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turnout.client.mapping_file import read_mapping
from turnout.client.yaml_text import Lines, WrittenTwice, read_yaml
from turnout.errors import InvalidInput

_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.dates())
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
)


@given(_VALUES, st.booleans())
def test_what_was_written_is_read(value: object, is_flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=is_flow, allow_unicode=True)
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "a: &x [1, 2]\nb: *x",
        "base: &b {k: 1, j: 2}\nmore: {<<: *b, k: 3}",
        "base: &b {k: 1}\nother: &c {k: 2, l: 5}\nmore: {<<: [*b, *c], m: 4}",
        "a: {x: &b {<<: {k: 1}, k: 2}, <<: {y: 1}}",
        "a: !!set {x, y}\nb: !!omap [{p: 1}]\nc: !!binary aGk=\nd: !!str 5\ne: !!int '7'",
        "yes: no\n3: 4.5\n~: x\n2020-01-02: 0x10\n1e3: .inf",
        "? long\n: value\n'a b': \"c\\nd\"",
        "- - 1\n  - 2\n- k: v",
        "text: |\n  one\n  two\nother: >-\n  a\n  b",
    ],
)
def test_it_is_what_the_usual_reader_makes_of_it(text: str) -> None:
    assert read_yaml(text) == yaml.safe_load(text)


def test_what_has_an_alias_is_one_object() -> None:
    """So that text of a few lines never grows to gigabytes."""
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    found = read_yaml(laughs)
    assert found["a59"][0] is found["a59"][1] is found["a58"]
    found = read_yaml("a: &a [1, *a]")
    assert found["a"][1] is found["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", r"f.yaml:3: 'a' is there already, in line 1"),
        ("steps:\n  sort: {command: x}\n  sort: {command: y}\n", "f.yaml:3: 'sort' is there already, in line 2"),
        ("a: {<<: {k: 1}, j: 1, j: 2}\n", "f.yaml:1: 'j' is there already, in line 1"),
        ("1: a\n0x1: b\n", "f.yaml:2: '0x1' is the same as '1', which is there, in line 1"),
        ("yes: a\non: b\n", "f.yaml:2: 'on' is the same as 'yes', which is there, in line 1"),
    ],
)
def test_a_name_that_is_there_twice(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=said) as caught:
        read_mapping(tmp_path / "f.yaml")
    assert caught.value.hint == "keep one of them"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: {day: 2024-99-99}\n", r"f\.yaml:2: 2024-99-99 is not what it looks like: month must be in 1\.\.12$"),
        (f"a: 1\nb: {'9' * 5000}\n", r"f\.yaml:2: 9{40} is not what it looks like"),
        ("a:\n  {{sample}}: 1\n", r"f\.yaml:2: what stands in braces or brackets here is no name; a text that begins"),
        ("a:\n  outputs: {{sample}}.txt\n", r"f\.yaml:2: "),
        ('a: 1\nb: "\\ud800"\n', r"f\.yaml:2: found invalid Unicode character escape code$"),
        ("a: 1\nb: x\0y\n", r"f\.yaml:2: '\\x00' is no character of a text$"),
        ("a: 1\nb: !!python/object:os.system x\n", r"f\.yaml:2: could not determine a constructor for the tag"),
    ],
)
def test_what_yaml_cannot_have_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_mapping(tmp_path / "f.yaml")


def test_a_path_that_is_none_cannot_be_read() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read: embedded null byte$"):
        read_mapping(Path("a\0b"))


def test_a_mistake_in_a_large_text_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader that would say it better takes a minute for ten megabytes."""
    monkeypatch.setattr("turnout.client.yaml_text._LARGE", 10)
    monkeypatch.delattr("yaml.SafeLoader")
    with pytest.raises(yaml.YAMLError, match="line 3"):
        read_yaml("long: text\nbroken: [")
    with pytest.raises(WrittenTwice):
        read_yaml("a: 1\na: 2")


def test_lines() -> None:
    text = "pipeline:\n  steps:\n    one: {command: x}\n    two:\n      needs: one\n\n      matrix: {k: [1]}\n"
    places = {
        ("pipeline",): 1, ("pipeline", "steps", "one", "command"): 3,
        ("pipeline", "steps", "two", "matrix", "k", "0"): 7, ("pipeline", "gone", "one"): 1, ("gone",): None, (): None,
    }  # fmt: skip
    lines = Lines(text)
    assert {place: lines.of(place) for place in places} == places


def test_numbers_in_powers_and_numbers_of_things() -> None:
    """What YAML 1.1 makes of them is what nobody means."""
    text = "lr: [1e-3, 5E2, -2.5e-1, '1e-3', 1e5x]\nsample: [001, 010, 0, 7, 0x10]\n1e-3: key"
    assert read_yaml(text) == {
        "lr": [0.001, 500.0, -0.25, "1e-3", "1e5x"], "sample": ["001", "010", 0, 7, 16], "1e-3": "key",
    }  # fmt: skip
