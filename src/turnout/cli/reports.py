"""How lists look when the command line does not say: the sections ``run-reports`` and ``job-reports``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnout.cli import render
from turnout.errors import NotFound
from turnout.home import Home, current_directory

if TYPE_CHECKING:
    from turnout.client import Client
    from turnout.config import Config

_PROJECT_FILE = "turnout.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    columns: str = ""
    sort: str = ""
    reverse: bool = False
    group: str = ""
    last: int | None = None
    max_width: int | None = None
    precision: int | None = None


def settings_of(kind: str) -> Defaults:
    config = _config(checked=f"{kind[:3]}-reports") if kind in ("runs", "jobs") else None
    if config is None:
        return Defaults()
    told: Any = config.run_reports if kind == "runs" else config.job_reports
    return Defaults(
        columns=",".join(told.columns), sort=told.sort or "", reverse=told.reverse, last=told.last,
        group=getattr(told, "group", None) or "", max_width=told.max_width, precision=told.precision,
    )  # fmt: skip


def boxes() -> list[dict[str, Any]]:
    """The machines that the settings name."""
    config = _config()
    found = config.boxes if config is not None else {}
    return [
        {"name": name, "address": box.address, "os": box.os, "max_runs": box.max_runs}
        for name, box in sorted(found.items())
    ]


def targets(client: Client) -> list[dict[str, Any]]:
    """Those the hub knows, with their runs, and those that the settings name and nothing was sent to yet."""
    known = {each["name"]: each for each in client.queues()}
    config = _config()
    for name, entry in config.targets.items() if config is not None else ():
        fresh = {"name": name, "nodes": 0, "waiting": 0, "running": 0, "trouble": None}
        known[name] = {
            **known.get(name, fresh), "service": config.provider_of(entry) if config is not None else None,
            **({"max_runs": entry.max_runs} if entry.max_runs or name not in known else {}),
        }  # fmt: skip
    return [known[name] for name in sorted(known)]


def _config(checked: str | None = None) -> Config | None:
    """None where no file says anything: reading settings takes longer than asking the hub. Settings that are wrong are
    no reason to show nothing. Of the section `checked`, the columns are looked at as well."""
    user = Home.from_env().config_file
    try:
        here = current_directory()
    except NotFound:
        return None
    if not user.exists() and not any((folder / _PROJECT_FILE).exists() for folder in (here, *here.parents)):
        return None
    from turnout import config
    from turnout.config.reports import report_problems

    gathered = config.gather(user, config.find_project_file(here))
    wrong = gathered.problems or ([*report_problems(gathered.tree, checked)] if checked is not None else [])
    if wrong:
        what = f"without your settings: {wrong[0].where}: {wrong[0].what}"
        render.complain(what, "`turnout config check` tells all")
        return None
    return gathered.config()
