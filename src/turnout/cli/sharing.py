"""Commands about named shares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnout import config
from turnout.cli import render
from turnout.cli.progress import size, transfer
from turnout.client import Client
from turnout.home import current_directory

_SOME = 5


def upload(
    paths: Sequence[Path], share: str, *, path: str, omit: Sequence[str], allow_secrets: Sequence[str], json: bool
) -> None:
    patterns = (*omit, *_omitted(share))
    with transfer("uploading") as told:
        view = Client().upload(paths, share, path=path, omit=patterns, allow_secrets=allow_secrets, told=told)
    if json:
        render.print_json(view)
        return
    print(f"share {share} has {_amount(view)} now")
    if view["left_out"]:
        some = ", ".join(view["left_out"][:_SOME]) + (" …" if len(view["left_out"]) > _SOME else "")
        print(render.harmless(f"without empty directories, which a share cannot hold: {some}"), file=sys.stderr)


def download(share: str, pattern: str | None, directory: Path, json: bool) -> None:
    with transfer("downloading") as told:
        done = Client().download_share(share, directory, pattern=pattern, told=told)
    render.print_json(done) if json else print(f"{_amount(done)} of share {share} are in {directory}")


def delete(name: str, json: bool) -> None:
    view = Client().delete_share(name)
    render.print_json(view) if json else print(f"share {name} is gone ({_amount(view)})")


def _omitted(share: str) -> tuple[str, ...]:
    """What the settings say is left out of uploads to the share that they name as data or model."""
    settings = config.settings_at(current_directory())
    return tuple(line for each in (settings.data, settings.model) if each.share == share for line in each.omit)


def _amount(view: dict[str, Any]) -> str:
    return f"{render.count(view['files'], 'file')}, {size(view['bytes'])}"
