"""``python -m turnout.agent``: its order comes by standard input: no token is ever in argv or environment.

``… exec``: see `turnout.agent.oneshot`; ``… relay``: see `turnout.agent.relay`.
"""

from __future__ import annotations

import json
import os
import sys

from turnout.agent import launcher
from turnout.agent.privacy import keep_memory_private


def main() -> None:
    if sys.argv[1:2] == ["exec"]:
        from turnout.agent import oneshot

        sys.exit(oneshot.main(sys.argv[2:]))
    if sys.argv[1:2] == ["relay"]:
        from turnout.agent import relay

        keep_memory_private()
        relay.main(json.load(sys.stdin))
        return
    os.umask(0o077)
    keep_memory_private()
    # First of all: what is in memory now is copied into every supervisor. So nothing large, and not the token.
    warm = launcher.start(keep=_supervisors_kept())
    order = json.load(sys.stdin)
    from turnout.agent import node

    node.run(order, warm)


def _supervisors_kept() -> int:
    """Enough for short runs on all processors; each costs a megabyte or two for some seconds."""
    return min(2 * (os.cpu_count() or 1) + 2, 64)


main()
