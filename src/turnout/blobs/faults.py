"""The errors of a blob store, each worded once."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from turnout import errors
from turnout.model.measures import write_size

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def raw(digest: str) -> bytes:
    """The 32 bytes of a digest; InvalidInput for text that is none."""
    try:
        found = bytes.fromhex(digest)
    except ValueError:
        found = b""
    if len(found) != 32 or found.hex() != digest:
        raise errors.InvalidInput(f"{digest[:80]!r} is not a digest", hint="a digest is 64 lower-case hex digits")
    return found


def unknown(digest: str) -> errors.NotFound:
    return errors.NotFound(
        f"there is no blob {digest}", hint="it was never uploaded, or removed with the last run of it"
    )


def mismatch(digest: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"the content sent for blob {digest} is not that of this digest",
        hint="send it again; it was damaged on the way",
    )


def damaged(digest: str) -> errors.Internal:
    return errors.Internal(
        f"blob {digest} is damaged on disk",
        hint="submit again from the directory that holds this file to heal it; `turnout doctor` checks all blobs",
    )


@contextmanager
def disk(done: str) -> Iterator[None]:
    """Turns what the disk says into Unavailable; only around our own calls, not around a caller's iterable."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            hint = "free some disk space and try again"
            raise errors.Unavailable("no space is left for blobs", hint=hint) from error
        hint = "`turnout doctor` looks at the disk"
        raise errors.Unavailable(f"blobs cannot be {done}: {error}", hint=hint) from error


def writing() -> AbstractContextManager[None]:
    return disk("written")


def reading() -> AbstractContextManager[None]:
    return disk("read")


def over_quota(more: int, used: int, quota: int) -> errors.Unavailable:
    """`more` bytes were to be added, at least."""
    return errors.Unavailable(
        f"another {write_size(more)} do not fit: files take {write_size(used)} of the {write_size(quota)} allowed",
        hint="remove runs that are no longer needed, or raise `blobs: max-size` in the config",
    )
