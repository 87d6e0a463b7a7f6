"""Commands about named shares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnout import config
from turnout.cli import render
from turnout.cli.progress import size, transfer
from turnout.client import Client
from turnout.home import Home


def upload(
    paths: Sequence[Path], share: str, *, path: str, omit: Sequence[str], allow_secrets: Sequence[str], json: bool
) -> None:
    patterns = (*omit, *_omitted(share))
    with transfer("uploading") as told:
        view = Client().upload(paths, share, path=path, omit=patterns, allow_secrets=allow_secrets, told=told)
    render.print_json(view) if json else print(f"share {share} has {_amount(view)} now")


def download(share: str, pattern: str | None, directory: Path, json: bool) -> None:
    with transfer("downloading") as told:
        done = Client().download_share(share, directory, pattern=pattern, told=told)
    render.print_json(done) if json else print(f"{_amount(done)} of share {share} are in {directory}")


def list_shares(name: str | None, json: bool) -> None:
    client = Client()
    if name is not None:
        _list_files(client, name, json)
        return
    found = client.shares()
    if json:
        render.print_json(found)
        return
    if not found:
        print("no shares yet; `turnout upload PATH --share NAME` makes one")
        return
    rows = [[view["name"], view["files"], size(view["bytes"]), render.ago(view["updated"])] for view in found]
    render.table(["share", "files", "size", "updated"], rows, right=frozenset({1, 2}))


def delete(name: str, json: bool) -> None:
    view = Client().delete_share(name)
    render.print_json(view) if json else print(f"share {name} is gone ({_amount(view)})")


def _omitted(share: str) -> tuple[str, ...]:
    """What the settings say is left out of uploads to the share that they name as data or model."""
    settings = config.load(Home.from_env().config_file, config.find_project_file(Path.cwd()))
    return tuple(line for each in (settings.data, settings.model) if each.share == share for line in each.omit)


def _list_files(client: Client, name: str, json: bool) -> None:
    entries = sorted(client.share_files(name))
    if json:
        render.print_json([{"path": e.path, "bytes": e.size, "digest": e.digest, "link": e.link} for e in entries])
        return
    render.table(["path", "size"], [[e.path, e.link or size(e.size)] for e in entries], right=frozenset({1}))


def _amount(view: dict[str, Any]) -> str:
    return f"{render.count(view['files'], 'file')}, {size(view['bytes'])}"
