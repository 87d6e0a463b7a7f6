"""What a run left behind goes to the hub. These functions block; they run in the shipper's thread."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from turnout.agent import shared
from turnout.agent.after import capture_after, open_after
from turnout.agent.hub import HubLine
from turnout.agent.output import Output, Seal
from turnout.agent.rundir import RunDir
from turnout.agent.spool import find_artifacts
from turnout.wire import manifest
from turnout.wire.manifest import Entry
from turnout.wire.messages import Grant
from turnout.wire.patterns import matcher

NOTHING = {"files": 0, "bytes": 0}


class Found(NamedTuple):
    """What is to be kept; what of the outputs is missing, and those that stay in a directory that nodes share. An
    output that the run was given counts only if it wrote it anew."""

    entries: List[Entry]
    problems: List[str]
    seal: Seal
    missing: List[str]
    left: List[str]


def find(directory: RunDir, grant: Grant, patterns: Sequence[str], output: Output) -> Found:
    """Reads and hashes everything that is to be kept. Nothing of the run may be alive."""
    entries, problems = capture_after(directory.work, patterns, sorted(find_artifacts(directory.track)))
    if grant.shared:
        there = shared.left(grant.shared, grant.outputs, directory.recall_outputs())
        return Found(entries, problems, output.seal(), there.missing, there.files)
    if grant.outputs:
        given = shared.unchanged(directory.work, directory.recall_outputs())
        entries = [entry for entry in entries if entry.path not in given]
    paths = [entry.path for entry in entries]
    missing = [pattern for pattern in grant.outputs if not any(map(matcher([pattern]), paths))]
    return Found(entries, problems, output.seal(), missing, [])


def upload(work: str, entries: Sequence[Entry], line: HubLine) -> Dict[str, Any]:
    """On return the hub has all of them and their manifest on its disk. Idempotent.

    Raises what HubLine does, and OSError for a file that is no longer there.
    """
    if not entries:
        return dict(NOTHING)
    listing = manifest.encode(entries)
    digest = manifest.digest_of(listing)
    by_digest = {entry.digest: entry for entry in entries if not entry.link}
    missing = set(line.missing([*by_digest, digest]))

    def blobs() -> Iterator[Tuple[str, int, BinaryIO]]:
        for name, entry in by_digest.items():
            if name in missing:
                yield name, entry.size, os.fdopen(open_after(work, entry.path), "rb")
        if digest in missing:
            yield digest, len(listing), io.BytesIO(listing)

    line.put(blobs())
    return {"manifest": digest, "files": len(entries), "bytes": sum(entry.size for entry in entries)}
