"""Commands with a word that is longer than Linux takes: it goes by a file, and a short one says where that lies.

Linux hands a program up to 128 KiB in one argument (MAX_ARG_STRLEN), and the text of a command with thousands of files
in it is longer. A shell reads such a text from a file as well; what calls a function does so, too.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import List, NamedTuple, Optional

LONGEST = (1 << 17) - 1  # bytes of one argument, the one that ends it aside
#: The first word of an argv that calls a function of Python. Two follow: ``module:name``, and its arguments as JSON.
CALL = "turnout-call"
#: In place of those arguments: this, and the path of a file that holds them.
FILE = "@"
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_OPTIONS = re.compile(r"[-+][A-Za-z]+|--[a-z]+")


class Shortened(NamedTuple):
    """What is executed instead, and what its file has to hold."""

    argv: List[str]
    text: str


def shorten(argv: List[str], path: str) -> Optional[Shortened]:
    """`argv` with its long word in a file at `path`; None when it has none, or nobody would look into that file.

    A shell does as if it had the text itself: with its options, ``$0`` and arguments, and with its exit code.
    """
    at = _place(argv)
    if at is None or at >= len(argv) or size(argv[at]) <= LONGEST or "\0" in argv[at]:
        return None
    instead = FILE + path if argv[0] == CALL else f". {shlex.quote(path)}"
    return Shortened([*argv[:at], instead, *argv[at + 1 :]], argv[at])


def size(word: str) -> int:
    """The bytes it has as an argument."""
    return len(word) if word.isascii() else len(word.encode("utf-8", "surrogateescape"))


def _place(argv: List[str]) -> Optional[int]:
    """Which word may go by a file: the text that a shell was given to execute (``-c``), or the arguments of a call."""
    if argv[:1] == [CALL]:
        return 2
    if not argv or os.path.basename(argv[0]) not in _SHELLS:
        return None
    at, has_text = 1, False
    while at < len(argv) and _OPTIONS.fullmatch(argv[at]):
        letters = "" if argv[at].startswith("--") else argv[at]
        has_text = has_text or (letters.startswith("-") and "c" in letters)
        at += 1 + letters.count("o") + letters.count("O")  # each takes a word: ``-euo pipefail``
    return at if has_text else None
