"""``turnout doctor``: what could be wrong here, and what to do about it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.config import Config, find_project_file, gather
from turnout.config.checking import check
from turnout.errors import NotFound, TurnoutError
from turnout.home import Home, current_directory, file_system

_LEAST_FREE = 1 << 30
_MOST_NAMED = 10
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Found:
    """`level`: ok, warning or problem. `what` may have several lines; `target` is the one it is about, if any."""

    level: str
    what: str
    hint: str = ""
    target: str | None = None


def doctor(names: Sequence[str], deep: bool, json: bool) -> int:
    """Exit code 1 when there is a problem. With `names`, only of these targets."""
    settings, problems = _settings()
    if names:
        known = settings.targets if settings is not None else {}
        if settings is not None and (unknown := [name for name in names if name not in known]):
            raise NotFound(f"no target {unknown[0]!r}", hint=f"known targets: {', '.join(sorted(known))}")
        if settings is None:
            return report(problems, json)
        about = [each for each in problems if any(_is_about(name, each) for name in names)]
        return report([*about, *look_at(settings, names), *_troubles(names)], json)
    most = sys.maxsize if json else _MOST_NAMED
    found = [*_python(), *_state_directory(Home.from_env()), *problems, *_hub(deep, most), *_providers(), *_programs()]
    return report([*found, *(look_at(settings, list(settings.targets)) if settings is not None else ())], json)


def report(found: Sequence[Found], json: bool) -> int:
    if json:
        render.print_json([asdict(each) for each in found])
    else:
        tell(found)
    return 1 if any(each.level == "problem" for each in found) else 0


def tell(found: Sequence[Found]) -> None:
    for each in found:
        first, *more = each.what.split("\n")
        print(f"{render.coloured(f'{each.level:<8}', each.level)} {render.harmless(first)}")
        for line in [*more, *each.hint.split("\n")]:
            if line.strip():
                print(f"         {render.harmless(line)}")


def look_at(settings: Config, names: Sequence[str]) -> list[Found]:
    """What the providers of these targets find; all are asked at once, for some may take long to give up."""

    def look(name: str) -> list[Found]:
        try:
            findings = Client().check_target(name, settings.resolved(name))
        except TurnoutError as error:
            return [Found("problem", f"target {name}: {error.message}", error.hint, name)]
        begin = f"target {name}: " if len(names) > 1 else ""
        return [Found(each["level"], begin + each["what"], each["hint"], name) for each in findings]

    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(names) or 1)) as threads:
        return [each for found in threads.map(look, names) for each in found]


def _is_about(target: str, problem: Found) -> bool:
    return re.search(rf"(compute-targets|boxes)\.{re.escape(target)}(?![\w-])", problem.what) is not None


def _troubles(names: Sequence[str]) -> Iterator[Found]:
    """What the hub met when it last tried to use these targets."""
    targets = Client().targets()
    for name in names:
        if name in targets and targets[name]["trouble"]:
            yield Found("problem", f"target {name}: {targets[name]['trouble']}", "it is tried again by itself", name)


def _settings() -> tuple[Config | None, list[Found]]:
    """Those that hold here, and what is wrong with them; None where they cannot be used."""
    try:
        gathered = gather(Home.from_env().config_file, find_project_file(current_directory()))
        wrong = [Found("problem", f"{each.where}: {each.what}", each.instead) for each in check(gathered)]
        return None if gathered.problems else gathered.config(), wrong
    except TurnoutError as error:
        return None, [Found("problem", error.message, error.hint or "`turnout config check` tells all")]


def _python() -> Iterator[Found]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Found("ok", f"Python {version}, SQLite {sqlite3.sqlite_version}")


def _state_directory(home: Home) -> Iterator[Found]:
    root = home.root
    kind = file_system(root)
    if home.on_network():
        where = home.database_dir()
        yield Found(
            "warning",
            f"{root} is on a network file system ({kind}); the database is in {where} on this host",
            "use turnout on one host at a time, or set TURNOUT_HOME to a local disk",
        )
    else:
        yield Found("ok", f"state in {root}" + (f" ({kind})" if kind else ""))
    existing = root
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        yield Found("problem", f"{existing} cannot be written", "set TURNOUT_HOME to a directory you can write")
    free = shutil.disk_usage(existing).free
    level = "ok" if free > _LEAST_FREE else "warning"
    yield Found(
        level,
        f"{free >> 20} MB free",
        "" if level == "ok" else "free some space: new runs are refused when the disk is full",
    )
    yield from _modes(home)


def _modes(home: Home) -> Iterator[Found]:
    for path, wanted in ((home.root, 0o700), (home.token_file, 0o600), (home.database_dir() / "turnout.db", 0o600)):
        if path.exists() and stat.S_IMODE(os.stat(path).st_mode) & ~wanted:
            yield Found("problem", f"others may use {path}", f"run: chmod {wanted:o} {path}")


def _hub(deep: bool, most: int) -> Iterator[Found]:
    try:
        client = Client()
        told = client.hub()
        targets = client.targets()
        nodes = client.nodes()
        kept = client.check_blobs(deep=deep)
    except TurnoutError as error:
        yield Found("problem", f"no hub: {error.message}", error.hint)
        return
    yield Found("ok", f"hub {told['version']} runs, pid {told['pid']}")
    for name, target in sorted(targets.items()):
        agents = f"{target['agents']} agents" if target["agents"] else "an agent is started when a run needs one"
        if not target["trouble"]:
            yield Found("ok", f"target {name}: {target['max_runs']} runs at once, {agents}")
    yield from _troubles(sorted(targets))
    yield from (_node(node) for node in nodes if node["cpus"] is not None)
    yield from _kept_files(kept, most)


def _node(node: Mapping[str, Any]) -> Found:
    """What its agent found on it when it began."""
    gpus = [f"{count} × {name}" for name, count in Counter(node["gpu_names"]).items()]
    runtimes = " and ".join(node["containers"]) or "neither podman nor docker"
    has = ", ".join([render.count(node["cpus"], "processor"), *(gpus or ["no GPU"]), f"{runtimes} for containers"])
    return Found("ok", f"node {node['name']} of {node['target']}: {has}", target=node["target"])


def _kept_files(kept: dict[str, Any], most: int) -> Iterator[Found]:
    """Whether what was frozen and what runs left is still as it was. A damaged blob counts as missing from then on."""
    damaged, hurt = kept["damaged"], kept["hurt"]
    yield Found(
        "ok" if not damaged else "problem",
        f"{kept['blobs']} blobs of kept files, {kept['read']} of them read: {len(damaged)} damaged",
        "" if kept["deep"] or kept["read"] >= kept["blobs"] else "`turnout doctor --deep` reads them all",
    )
    for digest in damaged[:most]:
        yield Found(
            "problem", f"blob {digest} is damaged on disk", "check the disk; the files that were in it are below"
        )
    for each in hurt[:most]:
        yield _hurt(each)
    left = len(damaged[most:]) + len(hurt[most:])
    if left:
        yield Found("problem", f"… and {left} more like these", "`turnout doctor --json` lists them all")
    if not hurt:
        which = "all" if kept["deep"] else "the newest"
        yield Found("ok", f"{kept['snapshots']} snapshots ({which}) have all their files")


def _hurt(hurt: dict[str, Any]) -> Found:
    files = ", ".join(map(render.harmless, hurt["files"][:3]))
    more = f" and {hurt['count'] - 3} more" if hurt["count"] > 3 else ""
    what = f"{files}{more}" if files else "the list of files"
    if hurt["kind"] == "before":
        hint = "submit again from the directory that has these files as they were: that brings them back"
        return Found("problem", f"{hurt['owner']} lacks {what} of what it was given", hint)
    hint = "run it again, or bring back the directory `blobs` from a backup"
    return Found("problem", f"{hurt['owner']} lacks {what} of what it left behind", hint)


def _providers() -> Iterator[Found]:
    """Code of others that cannot be used is told with where it fails; all else goes on without it."""
    client = Client(start=False)
    try:
        broken, known = client.broken_providers(), client.providers()
    except TurnoutError:
        return  # what is wrong with the settings is told above
    for each in broken:
        trace = f"\n{each['trace']}" if each["trace"] else ""
        source = each["place"] or f"{each['package']} {each['version']}"
        hint = f"correct it ({source}), or tell who wrote it; nothing else is affected"
        yield Found("problem", f"provider {each['name']}: {each['broken']}{trace}", hint)
    for each in known:
        for package in each["hides"]:
            what = f"provider {each['name']}: that of {package} is not used, for {each['package']} has one of that name"
            yield Found("warning", what, "uninstall one of the two, or name the class in `providers: compute:`")


def _programs() -> Iterator[Found]:
    if shutil.which("bash") is None:
        yield Found("problem", "no bash: run scripts and Python files need it", "install bash")
    if shutil.which("git") is None:
        yield Found("warning", "no git: commits are not recorded with runs", "install git")
    if not Path("/proc/self/stat").exists():
        yield Found("warning", "no /proc: processes that hide from their parents cannot be found here")
