"""Patterns of the files that a run leaves: ``*`` and ``?`` stay within a directory, ``**`` is any number of them, and a
directory stands for all it holds."""

from __future__ import annotations

import fnmatch
import re
from typing import Callable, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

_GLOB = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\[([*?\[])\]")


class Step(NamedTuple):
    """One part of a pattern: a plain name, a glob within one directory, or ``**`` (`any_depth`)."""

    name: str
    matches: Optional[Callable[[str], object]] = None
    any_depth: bool = False


Rest = Tuple[Step, ...]
"""What of a pattern is still to be matched below a directory; empty = everything below."""


def is_glob(text: str) -> bool:
    return _GLOB.search(text) is not None


def plain_path(pattern: str) -> Optional[str]:
    """The path that it stands for, if it is but one: without signs, or with each in brackets."""
    return None if is_glob(_ESCAPED.sub("", pattern)) else _ESCAPED.sub(r"\1", pattern)


def escape(path: str) -> str:
    """The pattern that this path alone matches."""
    return _GLOB.sub(r"[\g<0>]", path) if _GLOB.search(path) else path


def compile_pattern(pattern: str) -> Optional[Rest]:
    """The steps of a pattern; None for one that can match nothing inside (empty, ``..``, NUL). ``**/**`` is ``**``."""
    if not pattern or pattern.startswith("!"):
        return None
    steps: List[Step] = []
    for part in pattern.strip("/").split("/"):
        if part == ".." or "\0" in part:
            return None
        if part in ("", "."):
            continue
        if part == "**":
            if not steps or not steps[-1].any_depth:
                steps.append(Step(part, any_depth=True))
        elif is_glob(part):
            steps.append(Step(part, matches=re.compile(fnmatch.translate(part)).match))
        else:
            steps.append(Step(part))
    if len(steps) > 1 and steps[-1].any_depth:
        steps.pop()  # `output/**` is all of `output`
    return tuple(steps)


def compile_omitted(pattern: str) -> Optional[Rest]:
    """The steps of a pattern behind ``!``; None for any other."""
    plain = pattern[1:].strip("/")
    if not pattern.startswith("!") or not plain:
        return None
    return compile_pattern(pattern[1:] if "/" in plain else f"**/{plain}")


def advance(rests: FrozenSet[Rest], name: str) -> FrozenSet[Rest]:
    """What is left of each pattern that `name` can continue; an empty rest among them = it is matched."""
    left = set()
    for rest in rests:
        if not rest:
            left.add(rest)
            continue
        head = rest[0]
        if head.any_depth:
            left.add(rest)
            left |= advance(frozenset((rest[1:],)), name) if len(rest) > 1 else {()}
        elif head.matches(name) if head.matches else head.name == name:
            left.add(rest[1:])
    return frozenset(left)


def leads_on(pattern: str, path: str) -> bool:
    """Whether the pattern takes this path, or may take something below it."""
    compiled = compile_pattern(pattern)
    rests = frozenset() if compiled is None else frozenset([compiled])
    for part in path.split("/"):
        rests = advance(rests, part)
    return bool(rests)


def onward(rests: FrozenSet[Rest]) -> Callable[[str], FrozenSet[Rest]]:
    """`advance` for the many names of one directory."""
    named: Dict[str, Set[Rest]] = {}
    for rest in rests:
        if rest and _is_plain(rest[0]):
            named.setdefault(rest[0].name, set()).add(rest[1:])
    others = frozenset(rest for rest in rests if not rest or not _is_plain(rest[0]))
    return lambda name: advance(others, name) | named.get(name, set())


def _is_plain(step: Step) -> bool:
    return step.matches is None and not step.any_depth


def above(path: str) -> Iterator[str]:
    """The directories it lies in, from the next to the run's own, which is ""."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Tells of a path whether one of the patterns takes it. Thousands of plain paths cost no more than one."""
    compiled = frozenset(rest for rest in map(compile_pattern, patterns) if rest is not None)
    plain = {rest for rest in compiled if rest and all(map(_is_plain, rest))}
    paths = {"/".join([step.name for step in rest]) for rest in plain}
    others = compiled - plain

    def is_taken(path: str) -> bool:
        if paths and (path in paths or any(folder in paths for folder in above(path))):
            return True
        rests = others
        for part in path.split("/"):
            rests = advance(rests, part)
        return () in rests

    return is_taken


def exact_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """As `matcher`, but a directory stands for itself: what it holds is taken only by ``**``."""
    compiled = {pattern: rest for pattern in patterns if (rest := compile_pattern(pattern)) is not None}
    deep = frozenset(rest for pattern, rest in compiled.items() if pattern.rstrip("/").endswith("/**"))
    flat = frozenset(compiled.values()) - deep

    def is_taken(path: str) -> bool:
        rests, below = flat, deep
        for part in path.split("/"):
            if () in below:
                return True
            rests, below = advance(rests - {()}, part), advance(below, part)
        return () in rests

    return is_taken


def given(patterns: Sequence[str]) -> Callable[[str], bool]:
    """As `matcher`, but for the very files that a pattern behind ``!`` takes, and none after that takes again."""
    behind = [number for number, each in enumerate(patterns) if each.startswith("!")]
    if not behind:
        return matcher(patterns)
    first, last = behind[0], behind[-1]
    is_taken, is_again = matcher(patterns[:first]), matcher(patterns[last + 1 :])
    is_omitted = exact_matcher([each[1:] for each in patterns[first : last + 1] if each.startswith("!")])
    return lambda path: is_again(path) or (is_taken(path) and not is_omitted(path))
