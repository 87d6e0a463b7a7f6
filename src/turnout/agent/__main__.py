"""``python -m turnout.agent``: reads its order from standard input, so that no token is ever in argv, environment or a file."""

from __future__ import annotations

import json
import os
import sys

from turnout.agent import launcher


def main() -> None:
    order = json.load(sys.stdin)
    os.umask(0o077)
    warm = launcher.start()  # before anything large is imported: it is copied into every supervisor
    from turnout.agent import node

    node.run(order, warm)


main()
