"""One statement of a file: a line, or several that are one because they end in ``\\``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Token, Tree
from lark.tree import Meta

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe.file import Entry, Inputs, Item, Output, Part, Spot
from turnout.pipeline.metapipe.grammar import Inside, Unexpected, tree_of
from turnout.pipeline.metapipe.problem import place, problem, shown

_COMMENT = re.compile(r"\s+#.*")
_NO_EXTENSION = re.compile(r"[^\w.+@%=-]")
_OUTPUTS = "an output stands alone in its braces: {o}, {o.csv} or {o:*.counts}"
_BRACES = {
    Inside.TEXT: "a brace of the command itself is doubled: }}",
    Inside.VARIABLE: "close the ${ of the shell's variable",
    Inside.OUTPUT: _OUTPUTS,
}
_ENTRIES = {
    "file": "write ALIAS. PATH, as in: 1. somefile.txt",
    "path": "write WORD PATH, as in: python /usr/bin/python3",
}


class Statement:
    """`text` begins at `spot` of the file `name`. All its methods raise InvalidInput where it is not what they read."""

    def __init__(self, name: str, spot: Spot, text: str) -> None:
        self.spot = spot
        self.text = text
        self._name = name

    def command(self) -> tuple[Part, ...]:
        """Text as it is to stand in the script, and what the patterns say."""
        parts: list[Part] = []
        for part in self._parts(self._tree("command")):
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
        return tuple(parts)

    def file(self) -> tuple[str, Entry]:
        """The alias, and the file or pattern it stands for. A comment may follow."""
        alias, entry = self._entry("file")
        if alias in ("o", "O"):
            raise self.problem(0, "o marks outputs, and is no alias", "give the file another alias")
        return alias, entry._replace(value=_COMMENT.sub("", entry.value))

    def path(self) -> tuple[str, Entry]:
        """The word, and what takes its place: all the rest of the line."""
        return self._entry("path")

    def problem(self, at: int, what: str, instead: str) -> InvalidInput:
        """About the character at `at` of the text."""
        spot = self._spot(self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at))
        return problem(place(self._name, spot), what, instead)

    def _spot(self, line: int, column: int) -> Spot:
        """Where in the file a line and column of the text are."""
        return Spot(self.spot.line + line - 1, column + self.spot.column - 1 if line == 1 else column)

    def _of(self, token: Token | Meta) -> Spot:
        assert token.line is not None and token.column is not None
        return self._spot(token.line, token.column)

    def _tree(self, start: str) -> Tree[Token]:
        try:
            return tree_of(self.text, start)
        except Unexpected as error:
            found = self.text[error.at :].split(maxsplit=1)
            what = f"expected {error.expected}, found {shown(found[0]) if found else 'the end of the line'}"
            raise self.problem(error.at, what, _ENTRIES.get(start) or self._hint(error)) from None

    def _hint(self, error: Unexpected) -> str:
        if error.inside is not Inside.PATTERN:
            return _BRACES[error.inside]
        begin, end = self.text.rfind("{", 0, error.at), self.text.find("}", error.at)
        if end < 0:
            return "close the pattern; a brace of the command itself is doubled: {{"
        return f"braces of the command itself are doubled: {{{shown(self.text[begin : end + 1])}}}"

    def _entry(self, start: str) -> tuple[str, Entry]:
        alias, value = self._tree(start).children
        assert isinstance(alias, Token) and isinstance(value, Token)
        return alias.value, Entry(value.value.rstrip(), self._of(value))

    def _parts(self, tree: Tree[Token]) -> Iterator[Part]:
        for child in tree.children:
            if isinstance(child, Token):
                yield child.value[0] if child.type == "DOUBLE" else child.value
            elif child.data == "variable":
                yield self.text[child.meta.start_pos : child.meta.end_pos]
            else:
                yield self._output(child) if child.data == "output" else self._inputs(child)

    def _output(self, tree: Tree[Token]) -> Output:
        (token,) = tree.children
        assert isinstance(token, Token)
        begin, kind, rest = _begin(token), token.value[1:2], token.value[2:]
        if kind and not rest:
            what = "an extension" if kind == "." else "a file or a pattern"
            raise self.problem(begin + 2, f"expected {what} behind {token.value}", _OUTPUTS)
        wrong = _NO_EXTENSION.search(rest) if kind == "." else None
        if wrong is not None:
            hint = "{o:PATTERN} is for files whose names the command makes up"
            raise self.problem(begin + 2 + wrong.start(), f"expected an extension, found {wrong[0]}", hint)
        spot = self._of(tree.meta)
        return Output(spot=spot, extension=f".{rest}" if kind == "." else "", glob=rest if kind == ":" else "")

    def _inputs(self, tree: Tree[Token]) -> Inputs:
        groups = [child for child in tree.children if isinstance(child, Tree) and child.data == "group"]
        begin = tree.meta.start_pos
        return Inputs(
            spot=self._of(tree.meta),
            written=shown(self.text[begin : tree.meta.end_pos]),
            groups=tuple(tuple(self._item(token) for token in group.children) for group in groups),
            each=len(groups) < len(tree.children),
        )

    def _item(self, token: Token | Tree[Token]) -> Item:
        assert isinstance(token, Token)
        if token.value.lower() == "o" or token.value[:2].lower() in ("o.", "o:"):
            raise self.problem(_begin(token), f"expected a file, found {token.value}", _OUTPUTS)
        return Item(token.value, self._of(token))


def _begin(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos
