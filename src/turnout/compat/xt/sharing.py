"""Shares for XT's `Run`: as for every user of turnout, where there is a way to the hub. A run has none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import turnout
from turnout.errors import InvalidInput


def upload(share: str, store_path: str, local_path: str) -> dict[str, Any]:
    """A file, a directory with all it holds, or what matches a pattern (``data/*.csv``)."""
    _outside("put files into", "write them into turnout.output_dir(), whose files are kept with the run")
    paths = _matching(local_path)
    client = turnout.Client()
    try:
        client.upload(paths, share, path=store_path)
    finally:
        client.close()
    return {"count": sum(map(_count, paths)), "path": f"{share}/{store_path}".rstrip("/")}


def download(share: str, store_path: str, local_path: str) -> dict[str, Any]:
    """What is at `store_path`, into a directory that is new or empty."""
    place = f"{share}/{store_path}".rstrip("/")
    _outside("read", f"submit it with `turnout run --data {place}`, and read what is in $TURNOUT_DATA_DIR")
    client = turnout.Client()
    try:
        written = client.download_share(share, local_path, pattern=store_path or None)
    finally:
        client.close()
    return {"count": written["files"], "path": place}


def _outside(what: str, instead: str) -> None:
    run = os.environ.get("TURNOUT_RUN_NAME")
    if run:
        raise InvalidInput(f"{run} cannot {what} a share: a run has no connection to the hub", hint=instead)


def _matching(path: str) -> list[Path]:
    found = Path(path)
    if "*" not in found.name and "?" not in found.name:
        return [found]
    return sorted(found.parent.glob(found.name))


def _count(path: Path) -> int:
    return sum(each.is_file() for each in path.rglob("*")) if path.is_dir() else 1
