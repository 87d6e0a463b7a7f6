"""``turnout exec``: a script that was written for another tool, run as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from turnout.cli import render
from turnout.errors import NotFound

#: The program that runs it; started, not imported: a script must not find what is loaded here.
_PROGRAM = "turnout.compat"


def execute(script: str, arguments: tuple[str, ...], json: bool) -> int:
    """In the place of this process; with `json`, beside it, and what it printed is told. Gives its exit code."""
    if not Path(script).is_file():
        raise NotFound(f"no script {script!r} here", hint="check the path: turnout exec SCRIPT.py [ARGS]")
    argv = [sys.executable, "-P", "-m", _PROGRAM, script, *arguments]
    if not json:
        sys.stdout.flush()
        os.execv(argv[0], argv)
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode(errors="replace")
    render.print_json({"script": script, "exit_code": done.returncode, "text": text})
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
