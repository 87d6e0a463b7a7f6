"""The agent as one file, for machines where turnout is not installed."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_PARTS = ("agent", "wire", "track")
_MAIN = 'import runpy\n\nrunpy.run_module("turnout.agent", run_name="__main__")\n'
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same content is the same file


def build(directory: Path) -> Path:
    """A file that, put on PYTHONPATH, has the module ``turnout.agent`` and all it needs, and that Python can run as it
    is. Idempotent."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(_sources().items()):
            archive.writestr(zipfile.ZipInfo(f"turnout/{name}", _WHEN), text, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("__main__.py", _WHEN), _MAIN, zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
    path = directory / f"agent-{digest}.pyz"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")  # several places may want it at once
        fresh.write_bytes(content.getvalue())
        fresh.replace(path)
    return path


def _sources() -> dict[str, bytes]:
    package = files("turnout")
    found = {"__init__.py": b"", "_version.py": package.joinpath("_version.py").read_bytes()}
    for part in _PARTS:
        found |= _python_files(package.joinpath(part), part)
    return found


def _python_files(folder: Traversable, prefix: str) -> dict[str, bytes]:
    return {f"{prefix}/{each.name}": each.read_bytes() for each in folder.iterdir() if each.name.endswith(".py")}
