"""From text to :class:`Expression`: a recursive descent over the tokens, one method per line of the grammar.

::

    filter    := choice ("," choice)*
    choice    := sequence ("or" sequence)*
    sequence  := negation ("and" negation)*
    negation  := "not" negation | "(" choice ")" | condition
    condition := column ("exists" | ":exists:" [bool] | "not" "exists" | ["not"] "in" list | ["not"] "like" value
                 | operator value)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnout.errors import InvalidInput
from turnout.query import literals
from turnout.query.columns import OPERATORS, ORDER, PATTERNS, RUNS, WILDCARDS, Kind, Table
from turnout.query.expression import And, Compare, Exists, Expression, Not, Op, Or, Scalar
from turnout.query.problem import shown
from turnout.query.reader import KEYWORDS, Reader
from turnout.query.tokens import Shape, Token

MAX_DEPTH = 64
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
MAX_FILTERS = 64
_SIGNS = {"=": Op.EQ, "==": Op.EQ, "!=": Op.NE, "<>": Op.NE, "~": Op.MATCH, ":regex:": Op.MATCH, "!~": Op.NO_MATCH} | {
    op.value: op for op in (Op.LT, Op.LE, Op.GT, Op.GE)
}

_NOUN = {
    Kind.TEXT: "text",
    Kind.STATE: "one of its words",
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.SPAN: "a length of time",
    Kind.SIZE: "a number of bytes",
    Kind.TIME: "a time",
    Kind.ANY: "text, a number or true/false",
}


def parse(text: str, table: Table = RUNS) -> Expression:
    """What `text` asks for. Raises InvalidInput, pointing at the place, for anything that is not a filter."""
    return _Parser(text, "filter", table=table).filter()


def parse_all(texts: Sequence[str], table: Table = RUNS) -> Expression | None:
    """All of `texts` at once; None when there are none. Raises InvalidInput like :func:`parse`."""
    if len(texts) > MAX_FILTERS:
        raise InvalidInput(
            f"{len(texts)} filters are too many", hint=f"give at most {MAX_FILTERS}, or join them with `and`"
        )
    parts = [parse(text, table) for text in texts]
    if len(parts) < 2:
        return parts[0] if parts else None
    return And(tuple(parts))


class _Parser(Reader):
    _depth = 0

    def filter(self) -> Expression:
        if self.next.shape is Shape.END:
            raise self.error(self.next, "the filter is empty", "write for example: state = failed")
        parts = [self._choice()]
        while self.take_sign(","):
            parts.append(self._choice())
        self.expect_end("join conditions with `and` or `or`; put text with spaces in quotes")
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _choice(self) -> Expression:
        return self._chain("or", self._sequence, Or)

    def _sequence(self) -> Expression:
        return self._chain("and", self._negation, And)

    def _chain(self, word: str, part: Callable[[], Expression], join: type[And | Or]) -> Expression:
        parts = [part()]
        while self.take_word(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(tuple(parts))

    def _negation(self) -> Expression:
        opened = self.next
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(opened, f"nested more than {MAX_DEPTH} deep", "say it with fewer `not` and parentheses")
        inner: Expression
        if self.take_word("not"):
            inner = Not(self._negation())
        elif self.take_sign("("):
            inner = self._choice()
            if not self.take_sign(")"):
                raise self.error(opened, "the parenthesis is not closed", "end it with )")
        else:
            inner = self._condition()
        self._depth -= 1
        return inner

    def _condition(self) -> Expression:
        first = self.next
        column = self.column()
        written = self.written_since(first)
        if self.take_word("exists"):
            return Exists(column)
        if self.take_sign(":exists:"):
            return self._xt_exists(column)
        negated = self.take_word("not")
        if negated and self.take_word("exists"):
            return Not(Exists(column))
        if self.next.shape is Shape.WORD and self.next.text.lower() == "in":
            return self._membership(column, Op.NOT_IN if negated else Op.IN)
        if self.next.shape is Shape.WORD and self.next.text.lower() == "like":
            return self._comparison(column, Op.UNLIKE if negated else Op.LIKE)
        if not negated and self.next.shape is Shape.SIGN and self.next.text in _SIGNS:
            return self._comparison(column, _SIGNS[self.next.text])
        hint = f"write `{written} exists`, or one of = != < <= > >= ~ !~ like in"
        raise self.error(self.next, f"an operator is missing after {shown(written)}", hint)

    def _xt_exists(self, column: str) -> Expression:
        if self.take_word("false", "$false"):
            return Not(Exists(column))
        self.take_word("true", "$true")
        return Exists(column)

    def _membership(self, column: str, op: Op) -> Expression:
        self._allow(column, op, self.take())
        opened = self.next
        if not self.take_sign("("):
            raise self.error(opened, "a list is missing after `in`", "write for example: state in (failed, cancelled)")
        values = [self._value(column, op)]
        while self.take_sign(","):
            values.append(self._value(column, op))
        if not self.take_sign(")"):
            raise self.error(opened, "the list is not closed", "separate values by commas and end with )")
        return Compare(column, op, tuple(values))

    def _comparison(self, column: str, op: Op) -> Expression:
        sign = self.take()
        if op in (Op.EQ, Op.NE):
            if self.take_word("none", "null", "$none"):
                return Not(Exists(column)) if op is Op.EQ else Exists(column)
            if self.take_word("$exists"):
                return Exists(column) if op is Op.EQ else Not(Exists(column))
        self._allow(column, op, sign)
        return Compare(column, op, self._value(column, op))

    def _allow(self, column: str, op: Op, sign: Token) -> None:
        kind = self._table.field_of(column).kind
        if op in OPERATORS[kind]:
            return
        hint = f"{column} takes " + " ".join(name for name in Op if name in OPERATORS[kind]) + " exists"
        if kind is Kind.TIME:
            hint = (
                f"write `{column} >= 2024-05-01 and {column} < 2024-05-02`, or `{column} < 2h` for the last two hours"
            )
        raise self.error(sign, f"`{op}` does not work on {column}, which is {_NOUN[kind]}", hint)

    def _value(self, column: str, op: Op) -> Scalar:
        token = self.next
        quoted = token.shape is Shape.STRING
        if not quoted and (token.shape is not Shape.WORD or token.text.lower() in KEYWORDS):
            raise self.error(token, "a value is missing", "put text that is also a keyword in quotes")
        self.take()
        if op in WILDCARDS:
            return token.text
        if op in PATTERNS:
            return self._pattern(token, quoted)
        field = self._table.field_of(column)
        try:
            value = literals.read(token.text, field, quoted=quoted)
        except literals.Unfit as error:
            raise self.error(token, f"{column} is {_NOUN[field.kind]}: {error}", error.hint) from None
        if op in ORDER and isinstance(value, str | bool):
            hint = "compare text with = != ~ like or in"
            raise self.error(token, f"`{op}` needs a number, not {shown(token.text)}", hint)
        return value

    def _pattern(self, token: Token, quoted: bool) -> str:
        """Backslashes belong to the expression, but for those before a quote."""
        written = self._text[token.start : token.end]
        pattern = _ESCAPED.sub(lambda found: found[1] if found[1] in "\"'" else found[0], written[1:-1])
        pattern = pattern if quoted else written
        from turnout.query import regex  # only who uses it pays for it

        try:
            regex.check(pattern)
        except regex.BadPattern as error:
            at = min(token.start + quoted + error.at, token.end - 1)
            place = Token(token.shape, token.text, at, at + 1)
            hint = "`~` takes a regular expression; `like` takes a pattern where * is anything and ? one character"
            raise self.error(place, str(error), hint) from None
        return pattern
