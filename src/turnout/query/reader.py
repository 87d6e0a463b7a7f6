"""A place in the tokens of a text, and the column names found there."""

from __future__ import annotations

from turnout.errors import InvalidInput
from turnout.query.columns import PLAIN_NAME, RUNS, Table
from turnout.query.problem import problem, shown
from turnout.query.tokens import Shape, Token, tokenize

KEYWORDS = frozenset({"and", "or", "not", "in", "exists", "none", "null", "like"})


class Reader:
    """Goes through `text`. Errors say `what` it is; `whole` and `offset` tell where it stands in a larger text."""

    def __init__(self, text: str, what: str, *, table: Table = RUNS, whole: str | None = None, offset: int = 0) -> None:
        self._text = text
        self._table = table
        self._what = what
        self._whole = text if whole is None else whole
        self._offset = offset
        self._tokens = tokenize(text, what)
        self._at = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def take(self) -> Token:
        """The next token, passing it. Never called at the end."""
        self._at += 1
        return self._tokens[self._at - 1]

    def take_word(self, *words: str) -> bool:
        """Passes the next token if it is one of these words."""
        return self._take_if(Shape.WORD, words)

    def take_sign(self, *signs: str) -> bool:
        return self._take_if(Shape.SIGN, signs)

    def _take_if(self, shape: Shape, texts: tuple[str, ...]) -> bool:
        found = self.next.shape is shape and self.next.text.lower() in texts
        self._at += found
        return found

    def written_since(self, first: Token) -> str:
        """The text from `first` to the last token that was passed."""
        return self._text[first.start : self._tokens[self._at - 1].end]

    def expect_end(self, hint: str) -> None:
        if self.next.shape is not Shape.END:
            raise self.error(self.next, f"{shown(self.next.text)} is not expected here", hint)

    def error(self, token: Token, message: str, hint: str = "") -> InvalidInput:
        start, end = self._offset + token.start, self._offset + token.end
        return problem(self._what, self._whole, start, end, message, hint)

    def column(self) -> str:
        """The canonical name of the column that comes next. Raises InvalidInput when none does."""
        token = self.next
        if token.shape is not Shape.WORD or token.text.lower() in KEYWORDS:
            raise self.error(token, "a column is missing", "write for example state, or metrics.loss")
        self.take()
        if token.text.endswith(".") and self.next.shape is Shape.STRING and self.next.start == token.end:
            column = self._table.canonical(token.text + self.take().text)
        else:
            column = self._table.canonical(token.text)
            space, dot, name = token.text.partition(".")
            if column and dot and not PLAIN_NAME.match(name):
                raise self.error(token, f"{shown(token.text)} needs quotes", f'write {space}."{name}"')
        if column is None:
            raise self.error(token, f"there is no column {shown(token.text)}", self._table.hint_for(token.text))
        return column
