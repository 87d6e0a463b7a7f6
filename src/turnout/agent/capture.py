"""What a run left behind goes to the hub. These functions block; they run in the shipper's thread."""

from __future__ import annotations

import io
import os
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from turnout.agent import links, shared
from turnout.agent.after import gather
from turnout.agent.hub import HubLine
from turnout.agent.links import open_source
from turnout.agent.output import Output, Seal
from turnout.agent.rundir import RunDir
from turnout.agent.spool import find_artifacts
from turnout.wire import manifest
from turnout.wire.manifest import Entry
from turnout.wire.messages import Grant
from turnout.wire.patterns import above, leads_on, matcher

NOTHING = {"files": 0, "bytes": 0}


class Found(NamedTuple):
    """What is to be kept; what of the outputs is missing, and those that stay in a directory that nodes share. An
    output that the run was given counts only if it wrote it anew. `sources` are where what links led to lies."""

    entries: List[Entry]
    problems: List[str]
    seal: Seal
    missing: List[str]
    left: List[str]
    sources: Dict[str, str]


def find(directory: RunDir, grant: Grant, patterns: Sequence[str], output: Output) -> Found:
    """Reads and hashes everything that is to be kept. Nothing of the run may be alive."""
    found = gather(directory.work, patterns, sorted(find_artifacts(directory.track)))
    if grant.shared:
        there = shared.left(grant.shared, grant.outputs, directory.recall_outputs())
        problems = [*there.problems, *found.shown()]
        return Found(found.kept(), problems, output.seal(), there.missing, there.files, {})
    if not grant.outputs:
        return Found(found.kept(), found.shown(), output.seal(), [], [], {})
    given = shared.unchanged(directory.work, directory.recall_outputs())
    followed = links.follow(
        directory.work, found, grant.outputs, given, is_contained=bool(found.links) and directory.is_contained
    )
    entries = [entry for entry in found.kept() if entry.path not in given]
    missing = _missing(grant.outputs, [entry.path for entry in entries])
    problems = [*(_instead(pattern, followed.refused) for pattern in missing), *found.shown()]
    return Found(entries, list(dict.fromkeys(filter(None, problems))), output.seal(), missing, [], followed.sources)


def _missing(outputs: Sequence[str], paths: Sequence[str]) -> List[str]:
    """The outputs that none of these paths is."""
    there = {each for path in paths for each in (path, *above(path))}
    return [each for each in outputs if each not in there and not any(map(matcher([each]), paths))]


def _instead(pattern: str, refused: Mapping[str, str]) -> str:
    """Which link there is where an output should be, or before it; "" = none."""
    if pattern in refused:
        return f"{pattern!r}: {refused[pattern]}"
    is_on_the_way = partial(leads_on, pattern)
    found = next(filter(is_on_the_way, refused), None)
    return f"{pattern!r}: {found} is {refused[found]}" if found is not None else ""


def upload(
    work: str, entries: Sequence[Entry], line: HubLine, sources: Mapping[str, str] = MappingProxyType({})
) -> Dict[str, Any]:
    """On return the hub has all of them and their manifest on its disk. Idempotent. The content of those in `sources`
    lies there.

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
                yield name, entry.size, os.fdopen(open_source(work, sources.get(entry.path, entry.path)), "rb")
        if digest in missing:
            yield digest, len(listing), io.BytesIO(listing)

    line.put(blobs())
    return {"manifest": digest, "files": len(entries), "bytes": sum(entry.size for entry in entries)}
