"""``turnout uninstall``: everything ended, then everything removed, or nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from json import loads as load_json
from pathlib import Path

from turnout.cli import render
from turnout.cli.deleting import ask
from turnout.client import Client
from turnout.client.connect import start_hub
from turnout.errors import Conflict, HubUnreachable, InvalidInput, NotFound, TurnoutError
from turnout.home import Home, HubRecord

#: What turnout puts into its state directory. All else there is somebody's, and stays.
_OURS = frozenset({
    "backups", "blobs", "cache", "config.yaml", "hub.json", "hub.lock", "jobs", "logs", "nodes", "plugins", "recent",
    "secrets.json", "secrets.lock", "targets.json", "tls", "token", "turnout.db", "turnout.db-shm", "turnout.db-wal",
})  # fmt: skip
_ENDING_SECONDS = 120.0
_LEAVING_SECONDS = 30.0


def uninstall(yes: bool, grace: float, json: bool) -> None:
    home = Home.from_env()
    if not home.lock_file.exists():
        _tell({"home": str(home.root), "runs_ended": 0, "removed": [], "left": []}, json)
        return
    with _hub(home) as client:
        live = render.count(client.hub()["live_runs"], "run")
        if not yes and not ask(
            f"end {live}, the hub and its agents, and remove all that turnout keeps in {home.root}, "
            "with your settings and secrets there?"
        ):
            raise InvalidInput("nothing was changed", hint="say y to go on")
        ended = _end_everything(client, home, grace)
    _tell({"home": str(home.root), "runs_ended": ended, **_remove(home)}, json)


@contextmanager
def _hub(home: Home) -> Iterator[Client]:
    """The hub, which knows what goes on. Settings that are wrong are no reason to keep an installation; but a hub that
    was started without them does not stay."""
    client = Client()
    is_bare = False
    try:
        client.hub()
    except (InvalidInput, NotFound):
        start_hub(home, bare=True)
        is_bare = True
    try:
        yield client
    finally:
        if is_bare:
            with suppress(HubUnreachable):
                Client(start=False).stop_hub()


def _end_everything(client: Client, home: Home, grace: float) -> int:
    """All runs, agents and the hub. Conflict, with everything else still there, when one of them stays. What an agent
    does at its beginning or end (its prolog or epilog) has `grace` seconds, then it is broken off."""
    ended = len(client.cancel(everything=True))
    if not _comes_true(lambda: not client.hub()["live_runs"], _ENDING_SECONDS):
        raise Conflict("some runs do not end; nothing was removed", hint="`turnout status` shows them")
    client.dismiss_agents()
    if not _comes_true(lambda: not client.hub()["agents"], grace):
        client.dismiss_agents(now=True)
    if not _comes_true(lambda: not client.hub()["agents"], _LEAVING_SECONDS):
        agents = client.hub()["agents"]
        raise _stay({f"agent {each['id']} of {each['target']} on {each['node']}": each["pid"] for each in agents})
    client.stop_hub()
    if not _comes_true(lambda: HubRecord.load(home) is None and _is_free(home.lock_file), _LEAVING_SECONDS):
        raise Conflict("the hub does not stop; nothing was removed", hint="see `turnout hub logs`")
    if not _comes_true(lambda: not _busy(home), grace):
        raise _stay({f"the agent in {node}": _process_in(node) for node in _busy(home)})
    return ended


def _stay(agents: Mapping[str, int | None]) -> Conflict:
    """`agents` are how each is called, and its process, if that is on this machine."""
    named = ", ".join(f"{name} (process {pid})" if pid else name for name, pid in agents.items())
    here = " ".join(str(pid) for pid in agents.values() if pid)
    hint = f"end it there{f' (kill -9 {here})' if here else ''}, then `turnout uninstall` again"
    return Conflict(f"{named} could not be ended; nothing was removed", hint=hint)


def _busy(home: Home) -> list[Path]:
    """The directories of agents that are still there, also of those that no hub knows any more."""
    return [lock.parent for lock in home.nodes.glob("*/lock") if not _is_free(lock)]


def _process_in(node: Path) -> int:
    """As the agent there told; 0 when it told nothing."""
    try:
        return int(load_json((node / "agent.json").read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _comes_true(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


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
        print(
            f"ended {render.count(int(str(done['runs_ended'])), 'run')}, the hub and its agents; removed {done['home']}"
        )
    for path in done["left"] if isinstance(done["left"], list) else ():
        print(f"left: {path}")
    print("left: the package itself; `pip uninstall turnout` removes it")
