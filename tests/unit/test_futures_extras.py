"""A library that is not installed is told in one line, with what to type."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("library", "module", "extra"),
    [
        ("distributed", "dask", "dask"), ("distributed", "dask_target", "dask"), ("parsl", "parsl", "parsl"),
        ("celery", "celery", "celery"), ("ray", "ray", "ray"),
    ],
)  # fmt: skip
def test_what_to_install_is_said(library: str, module: str, extra: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import turnout.futures.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "MissingExtra" in last and f"turnout[{extra}]" in last
