"""``turnout uninstall``: everything ended, then everything removed, or nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from turnout.cli import render
from turnout.cli.deleting import ask
from turnout.client import Client
from turnout.errors import Conflict, InvalidInput, TurnoutError
from turnout.home import Home, HubRecord

#: What turnout puts into its state directory. All else there is somebody's, and stays.
_OURS = frozenset({
    "backups", "blobs", "cache", "config.yaml", "hub.json", "hub.lock", "logs", "nodes", "recent", "secrets.json",
    "secrets.lock", "targets.json", "token", "turnout.db", "turnout.db-shm", "turnout.db-wal",
})  # fmt: skip
_ENDING_SECONDS = 120.0
_LEAVING_SECONDS = 60.0


def uninstall(yes: bool, json: bool) -> None:
    home = Home.from_env()
    if not home.lock_file.exists():
        _tell({"home": str(home.root), "runs_ended": 0, "removed": [], "left": []}, json)
        return
    client = Client()
    live = client.hub()["live_runs"]
    if not yes and not ask(
        f"end {live} runs, the hub and its agents, and remove all that turnout keeps in {home.root}, "
        "with your settings and secrets there?"
    ):
        raise InvalidInput("nothing was changed", hint="say y to go on")
    ended = _end_everything(client, home)
    _tell({"home": str(home.root), "runs_ended": ended, **_remove(home)}, json)


def _end_everything(client: Client, home: Home) -> int:
    """All runs, agents and the hub. Conflict, with everything else still there, when one of them stays."""
    ended = len(client.cancel(everything=True))
    _wait(lambda: not client.hub()["live_runs"], _ENDING_SECONDS, "some runs do not end", "`turnout status` shows them")
    client.dismiss_agents()
    _wait(
        lambda: not client.hub()["agents"], _LEAVING_SECONDS, "some agents do not leave",
        "`turnout hub status` shows them; `turnout hub logs` may tell why",
    )  # fmt: skip
    client.stop_hub()
    _wait(
        lambda: HubRecord.load(home) is None and _is_free(home.lock_file), _LEAVING_SECONDS, "the hub does not stop",
        "see `turnout hub logs`",
    )  # fmt: skip
    busy = [lock.parent for lock in home.nodes.glob("*/lock") if not _is_free(lock)]
    if busy:
        raise Conflict(f"an agent is still at work in {busy[0]}", hint="wait a minute, then `turnout uninstall` again")
    return ended


def _wait(is_so: Callable[[], bool], seconds: float, trouble: str, hint: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Conflict(f"{trouble}; nothing was removed", hint=hint)
        time.sleep(0.05)


def _is_free(lock: Path) -> bool:
    """Whether nobody holds it: locks go with the processes that took them, however those ended."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _remove(home: Home) -> dict[str, list[str]]:
    database, sockets = home.database_dir(), home.socket_dir
    for name in sorted(_OURS):
        _remove_one(home.root / name)
        if database != home.root:
            _remove_one(database / name)
    shutil.rmtree(sockets, ignore_errors=True)
    removed = [str(sockets)]
    left = []
    for directory in {home.root, database}:
        others = sorted(os.listdir(directory))
        if others:
            left += [str(directory / name) for name in others]
        else:
            directory.rmdir()
            removed.append(str(directory))
    if "TURNOUT_DATABASE" in os.environ:
        left.append("the database that TURNOUT_DATABASE names")
    return {"removed": removed, "left": left}


def _remove_one(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        hint = f"nothing runs any more: remove {path.parent} by hand"
        raise _CannotRemove(f"{path} cannot be removed: {error.strerror}", hint=hint) from error


class _CannotRemove(TurnoutError):
    code = "cannot_remove"


def _tell(done: dict[str, object], json: bool) -> None:
    if json:
        render.print_json(done)
        return
    if not done["removed"]:
        print(f"nothing to remove: turnout keeps nothing in {done['home']}")
    else:
        print(f"ended {done['runs_ended']} runs, the hub and its agents; removed {done['home']}")
    for path in done["left"] if isinstance(done["left"], list) else ():
        print(f"left: {path}")
    print("left: the package itself; `pip uninstall turnout` removes it")
