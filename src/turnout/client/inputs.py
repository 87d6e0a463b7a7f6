"""Data and model of a job: from what the settings and the command line say to files that will not change."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from turnout.client.shares import check_name
from turnout.config import Data, Model
from turnout.errors import InvalidInput
from turnout.model.inputs import Action, Input, split_share
from turnout.model.spec import JobSpec


class Binder(Protocol):
    """Who knows what shares are now; a Client is one."""

    def bind_share(self, name: str, path: str = "") -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says: `share` is ``SHARE[/PATH]``, `action` how to get it. None = nothing."""

    share: str | None
    action: str | None


def specify(kind: str, given: Data | Model, asked: Asked, *, cwd: Path, is_here: bool) -> Input | None:
    """What the settings (`given`, with the command line's values in them) and `asked` mean; None when that is nothing.
    `is_here`: the runs will be on this machine, so that a directory can be looked at."""
    share, path = (given.share, given.path or "") if asked.share is None else split_share(asked.share)
    action = _action(given, asked)
    if action is Action.NONE:
        return Input(action=action, local=_local(kind, given.local, cwd, is_here)) if given.local else None
    if share is None:
        hint = f"write --{kind} SHARE, or `share:` in the section `{kind}`"
        raise InvalidInput(f"{kind}: action {action} needs a share", hint=hint)
    if given.writable and action is Action.MOUNT:
        hint = f"write --{kind}-action download: a copy for each run"
        raise InvalidInput(f"{kind}: what is mounted is shared by runs and cannot be writable", hint=hint)
    return Input(action=action, share=check_name(share), path=path.strip("/"), writable=given.writable)


def _action(given: Data | Model, asked: Asked) -> Action:
    """What is said, but that a share named on the command line is wanted unless the command line says otherwise."""
    if asked.share is not None and asked.action is None and given.action in (None, Action.NONE):
        return Action.MOUNT
    if given.action is not None:
        return Action(given.action)
    return Action.MOUNT if given.share is not None and given.local is None else Action.NONE


def bind(spec: JobSpec, binder: Binder) -> JobSpec:
    """`spec` with what its shares are now; what is bound already stays. NotFound for a share, or a path in it, that
    does not exist."""
    return replace(spec, data=_bound(spec.data, binder), model=_bound(spec.model, binder))


def _bound(wanted: Input | None, binder: Binder) -> Input | None:
    if wanted is None or wanted.share is None or wanted.manifest is not None:
        return wanted
    found = binder.bind_share(wanted.share, wanted.path)
    return replace(wanted, manifest=found["manifest"], files=found["files"], bytes=found["bytes"])


def _local(kind: str, path: str, cwd: Path, is_here: bool) -> str:
    full = os.path.normpath(cwd / Path(path).expanduser())
    if is_here and not os.path.isdir(full):
        raise InvalidInput(f"{kind}: {full} is no directory", hint=f"check `local:` in the section `{kind}`")
    if is_here and not os.access(full, os.R_OK | os.X_OK):
        raise InvalidInput(f"{kind}: {full} cannot be read", hint="make it readable (chmod u+rx)")
    return full
