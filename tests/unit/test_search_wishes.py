"""What was typed and what a file says become one wish, and that a specification."""

from __future__ import annotations

import math
import re
from datetime import date
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from turnout.cli.spaces import in_words
from turnout.client import searching
from turnout.client.overriding import overridden
from turnout.client.preparing import Wish
from turnout.client.search_file import from_mapping
from turnout.client.searching import SearchWish, sampler_named, specify
from turnout.errors import InvalidInput
from turnout.model.spec import Resources, RunSpec
from turnout.schedule.seeking import explain_search
from turnout.search.spaces import read_space, to_plain

HERE = Path()


def specified(*argv: str, **wish: Any) -> Any:
    return specify(SearchWish(**{"sampler": "grid", **wish}), RunSpec(argv=argv), HERE)


# --- words of the command ---------------------------------------------------------------------------------------------


def test_words_that_vary_have_slots_in_their_order() -> None:
    search = specified("a.txt,b.txt", "lr=0.1,0.2", "--w=[1,2]", "++m.n@p=choice(a,b)", "mode=x", "l=[1,2]", "=1,2")
    assert search.slots == {"lr": 1, "w": 2, "m.n@p": 3}
    assert list(search.space) == ["lr", "w", "m.n@p"]


@pytest.mark.parametrize("word", ["lr='a,b'", "url=http://x/(a),b)", "a b=1,2", "-x=1,2", "sum=f(1,2)"])
def test_words_that_are_none(word: str) -> None:
    assert list(specified("x=1,2", word).space) == ["x"]


@pytest.mark.parametrize("word", ["lr=range(5,1)", "lr=interval(a,b)", "lr=tag(log, 3)"])
def test_what_can_only_be_meant_has_to_be_right(word: str) -> None:
    with pytest.raises(InvalidInput, match="parameter 'lr'"):
        specified("x=1,2", word)


def test_a_word_twice() -> None:
    with pytest.raises(InvalidInput, match="stands in the command twice"):
        specified("x=1,2", "x=3,4")


@pytest.mark.parametrize(("prefix", "kept"), [("--", "--"), ("", ""), ("none", None)])
def test_prefixes(prefix: str, kept: str | None) -> None:
    assert specified(space={"x": [1, 2]}, prefix=prefix).prefix == kept


@pytest.mark.parametrize(
    ("wish", "size"),
    [
        ({"space": {"x": [1, 2], "y": [1, 2, 3]}}, 6),
        ({"space": {"x": [1, 2], "y": [1, 2, 3]}, "runs": 4}, 4),
        ({"space": {"x": {"uniform": [0, 1]}}, "sampler_options": {"points": 7}}, 7),
        ({"space": {"x": [1, 2]}, "sampler": "random", "runs": 9}, 9),
        ({"space": {"x": [1, 2]}, "sampler": "random", "seconds": 9.0}, None),
    ],
)
def test_how_many_runs_there_will_be(wish: dict[str, Any], size: int | None) -> None:
    assert searching.size(specified(**wish)) == size


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_found_from_where_it_is_named(tmp_path: Path) -> None:
    made = from_mapping({"command": "x", "search": {"hp-config": "hp.yaml"}}, tmp_path)
    assert made.wish.search is not None and made.wish.search.hp_config == f"{tmp_path}/hp.yaml"


@pytest.mark.parametrize(
    ("written", "prefix"), [("", ""), (None, "none"), (False, "none"), ("none", "none"), ("+", "+")]
)
def test_prefixes_of_files(written: object, prefix: str) -> None:
    made = from_mapping({"command": "x", "search": {"prefix": written}}, HERE).wish.search
    assert made is not None and made.prefix == prefix


def test_what_is_no_yes_or_no_is_refused() -> None:
    with pytest.raises(InvalidInput, match="static: 'sure' is neither true nor false"):
        from_mapping({"command": "x", "search": {"static": "sure"}}, HERE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"command": {"a": "b"}}, "command: {'a': 'b'} is no text"),
        ({"command": ["echo", None]}, "command: null is no text"),
        ({"command": ["echo", ["a"]]}, "command: ['a'] is no text"),
        ({"command": True}, "command: true is no text"),
        ({"command": "x", "env": {"A": True}}, "env.A: true is no text"),
        ({"command": "x", "env": {"A": None}}, "env.A: null is no text"),
        ({"command": "x", "tags": {"a": [1]}}, "tags.a: [1] is no text"),
        ({"command": "x", "tags": {True: "a"}}, "tags: true is no text"),
        ({"command": "x", "target": [None]}, "target: null is no text"),
        ({"command": "x", "time": {"a": 1}}, "time: {'a': 1} is no text"),
        ({"command": "x", "name": False}, "name: false is no text"),
        ({"command": "x", "priority": math.inf}, "priority: inf is not a whole number"),
        ({"command": "x", "priority": math.nan}, "priority: nan is not a whole number"),
        ({"command": "x", "grace": math.inf}, "grace: inf is no number"),
        ({"command": "x", "grace": 10**400}, "is no number"),
        ({"command": "x", "search": {"minimize": {"loss": 1}}}, "minimize: {'loss': 1} is no text"),
        ({"command": "x", "search": {"maximize": [None]}}, "maximize: null is no text"),
        ({"command": "x", "search": {"prefix": {"a": 1}}}, "prefix: {'a': 1} is no text"),
        ({"command": "x", "search": {True: 1}}, "nothing is called search.True"),
        ({"command": "x", "search": {1: 1}}, "nothing is called search.1"),
        ({"command": "x", "search": {"max-time": "9" * 400}}, "is not a time"),
    ],
)
def test_what_is_no_text_or_number_is_refused(content: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        from_mapping(content, HERE)


def test_numbers_and_dates_are_text_as_they_are_written() -> None:
    wish = from_mapping({"command": ["sleep", 1, 0.5], "env": {"A": 1, "D": date(2024, 5, 1)}}, HERE).wish
    assert wish.command == ("sleep", "1", "0.5") and wish.env == {"A": "1", "D": "2024-05-01"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x: 2020-99-99", "month must be in 1..12"),
        ("x: !!bool perhaps", "not what it looks like"),
        ("x: !!timestamp now", "not what it looks like"),
        ("x: " + "[" * 3000, "too many brackets in each other"),
        ("x: " + "9" * 5000, "not what it looks like"),
    ],
    ids=["date", "truth", "time", "brackets", "digits"],
)
def test_values_that_are_not_what_they_look_like(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "hp.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=rf"hp.yaml(:1)?: .*{said}"):
        searching.read_mapping(tmp_path / "hp.yaml")
    value = text.removeprefix("x: ")
    assert searching.options([f"x={value}"], "--sampler-option") == {"x": value}, "it is text there"


WRITTEN = Wish(
    command=("a",), target="one", also=("two",), tags={"a": "1", "b": "1"}, resources=Resources(cpus=2, gpus=1),
    concurrent=3,
    search=SearchWish(
        space={"x": [1]}, sampler="grid", sampler_options={"points": 3}, stopper="median", stopper_options={"start": 1},
        minimize=("loss",), runs=5, seed=1, prefix="+", whole=True,
    ),
)  # fmt: skip


def made(typed: Wish | None = None, **search: Any) -> Wish:
    return overridden(WRITTEN, typed or Wish(command=()), SearchWish(**search))


def test_what_is_not_typed_stays() -> None:
    assert made() == WRITTEN


def test_what_is_typed_wins() -> None:
    typed = Wish(command=("b",), target="three", tags={"b": "2"}, resources=Resources(cpus=4))
    wish = made(typed, runs=9, seed=0, stopper_options={"min_runs": 2})
    assert (wish.command, wish.target, wish.also, wish.concurrent) == (("b",), "three", (), 3)
    assert wish.tags == {"a": "1", "b": "2"} and wish.resources == Resources(cpus=4, gpus=1)
    assert wish.search is not None
    assert (wish.search.runs, wish.search.seed, wish.search.prefix) == (9, 0, "+")
    assert wish.search.stopper_options == {"start": 1, "min_runs": 2} and wish.search.sampler_options == {"points": 3}


def test_what_is_typed_wins_though_it_is_what_holds_anyway() -> None:
    search = made(prefix="--", whole=False).search
    assert search is not None and (search.prefix, search.whole) == ("--", False)
    specified = specify(search, RunSpec(argv=()), HERE)
    assert (specified.prefix, specified.whole) == ("--", False)


@pytest.mark.parametrize("name", ["gridsearch", "Grid", "GRID"])
def test_options_stay_with_the_same_sampler_by_another_name(name: str) -> None:
    search = made(sampler=name).search
    assert search is not None and search.sampler_options == {"points": 3}


def test_every_sampler_of_ours_is_known_without_capitals() -> None:
    for point in entry_points(group="turnout.samplers"):
        if point.dist is not None and point.dist.name == "turnout":
            assert sampler_named(point.name.upper()) in (point.name, "tpe")
    assert specified(space={"x": [1, 2]}, sampler="Grid").sampler == "grid"
    assert sampler_named("mine:Halves") == "mine:Halves" and sampler_named("Evolve") == "Evolve"


def test_options_go_with_whom_they_were_for_and_objectives_together() -> None:
    search = made(sampler="tpe", stopper="patience", maximize=("acc",)).search
    assert search is not None
    assert (search.sampler_options, search.stopper_options) == ({}, {})
    assert (search.minimize, search.maximize) == ((), ("acc",))


# --- in words ---------------------------------------------------------------------------------------------------------


def test_a_space_in_words() -> None:
    space = {
        "lr": {"loguniform": [0.001, 1]}, "n": {"int": [1, 8]}, "q": {"quniform": [0.5, 2.0, 0.5]},
        "e": {"normal": [0, 2]}, "head": ["a", {"_name": "b", "w": [1, None]}],
    }  # fmt: skip
    assert dict(in_words(to_plain(read_space(space)))) == {
        "lr": "0.001 to 1, by magnitude", "n": "1 to 8, whole numbers", "q": "0.5 to 2, in steps of 0.5",
        "e": "around 0, give or take 2", "head": "a, b", "head.b.w": "1, None",
    }  # fmt: skip


SEARCH = {
    "job": "job7", "state": "active", "message": "", "runs": 9, "asked": 4, "made": 4, "concurrent": None,
    "deadline": None, "counts": {"live": 0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"state": "over", "message": "its time is up"}, "Its search is over: its time is up."),
        ({"state": "paused", "message": "its sampler failed"}, "`turnout resume job7` lets it go on."),
        ({"asked": 6, "concurrent": 2}, "2 more are proposed and wait for a free node; at most 2 may be at once."),
        ({"asked": 99, "runs": 5}, "4 of 5 runs of its search are made, 1 more are proposed and wait"),
        ({"made": 9, "asked": 9}, "9 of 9 runs of its search are made, and it ends with the last of them."),
        ({"counts": {"live": 1}}, "Its sampler is asked for the next when a result comes: 1 is under way."),
        ({"runs": None}, "4 runs of its search are made. Its sampler is being asked for the next."),
    ],
)
def test_why_a_search_is_where_it_is(more: dict[str, Any], said: str) -> None:
    assert said in explain_search({**SEARCH, **more})[0]


def test_a_pause_does_not_stop_the_clock() -> None:
    said = explain_search({**SEARCH, "state": "paused", "message": "a person paused it", "deadline": "12:00"})
    assert said[1].endswith("Its time goes on meanwhile, until 12:00.")
