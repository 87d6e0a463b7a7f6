"""A PBS for tests: commands in a directory that goes on PATH. There is no server behind them: see `pbs_commands`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from turnout.testing import pbs_commands


def install(folder: Path, family: str = "pro") -> Path:
    """Commands of this family (``pro`` or ``torque``) and their memory, in `folder`; returns what goes on PATH."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for name in ("qsub", "qstat", "qdel"):
        argv = shlex.join([sys.executable, "-I", "-S", pbs_commands.__file__, str(folder), family, name])
        (commands / name).write_text(f'#!/bin/sh\nexec {argv} "$@"\n')
        (commands / name).chmod(0o755)
    return commands
