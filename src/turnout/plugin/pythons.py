"""Which Python agents begin with on a machine where nothing of ours is installed."""

from __future__ import annotations

from typing import Sequence

#: What it may be called there.
_NAMES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9")

#: For a shell: ``$python`` is the first of its arguments that is new enough, or empty.
CHOOSE = (
    'python=; for each in "$@"; do "$each" -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null '
    '&& python="$each" && break; done'
)
#: What there is to say where ``$python`` is empty; in double quotes a shell names those that were tried.
NONE = "no Python 3.9 or newer there, tried: $*"
#: The same, for a script that cannot go on without.
REQUIRE = f'{CHOOSE}; [ -n "$python" ] || {{ echo "{NONE}" >&2; exit 3; }}'


def to_try(named: str) -> Sequence[str]:
    """The arguments for it: the one that a person named, or else all that may be there."""
    return [named] if named else _NAMES
