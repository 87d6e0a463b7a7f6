"""NNI itself, for the tests that need it: it lives in a Python of its own, since it is large and brings old things."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from tests.components import _needed

_ROOT = Path(__file__).parents[1]
#: Where `scripts/test-deps nni` puts it.
_USUAL = _ROOT / ".venv" / "nni" / "bin" / "python"


def nni_python() -> str:
    """A Python that can import nni. A test that asks is skipped where there is none; under CI it fails."""
    named = os.environ.get("TURNOUT_TEST_NNI_PYTHON") or str(_USUAL)
    how = "`python -m venv D && D/bin/pip install nni`, and set TURNOUT_TEST_NNI_PYTHON=D/bin/python"
    return _needed(named if _has_nni(named) else None, "NNI", how)


def nni_command(user: str) -> str:
    """The same for another user, who may be kept from that Python; as words for a shell. Then it is the system's own,
    with the library of the first."""
    python = nni_python()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    library = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    commands = (shlex.quote(python), f"PYTHONPATH={shlex.quote(library)} /usr/bin/python3")
    found = next((each for each in commands if _is_for(user, f"{each} -c 'import nni'")), None)
    how = "set TURNOUT_TEST_NNI_PYTHON to a Python that everybody may execute"
    return _needed(found, f"NNI for the user {user}", how)


def _is_for(user: str, command: str) -> bool:
    return subprocess.run(["su", user, "-c", command], cwd="/", capture_output=True).returncode == 0


def _has_nni(python: str) -> bool:
    """Without importing it: that takes a second."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('nni') is None)"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False
