"""NNI itself, for the tests that need it: it lives in a Python of its own, since it is large and brings old things."""

from __future__ import annotations

import os
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


def _has_nni(python: str) -> bool:
    """Without importing it: that takes a second."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('nni') is None)"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False
