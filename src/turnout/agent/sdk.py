"""Puts ``import turnout`` within reach of runs on machines where turnout is not installed."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from typing import Dict

_LINK = "turnout"
#: file of the installed package -> file of turnout.track it is a copy of
_FILES = {
    "__init__.py": "stub.py",
    "track/__init__.py": "__init__.py",
    "track/spool.py": "spool.py",
    "track/values.py": "values.py",
}


def install(directory: str) -> None:
    """On return `directory`, put first on PYTHONPATH, gives runs the package ``turnout``.

    Idempotent: what is there and whole is left alone; what is old or damaged is replaced in one step, so that a run
    starting meanwhile imports either the former package or the new one. Several agents may do it at once.
    Raises OSError when the directory cannot be written.
    """
    wanted = _sources()
    os.makedirs(directory, mode=0o700, exist_ok=True)
    link = os.path.join(directory, _LINK)
    if _present(link, wanted):
        return
    package = tempfile.mkdtemp(prefix=".turnout-", dir=directory)
    os.mkdir(os.path.join(package, "track"), 0o700)
    for name, content in wanted.items():
        with open(os.open(os.path.join(package, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    fresh = package + ".link"
    os.symlink(os.path.basename(package), fresh)
    os.replace(fresh, link)


def _sources() -> Dict[str, bytes]:
    """The files to install, read by the loader turnout itself came from: a directory or a zip file."""
    spec = find_spec("turnout.track")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("this turnout carries no turnout.track")
    read = spec.loader.get_data  # type: ignore[union-attr]
    folder = os.path.dirname(spec.origin)
    return {name: bytes(read(os.path.join(folder, source))) for name, source in _FILES.items()}


def _present(package: str, wanted: Dict[str, bytes]) -> bool:
    for name, content in wanted.items():
        try:
            with open(os.path.join(package, name), "rb") as file:
                if file.read() != content:
                    return False
        except OSError:
            return False
    return True
