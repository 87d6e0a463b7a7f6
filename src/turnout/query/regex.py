"""Regular expressions that take time in proportion to the text, whatever they say: a filter may come from anyone.

They are the usual ones without back-references and look-around: characters and their classes, ``. ^ $ | ( )``,
``* + ? {2} {2,} {2,5}``, ``\\d \\w \\s`` (of ASCII) and their opposites; ``(?i)`` at the beginning lets upper and lower
case be the same. A dot is any character. Text is *searched*: ``^`` and ``$`` bind a pattern to its beginning and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

_MOST_STATES = 2000
_MOST_REPEATS = 100
_MOST_KNOWN = 20_000
_DEEPEST = 50
_ANY = 0x10FFFF
_SETS = {"d": ((48, 57),), "w": ((48, 57), (65, 90), (95, 95), (97, 122)), "s": ((9, 13), (32, 32))}
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_SPECIAL = frozenset("\\.^$|()[]{}*+?")
Ranges = tuple[tuple[int, int], ...]


class BadPattern(ValueError):
    """Not a pattern; `at` is where in it."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of (or, negated, outside) these ranges of code points."""

    ranges: Ranges
    negated: bool = False

    def has(self, character: str) -> bool:
        code = ord(character)
        return any(low <= code <= high for low, high in self.ranges) != self.negated


@dataclass(frozen=True, slots=True)
class Edge:
    """The beginning or the end of the text."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` None = without end."""

    part: Node
    least: int
    most: int | None


Node = Chars | Edge | Sequence | Choice | Repeat


def search(pattern: str, text: str | None) -> bool:
    """Whether `pattern` is found in `text`; never in None. Raises BadPattern. For any thread."""
    return text is not None and _compiled(pattern).search(text)


def parse(pattern: str) -> Node:
    """Raises BadPattern."""
    return _Parser(pattern).whole()


def to_posix(node: Node) -> str:
    """The same as PostgreSQL writes it, in a form that depends on no setting or language of the server."""
    match node:
        case Chars(ranges, negated):
            return "[" + "^" * negated + "".join(map(_posix_range, ranges)) + "]" if ranges != ((0, _ANY),) else "."
        case Edge(is_end):
            return "$" if is_end else "^"
        case Sequence(parts):
            return "".join(map(to_posix, parts))
        case Choice(parts):
            return "(?:" + "|".join(map(to_posix, parts)) + ")"
        case Repeat(part, least, most):
            inner = to_posix(part)
            return f"(?:{inner}){{{least},{'' if most is None else most}}}"


def _posix_range(ends: tuple[int, int]) -> str:
    low, high = (f"\\U{code:08x}" for code in ends)
    return low if low == high else f"{low}-{high}"


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._ignores_case = pattern.startswith("(?i)")
        self._text = pattern
        self._at = 4 if self._ignores_case else 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise BadPattern("a parenthesis is closed that was never opened", self._at)
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise BadPattern("the pattern ends too early", len(self._text))
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self) -> Node:
        begin = self._at
        node = self._atom()
        while self._peek() in ("*", "+", "?", "{"):
            sign = self._take()
            least, most = self._bounds() if sign == "{" else {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            if isinstance(node, Edge):
                raise BadPattern("nothing to repeat", begin)
            node = Repeat(node, least, most)
            if self._peek() == "?":  # takes as little as it can: the same, where only finding matters
                self._at += 1
        return node

    def _bounds(self) -> tuple[int, int | None]:
        begin = self._at
        end = self._text.find("}", begin)
        low, comma, high = self._text[begin : max(end, begin)].partition(",")
        if end < 0 or not low.isascii() or not low.isdigit() or (high and not (high.isascii() and high.isdigit())):
            raise BadPattern("write {2}, {2,} or {2,5}; a brace itself as \\{", begin)
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise BadPattern(f"repeats go from 0 to {_MOST_REPEATS}, the smaller number first", begin)
        self._at = end + 1
        return least, most

    def _atom(self) -> Node:
        at, character = self._at, self._take()
        if character == "(":
            return self._group(at)
        if character == "[":
            return self._class(at)
        if character == "\\":
            ranges, negated = self._escape()
            return Chars(ranges, negated) if negated or len(ranges) > 1 else self._cased(ranges)
        if character in "^$":
            return Edge(character == "$")
        if character in "*+?{":
            raise BadPattern("nothing to repeat", at)
        return Chars(((0, _ANY),)) if character == "." else self._cased(_one(character))

    def _group(self, at: int) -> Node:
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._peek() == "?":
            raise BadPattern("groups are ( ) or (?: )", at)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadPattern("nested too deeply", at)
        node = self._choice()
        if self._peek() != ")":
            raise BadPattern("the parenthesis is not closed", at)
        self._at += 1
        self._depth -= 1
        return node

    def _escape(self) -> tuple[Ranges, bool]:
        at, character = self._at - 1, self._take()
        if character.lower() in _SETS:
            return _SETS[character.lower()], character.isupper()
        if character in _PLAIN:
            return _one(_PLAIN[character]), False
        if character.isalnum():
            raise BadPattern(f"\\{character} is not known", at)
        return _one(character), False

    def _class(self, at: int) -> Node:
        negated = self._peek() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        begin = self._at
        while self._at == begin or self._peek() != "]":
            if self._at >= len(self._text):
                raise BadPattern("the bracket is not closed", at)
            ranges += self._member()
        self._at += 1
        return self._cased(tuple(ranges), negated)

    def _member(self) -> Ranges:
        low, at = self._class_character(), self._at
        if self._peek() != "-" or self._text[at + 1 : at + 2] in ("]", "") or len(low) > 1:
            return low
        self._at += 1
        high = self._class_character()
        if len(high) > 1 or high[0][1] < low[0][0]:
            raise BadPattern("a range goes from a smaller to a larger character", at)
        return ((low[0][0], high[0][1]),)

    def _class_character(self) -> Ranges:
        at, character = self._at, self._take()
        if character != "\\":
            return _one(character)
        ranges, negated = self._escape()
        if negated:
            raise BadPattern("write [^…] for all others", at)
        return ranges

    def _cased(self, ranges: Ranges, negated: bool = False) -> Chars:
        if not self._ignores_case:
            return Chars(ranges, negated)
        more = []
        for low, high in ranges:
            for code in range(low, min(high, low + 255) + 1):
                more += [(ord(form), ord(form)) for form in (chr(code).lower(), chr(code).upper()) if len(form) == 1]
        return Chars((*ranges, *sorted(set(more))), negated)


def _one(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


class _Machine:
    """All ways through the pattern at once. A state is a step: `_chars` reads one character, others read none."""

    def __init__(self, node: Node) -> None:
        self._chars: dict[int, Chars] = {}
        self._edges: dict[int, bool] = {}
        self._next: list[tuple[int, ...]] = []
        end = self._add(())
        self._end = end
        self._begin = self._build(node, end)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._anew = self._closure([self._begin], at_start=False)

    def search(self, text: str) -> bool:
        state = self._closure([self._begin], at_start=True)
        known = self._known
        for character in text:
            if self._end in state:
                return True
            key = (state, character)
            following = known.get(key)
            if following is None:
                following = self._step(state, character)
                if len(known) > _MOST_KNOWN:
                    known.clear()
                known[key] = following
            state = following
        return self._end in self._closure(state, at_start=not text, at_end=True)

    def _step(self, state: frozenset[int], character: str) -> frozenset[int]:
        reached = [self._next[one][0] for one in state if one in self._chars and self._chars[one].has(character)]
        return self._closure(reached, at_start=False) | self._anew

    def _closure(self, states: list[int] | frozenset[int], *, at_start: bool, at_end: bool = False) -> frozenset[int]:
        """All that is reached without reading."""
        waiting, found = list(states), set(states)
        while waiting:
            state = waiting.pop()
            if state in self._chars or (state in self._edges and not (at_end if self._edges[state] else at_start)):
                continue
            fresh = [one for one in self._next[state] if one not in found]
            found.update(fresh)
            waiting += fresh
        return frozenset(found)

    def _add(self, following: tuple[int, ...]) -> int:
        if len(self._next) > _MOST_STATES:
            raise BadPattern("the pattern is too large", 0)
        self._next.append(following)
        return len(self._next) - 1

    def _build(self, node: Node, following: int) -> int:
        """The state where `node` begins, if `following` comes behind it."""
        match node:
            case Chars():
                state = self._add((following,))
                self._chars[state] = node
                return state
            case Edge(is_end):
                state = self._add((following,))
                self._edges[state] = is_end
                return state
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._build(part, following)
                return following
            case Choice(parts):
                return self._add(tuple(self._build(part, following) for part in parts))
            case Repeat(part, least, most):
                return self._build_repeat(part, least, most, following)

    def _build_repeat(self, part: Node, least: int, most: int | None, following: int) -> int:
        if most is None:
            loop = self._add((following,))
            self._next[loop] = (self._build(part, loop), following)
            following = loop
        else:
            out = following
            for _ in range(most - least):
                following = self._add((self._build(part, following), out))
        for _ in range(least):
            following = self._build(part, following)
        return following


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> _Machine:
    return _Machine(parse(pattern))


def check(pattern: str) -> None:
    """Raises BadPattern for what is none, or is too large."""
    _compiled(pattern)
