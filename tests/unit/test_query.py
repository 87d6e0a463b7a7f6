"""The filter language, as its users meet it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnout.errors import InvalidInput
from turnout.model.state import Reason, RunState
from turnout.query import (
    COLUMNS,
    NAMESPACES,
    Age,
    And,
    Compare,
    Exists,
    Expression,
    Not,
    Op,
    Or,
    columns_of,
    parse,
    parse_all,
)

FAILED = Compare("state", Op.EQ, "failed")
LOW = Compare("metrics.loss", Op.LT, 0.3)
KEPT = Exists("tags.keep")


def refused(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    return caught.value


class TestConditions:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("state = failed", FAILED),
            ("state == failed", FAILED),
            ("state=failed", FAILED),
            ("state = 'failed'", FAILED),
            ("exit_code != 0", Compare("exit_code", Op.NE, 0)),
            ("exit_code <> 0", Compare("exit_code", Op.NE, 0)),
            ("metrics.loss<0.3", LOW),
            ("metrics.loss >= -1e-3", Compare("metrics.loss", Op.GE, -0.001)),
            ("metrics.loss < inf", Compare("metrics.loss", Op.LT, float("inf"))),
            ("name like run1*", Compare("name", Op.LIKE, "run1*")),
            ("label not like 'old ?'", Compare("label", Op.UNLIKE, "old ?")),
            ("state in (failed, cancelled)", Compare("state", Op.IN, ("failed", "cancelled"))),
            ("exit_code NOT IN (1,2)", Compare("exit_code", Op.NOT_IN, (1, 2))),
            ("tags.keep exists", KEPT),
            ("tags.keep not exists", Not(KEPT)),
            ("parent = none", Not(Exists("parent"))),
            ("parent != null", Exists("parent")),
        ],
    )
    def test_what_they_mean(self, text: str, expected: Expression) -> None:
        assert parse(text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("tags.keep :exists:", KEPT),
            ("tags.keep:exists:", KEPT),
            ("tags.keep:exists:true", KEPT),
            ("tags.keep :exists: $false", Not(KEPT)),
            ("tags.keep = $exists", KEPT),
            ("tags.keep != $exists", Not(KEPT)),
            ("tags.keep = $none", Not(KEPT)),
            ("tags.note = $empty", Compare("tags.note", Op.EQ, "")),
            ("hparams.warm = $true", Compare("params.warm", Op.EQ, True)),
            ("status = failed", FAILED),
            ("run = run3", Compare("name", Op.EQ, "run3")),
        ],
    )
    def test_as_xt_writes_them(self, text: str, expected: Expression) -> None:
        assert parse(text) == expected

    @pytest.mark.parametrize(
        ("text", "column"),
        [
            ("metrics.val/loss exists", "metrics.val/loss"),
            ("params.opt.name exists", "params.opt.name"),
            ("tags.a@b+c-d exists", "tags.a@b+c-d"),
            ("metrics.δ exists", "metrics.δ"),
            ('metrics."val loss" exists', "metrics.val loss"),
            (r'metrics."a \"b\" \\ c" exists', 'metrics.a "b" \\ c'),
            ("metrics.'a=b' exists", "metrics.a=b"),
        ],
    )
    def test_names_of_all_sorts(self, text: str, column: str) -> None:
        assert parse(text) == Exists(column)


class TestJoining:
    def test_and_binds_more_than_or_and_not_more_than_both(self) -> None:
        expected = Or((And((FAILED, LOW)), Not(KEPT)))
        assert parse("state = failed and metrics.loss < 0.3 or not tags.keep exists") == expected

    def test_parentheses(self) -> None:
        assert parse("state = failed and (metrics.loss < 0.3 or tags.keep exists)") == And((FAILED, Or((LOW, KEPT))))
        assert parse("not (state = failed or tags.keep exists)") == Not(Or((FAILED, KEPT)))

    def test_a_comma_is_the_weakest_and(self) -> None:
        text = "state = failed, metrics.loss < 0.3 or tags.keep exists"
        assert parse(text) == And((FAILED, Or((LOW, KEPT))))

    def test_several_filters_hold_together(self) -> None:
        assert parse_all(["state = failed", "metrics.loss < 0.3 or tags.keep exists"]) == And((FAILED, Or((LOW, KEPT))))
        assert parse_all(["state = failed"]) == FAILED
        assert parse_all([]) is None

    def test_keywords_in_capitals(self) -> None:
        assert parse("state = failed AND NOT tags.keep EXISTS") == And((FAILED, Not(KEPT)))


class TestValues:
    def test_a_tag_is_text_even_if_it_looks_like_a_number(self) -> None:
        assert parse("tags.fold = 3") == Compare("tags.fold", Op.EQ, "3")
        assert parse("tags.clean = true") == Compare("tags.clean", Op.EQ, "true")

    def test_a_parameter_is_what_it_looks_like_and_quotes_make_it_text(self) -> None:
        assert parse("params.n = 3") == Compare("params.n", Op.EQ, 3)
        assert parse("params.n = '3'") == Compare("params.n", Op.EQ, "3")
        assert parse("params.opt = adam") == Compare("params.opt", Op.EQ, "adam")
        warm = parse("params.warm = True")
        assert isinstance(warm, Compare) and warm.value is True

    @pytest.mark.parametrize(
        ("written", "moment"),
        [
            ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
            ("2024-05-01T10:30", datetime(2024, 5, 1, 10, 30, tzinfo=UTC)),
            ("2024-05-01T10:30:15.5Z", datetime(2024, 5, 1, 10, 30, 15, 500_000, tzinfo=UTC)),
            ("2024-05-01T10:30+02:00", datetime(2024, 5, 1, 8, 30, tzinfo=UTC)),
            ("'2024-05-01 10:30'", datetime(2024, 5, 1, 10, 30, tzinfo=UTC)),
        ],
    )
    def test_times_are_utc_unless_they_say_otherwise(self, written: str, moment: datetime) -> None:
        assert parse(f"created >= {written}") == Compare("created", Op.GE, moment)

    def test_ages_are_kept_as_they_were_given(self) -> None:
        assert parse("started < 2h") == Compare("started", Op.LT, Age(2, "h"))
        assert parse("ended > 1.5d") == Compare("ended", Op.GT, Age(1.5, "d"))
        assert Age(90, "m").seconds == 5400

    def test_a_duration_is_seconds_however_it_is_written(self) -> None:
        assert parse("duration > 1.5h") == parse("duration > 5400") == Compare("duration", Op.GT, 5400)

    def test_numbers_beyond_64_bits(self) -> None:
        assert parse("params.n > 99999999999999999999") == Compare("params.n", Op.GT, 1e20)
        assert "64 bits" in refused("exit_code = 9223372036854775808").message


class TestMistakes:
    def test_the_place_is_shown(self) -> None:
        error = refused("state = failed and stat = x")
        assert error.message.split("\n") == [
            "filter, column 20: there is no column 'stat'",
            "  state = failed and stat = x",
            "                     ^^^^",
        ]
        assert error.hint == "did you mean state?"

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("", "the filter is empty", "state = failed"),
            ("exit_code = abc", "exit_code is a whole number: 'abc' is not one", "number"),
            ("exit_code = 1.5", "not one", "number"),
            ("state = faild", "'faild' is not one", "did you mean failed?"),
            ("reason = time", "'time' is not one", "did you mean timeout?"),
            ("metrics.loss < low", "'low' is not one", "number"),
            ("metrics.loss = nan", "'nan' is not one", "NaN counts as missing"),
            ("metric.loss < 1", "no column 'metric.loss'", "did you mean metrics.loss?"),
            ("State = failed", "no column 'State'", "did you mean state?"),
            ("id = 3", "no column 'id'", "columns are name, job"),
            ("metrics. exists", "no column 'metrics.'", "metrics"),
            ("metrics.a*b exists", "needs quotes", 'metrics."a*b"'),
            ("created = 2024-05-01", "`=` does not work on created", "created >= 2024-05-01 and"),
            ("created > yesterday", "'yesterday' is not one", "2h"),
            ("created > 2024-02-31", "not in the calendar", "2024-05-01"),
            ("created > 9999-12-31T23:59-01:00", "not in the calendar", "2024-05-01"),
            ("created < 999999999d", "a hundred years", ""),
            ("name < run9", "`<` does not work on name, which is text", "~"),
            ("tags.fold > 2", "`>` does not work on tags.fold", "="),
            ("exit_code ~ 1*", "`~` does not work on exit_code", "="),
            ("params.lr > adam", "`>` needs a number", "~"),
            ("params.warm > true", "`>` needs a number", "~"),
            ("state", "an operator is missing after 'state'", "state exists"),
            ("state failed", "an operator is missing", "state exists"),
            ("name :glob: x", "an operator is missing", "like"),
            ("state not = failed", "an operator is missing", "="),
            ("state =", "a value is missing", ""),
            ("state = and", "a value is missing", "quotes"),
            ("state in failed", "a list is missing", "in (failed"),
            ("state in ()", "a value is missing", ""),
            ("state in (failed", "the list is not closed", ")"),
            ("state in (failed cancelled)", "the list is not closed", "commas"),
            ("(state = failed", "the parenthesis is not closed", ")"),
            ("state = failed)", "')' is not expected here", "and"),
            ("state = failed tags.keep exists", "'tags.keep' is not expected here", "`and`"),
            ("state = failed and", "a column is missing", "state"),
            ("state = failed,", "a column is missing", "state"),
            ("= failed", "a column is missing", "state"),
            ("'state' = failed", "a column is missing", "state"),
            ("state = failed && x", "'&' is not expected", "`and`"),
            ("!state = failed", "'!' is not expected", "`not`"),
            ("tags.note = 'it", "the quote is not closed", "'"),
            ("tags.note = a;b", "';' is not expected", "quotes"),
            ("tags.note = 'a\0b'", "is not text", ""),
            ("tags.note = 'a\udc80b'", "is not text", ""),
        ],
    )
    def test_each_says_what_and_what_to_write(self, text: str, message: str, hint: str) -> None:
        error = refused(text)
        assert message in error.message
        assert hint in error.hint

    def test_terminal_commands_in_the_text_are_not_repeated(self) -> None:
        for text in ("\x1b[31m = 3", 'metrics."\x1b]52;c;x\x07" oops', "tags.x = 'a\x1b[0m' oops", "sta\u202ete = x"):
            error = refused(text)
            assert not any(c != "\n" and not c.isprintable() for c in error.message + error.hint)

    def test_a_long_filter_is_shown_around_the_mistake(self) -> None:
        error = refused("state = failed or " * 100 + "stat = x" + " or state = failed" * 50)
        _, line, caret = error.message.split("\n")
        assert len(line) < 80
        assert line[caret.index("^") : caret.rindex("^") + 1] == "stat"


class TestLimits:
    def test_length(self) -> None:
        longest = "x" * (4096 - 14)
        assert parse(f"tags.note = '{longest}'") == Compare("tags.note", Op.EQ, longest)
        assert "longer than 4096" in refused(f"tags.note = '{longest}x'").message

    def test_depth(self) -> None:
        assert isinstance(parse("not " * 63 + "state = failed"), Not)
        assert "deep" in refused("not " * 64 + "state = failed").message
        assert parse("(" * 63 + "state = failed" + ")" * 63) == FAILED
        assert "deep" in refused("(" * 2000 + "state = failed").message

    def test_a_long_chain_is_not_deep(self) -> None:
        chain = parse(" or ".join(["exit_code = 1"] * 200))
        assert isinstance(chain, Or) and len(chain.items) == 200

    def test_number_of_filters(self) -> None:
        with pytest.raises(InvalidInput, match="too many"):
            parse_all(["state = failed"] * 65)


class TestColumns:
    def test_every_column_says_what_it_is(self) -> None:
        assert all(field.meaning for field in [*COLUMNS.values(), *NAMESPACES.values()])

    def test_words_are_those_of_the_model(self) -> None:
        for state in RunState:
            assert parse(f"state = {state}") == Compare("state", Op.EQ, str(state))
        for reason in Reason:
            assert parse(f"reason = {reason}") == Compare("reason", Op.EQ, str(reason))


def test_the_columns_a_filter_asks_about() -> None:
    text = "not (metrics.loss < 1 or state = failed) and tags.x exists and metrics.loss > 0"
    assert columns_of(parse(text)) == ["metrics.loss", "state", "tags.x"]
    assert columns_of(None) == []
