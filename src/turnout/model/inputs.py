"""What runs read beside their code: data and a model, from named shares or from a directory of their machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """How a run gets them."""

    NONE = "none"  # not from a share: at most the name of a directory that is there already
    DOWNLOAD = "download"  # a private copy beside the run's directory
    MOUNT = "mount"  # a read-only view of the node's cache, shared by all runs that read the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """`share`, and `path` in it ("" = all of it), are how a person named them. `manifest` is what that meant when the
    job was submitted: what its runs find, whatever becomes of the share. `local` is a directory on the machine of the
    runs, for the action none. `writable` copies may be changed by their run; a view never is."""

    action: Action = Action.MOUNT
    share: str | None = None
    path: str = ""
    local: str | None = None
    writable: bool = False
    manifest: str | None = None
    files: int = 0
    bytes: int = 0


def split_share(text: str) -> tuple[str, str]:
    """``NAME/SUB/PATH`` as the share and the path in it."""
    name, _, path = text.partition("/")
    return name, path.strip("/")
