"""Getting the files of runs back, into a directory of the user's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from turnout.client.filling import Blobs, Source, filling

_PARTS = ("before", "after")
_OUTPUT = "output.txt"


class Keeper(Source, Protocol):
    """Who knows what runs were given, left and printed; a Client is one."""

    def files(self, name: str) -> dict[str, Any]: ...
    def output(self, name: str) -> Iterator[bytes]: ...


def extract(keeper: Keeper, runs: Sequence[str], directory: Path) -> list[dict[str, Any]]:
    """``{"run", "directory", "before": files, "after": files}`` of each; see `Client.extract`."""
    manifests = {run: keeper.files(run) for run in runs}
    told = []
    with filling(directory) as new, Blobs(keeper, beside=new.parent) as blobs:
        for run in runs:
            place = Path(run) if len(runs) > 1 else Path()
            counts = _write_run(keeper, blobs, run, manifests[run], new / place)
            told.append({"run": run, "directory": str(directory / place), **counts})
    return told


def _write_run(
    keeper: Keeper, blobs: Blobs, run: str, manifests: dict[str, str | None], directory: Path
) -> dict[str, int]:
    directory.mkdir(exist_ok=True)
    counts = dict.fromkeys(_PARTS, 0)
    for part in _PARTS:
        digest = manifests[part]
        if digest is not None:
            counts[part] = blobs.write(blobs.entries(digest), directory / part).files
    with open(directory / _OUTPUT, "wb") as file:
        for piece in keeper.output(run):
            file.write(piece)
    return counts
