"""What a submission may say about its runs in names and values, and what is answered when it says too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnout.client.preparing import Wish, prepare
from turnout.errors import InvalidInput
from turnout.home import Home
from turnout.model.limits import MOST_BYTES, MOST_NAMES
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.spec.check import check
from turnout.wire.long_words import CALL, LONGEST


def job(*params: dict[str, object], tags: dict[str, str] | None = None) -> JobSpec:
    runs = tuple(RunSpec(argv=("true",), params=each) for each in params or ({},))
    return JobSpec(kind=CommandKind.COMMAND, display=("true",), runs=runs, tags=tags or {})


def refusal(spec: JobSpec) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check(spec)
    return caught.value


@pytest.mark.parametrize("name", ["lr", "_x", "model.layers", "batch-size", "A1", "x" * 64])
def test_names(name: str) -> None:
    check(job({name: 1}, tags={name: "v"}))


@pytest.mark.parametrize("name", ["", "val loss", "a/b", "a=b", "1st", "-x", "a\nb", "a\0b", "é", "a\ud800", "x" * 65])
def test_a_bad_name_is_named(name: str) -> None:
    error = refusal(job({"lr": 0.1}, {name: 1}))
    assert f"parameter {name!r}" in error.message and "letters" in error.hint
    assert f"tag {name!r}" in refusal(job(tags={name: "v"})).message


def test_all_bad_names_are_told_at_once_and_each_once() -> None:
    message = refusal(job({"a b": 1}, {"a b": 2, "c/d": 3})).message
    assert message.count("'a b'") == 1 and "'c/d'" in message


def test_too_many() -> None:
    many: dict[str, object] = {f"p{number}": number for number in range(MOST_NAMES + 1)}
    error = refusal(job({}, many))
    assert "the parameters of run 2 of 2" in error.message and "1001" in error.message and "file" in error.hint
    assert "the tags" in refusal(job(tags=dict.fromkeys(many, ""))).message
    check(job(dict(list(many.items())[:-1])))


def test_too_much() -> None:
    error = refusal(job({"lr": 0.1, "words": ["x"] * 50_000}))
    assert "'words' is the largest" in error.message and str(MOST_BYTES) in error.message
    assert "the tags" in refusal(job(tags={"note": "x" * MOST_BYTES})).message


@pytest.mark.parametrize("value", [{1, 2}, object()])
def test_a_value_that_is_no_json(value: Any) -> None:
    assert "'odd'" in refusal(job({"odd": value})).message


def test_a_value_that_is_nested_without_end() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert "'deep'" in refusal(job({"deep": nested})).message


def test_the_client_says_so_before_anything_is_captured(tmp_path: Path) -> None:
    wish = Wish(command=("true",), tags={"a": "x" * 60_000, "b": "y" * 60_000})
    with pytest.raises(InvalidInput, match="the tags: together they have"):
        prepare(wish, Home(tmp_path / "home"), tmp_path)
    assert not (tmp_path / "home").exists()


# --- arguments --------------------------------------------------------------------------------------------------------

LONG = "x" * (LONGEST + 1)


def command(*argv: str) -> JobSpec:
    return JobSpec(kind=CommandKind.COMMAND, display=argv, runs=(RunSpec(argv=argv),))


@pytest.mark.parametrize(
    "argv", [("echo", "x" * LONGEST), ("echo", "\udcff"), ("bash", "-c", LONG), (CALL, "m:f", LONG)], ids=str
)
def test_arguments_that_can_be_handed_over(argv: tuple[str, ...]) -> None:
    """A text for a shell goes by a file, if it has to."""
    check(command(*argv))


@pytest.mark.parametrize("argv", [("echo", LONG), ("bash", "-c", "true", LONG), ("bash", "-c", LONG, "sh", LONG)])
def test_an_argument_that_is_too_long(argv: tuple[str, ...]) -> None:
    error = refusal(command(*argv))
    assert error.message == "an argument has 131,072 bytes, and Linux hands over up to 131,071 in one"
    assert "xargs" in error.hint


@pytest.mark.parametrize("argv", [("echo", "a\0"), ("echo", "a\ud800"), ("bash", "-c", LONG + "\0")])
def test_an_argument_that_is_none(argv: tuple[str, ...]) -> None:
    assert "NUL" in refusal(command(*argv)).message


@pytest.mark.parametrize("value", [LONG, "a\0"])
def test_a_value_of_the_environment_that_is_none(value: str) -> None:
    spec = JobSpec(kind=CommandKind.COMMAND, display=("true",), runs=(RunSpec(argv=("true",)),), env={"X": value})
    assert "environment value" in refusal(spec).message
