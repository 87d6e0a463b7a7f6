"""``turnout exec SCRIPT [ARGS]``: a script runs as it would with ``python SCRIPT``, and finds the import aliases."""

from __future__ import annotations

import os
import runpy
import sys

from turnout.compat import aliases


def main() -> None:
    sys.argv = sys.argv[1:]
    script = sys.argv[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    aliases.install()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
