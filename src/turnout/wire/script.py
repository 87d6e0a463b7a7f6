"""Run scripts: where the arguments go."""

from __future__ import annotations

import re

ARGUMENTS = "$RUN_ARGS$"


def filled(script: str) -> str:
    """A run script with its place for the arguments filled: they come as the shell's own, never as text."""
    return "".join(map(_fill_line, script.splitlines(keepends=True)))


def _fill_line(line: str) -> str:
    """Each argument is a word of its own; amid other text in quotes they are one, with spaces between them."""
    before, found, after = line.partition(ARGUMENTS)
    if not found:
        return line
    if before.endswith('"') and after.startswith('"'):
        return before[:-1] + '"$@"' + _fill_line(after[1:])
    is_quoted = len(re.findall(r'(?<!\\)"', before)) % 2 == 1
    if not is_quoted:
        return before + '"$@"' + _fill_line(after)
    text, quote, rest = after.partition('"')
    return before + "$*" + text.replace(ARGUMENTS, "$*") + quote + _fill_line(rest)
