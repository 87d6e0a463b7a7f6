"""The hub as a program: ``python -m turnout.hub``. One per state directory, under a lock."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import logging.handlers
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from turnout._version import __version__
from turnout.blobs import BlobStore
from turnout.config import Config, gather, secrets, services
from turnout.config.checking import checked
from turnout.config.reference import PREFIX
from turnout.engine.desk import Desk
from turnout.engine.dispatch import Dispatch
from turnout.engine.expanding import Expander
from turnout.engine.fleet import Fleet
from turnout.engine.hosts import Hosts
from turnout.engine.loop import Loop
from turnout.engine.making import Code, Makers
from turnout.engine.quiet import Quiet
from turnout.engine.sessions import Sessions
from turnout.engine.target import Target
from turnout.engine.works import Works
from turnout.errors import Conflict, TurnoutError
from turnout.home import Home, HubRecord
from turnout.hub import archives, examining, foreign, keeping, reasons, restarting, search_results, searching, targets
from turnout.hub.adjusting import Adjusting
from turnout.hub.api import HubState, make_router
from turnout.hub.app import make_app, make_wire_app
from turnout.hub.doors import Server, browser_door, far_door, unix_door
from turnout.hub.foreign import Cancels
from turnout.hub.heard_trials import HeardTrials
from turnout.hub.keeping_trials import KeeperRoutes, make_token_router
from turnout.hub.notices import Notices
from turnout.hub.notifier import Notifier
from turnout.hub.places import Places
from turnout.hub.security import Gate
from turnout.hub.sweeping import Sweeper
from turnout.hub.targets import TargetTable
from turnout.hub.tokens import AgentTokens, user_token
from turnout.hub.wire import WireRoutes
from turnout.model.ids import target_of
from turnout.model.pipeline import FAIL_FAST
from turnout.schedule.lease import LeaseTable
from turnout.schedule.record import RunRecord
from turnout.store.agents import Agent
from turnout.store.database import sqlite_url
from turnout.store.queue import live_runs, places_in_use
from turnout.store.store import Store

_log = logging.getLogger("turnout.hub")
#: How much longer than a lease a silent agent keeps its runs: time for its last messages, and for clocks to differ.
_MARGIN = 0.5
#: Without a client for so long, there is time to clear up.
_QUIET_SECONDS = 5.0


class Hub:
    """Everything one hub owns, from opened to closed. Making it takes the lock, or raises Conflict: who has it.

    With `is_bare` the user's settings are not read: they may be wrong, and it is there only to end what goes on. One
    that `is_shared` is for several users, and takes no code of theirs."""

    def __init__(
        self, home: Home, *, listen: str | None = None, is_bare: bool = False, is_shared: bool = False
    ) -> None:
        self._home = home
        home.make()
        self._lock = _take_lock(home)
        self._settings = checked(gather(None if is_bare else home.config_file))
        self._started = time.time()
        self._last_client = time.monotonic()
        self._listen = listen
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.notifier = Notifier()
        elsewhere = os.environ.get("TURNOUT_DATABASE") or _database_of(self._settings, home)
        self._store = Store(
            elsewhere or sqlite_url(home.database_dir() / "turnout.db"),
            backup_dir=home.root / "backups",
            on_commit=self._committed,
        )
        kept = services.storage_directory(self._settings) or home.blobs
        self._blobs = BlobStore(kept, quota=self._settings.blobs.max_size)
        self._sweeper = Sweeper(self._store, self._blobs, kept, _name_of(elsewhere) if elsewhere else "home")
        self._notices = Notices(self._store)
        code = Code(self._blobs, home.root / "plugins" / "searches", home.root / "logs")
        self._makers = Makers(None if is_shared else code)
        self._desk = Desk(self._store, self._end_runs, self._makers)
        self._expander = Expander(self._store, self._blobs, self._end_pipeline)
        self._tokens = AgentTokens(self._store)
        self._sessions = Sessions(LeaseTable(self._settings.hub.lease, self._settings.hub.lease * _MARGIN))
        self._heard_trials = HeardTrials(self._store, self._sessions)
        with self._store.read() as connection:
            in_use = places_in_use(connection)
        self._hosts = Hosts(home, is_shared=is_shared)
        self._targets = TargetTable(home, self._settings, in_use, hosts=self._hosts)
        self._quiet = Quiet()
        self._dispatch = Dispatch(
            self._store, self._sessions,
            max_runs=lambda agent, cpus: self._targets[agent.target].max_runs(agent.seat, cpus),
            idle=lambda agent: self._targets[agent.target].idle(self._settings.hub.agent_idle),
            quiet=self._quiet,
        )  # fmt: skip
        sockets = home.sockets()
        self._socket_paths = sockets / "hub.sock", sockets / "agent.sock"
        listen = self._settings.hub.agents_listen
        self._far_door = far_door(listen, home.root / "tls" / "hub.pem") if listen else None
        self._fleet = Fleet(
            self._store, self._sessions, self._dispatch, self._targets, home.nodes, str(self._socket_paths[1]),
            socket.gethostname().split(".")[0] or "local", self._tokens.forget,
            cache_size=self._settings.hub.cache_size,
            far_address=self._far_door.address if self._far_door is not None else "",
            works=Works(store=self._store, blobs=self._blobs, directory=home.root / "jobs"), quiet=self._quiet,
            on_news=lambda agent: self.notifier.publish(frozenset([f"agent:{agent.id}"])),
        )  # fmt: skip
        self._engine = Loop(self._fleet, interval=min(1.0, self._settings.hub.lease / 4), on_round=self._after_round)

    async def serve(self, ready: Any) -> None:
        """Runs until told to stop; calls `ready` once it answers.

        Told to stop, it takes no new requests and gives out no more work; requests that are under way are answered,
        those that wait for news at once.
        """
        self._loop = asyncio.get_running_loop()
        self.notifier.attach(self._loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        servers = self._make_servers()
        self._engine.start()
        self._desk.start()
        self._expander.start()
        tasks = [asyncio.create_task(server.serve(sockets=[bound])) for server, bound in servers]
        while not all(server.started for server, _ in servers):
            if any(task.done() for task in tasks):
                break
            await asyncio.sleep(0.001)
        self._record().save(self._home)
        _log.info("hub %s is ready, pid %d", __version__, os.getpid())
        ready()
        await self._stop.wait()
        _log.info("stopping")
        self.notifier.close()
        for server, _ in servers:
            server.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Writes what was accepted and leaves nothing behind but the state."""
        self._desk.stop()
        self._expander.stop()
        self._engine.stop()
        self._hosts.close()
        self._makers.close()
        self._sweeper.stop()
        self._notices.stop()
        self._store.close()
        self._blobs.close()
        for path in (self._home.hub_file, *self._socket_paths):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        os.close(self._lock)

    def _make_servers(self) -> list[tuple[Server, socket.socket]]:
        wire = WireRoutes(self._dispatch, self._sessions, self.notifier, self._blobs).routes()
        wire += KeeperRoutes(self._heard_trials).routes()
        state = HubState(
            describe=self._describe,
            stop=self._request_stop,
            targets=self._describe_targets,
            places=lambda: self._targets,
            makers=self._makers,
            cancels=Cancels(self._targets, self._store),
            adjusting=Adjusting(self._targets, self._store, self._blobs, self._home.root / "cache" / "adjusting"),
        )
        router = make_router(self._store, self._dispatch, self.notifier, self._blobs, state)
        router.include_router(targets.make_router(self._targets))
        router.include_router(searching.make_router(self._store))
        router.include_router(search_results.make_router(self._store))
        router.include_router(foreign.make_router(self._targets, self._store))
        router.include_router(examining.make_router(self._examined()))
        router.include_router(make_token_router(self._store, self._home.root / "jobs"))
        router.include_router(keeping.make_router(self._store, self._sweeper, self._home.nodes))
        router.include_router(restarting.make_router(self._store, self._dispatch, self.notifier, self._fleet.end_all))
        look_at = Places(self._targets, self._store, self._sessions).look_at
        router.include_router(reasons.make_router(self._store, self._sessions, look_at))
        router.include_router(archives.make_router(self._store, self._blobs, self._home.root / "cache"))
        only_wire = make_wire_app(wire)
        everything = make_app(router, only_wire)
        token = user_token(self._home)
        doors = [unix_door(self._socket_paths[0]), unix_door(self._socket_paths[1], for_agents=True)]
        if self._listen:
            doors.append(browser_door(self._listen))
            self._listen = doors[-1].address
        if self._far_door is not None:
            doors.append(self._far_door)
        servers: list[tuple[Server, socket.socket]] = []
        for door in doors:
            gate = Gate(
                only_wire if door.for_agents else everything, hosts=door.hosts, user_token=token,
                find_agent=self._tokens.find, only_wire=door.for_agents,
            )  # fmt: skip
            servers.append((door.server(gate if door.for_agents else self._count_clients(gate)), door.socket))
        return servers

    def _examined(self) -> examining.Parts:
        return examining.Parts(
            targets=self._targets, store=self._store, dispatch=self._dispatch, sessions=self._sessions,
            fleet=self._fleet, notifier=self.notifier,
        )  # fmt: skip

    def _count_clients(self, app: Any) -> Any:
        async def counted(scope: Any, receive: Any, send: Any) -> None:
            self._last_client = time.monotonic()
            try:
                await app(scope, receive, send)
            finally:
                self._last_client = time.monotonic()

        return counted

    def _committed(self, topics: frozenset[str]) -> None:
        self._quiet.stir(topics)  # before anyone is woken
        self._notices.stir()
        self._desk.stir(topics)
        self._expander.stir(topics)
        self.notifier.publish(topics)
        if any(topic.startswith("queue") for topic in topics):
            self._engine.wake()

    def _end_runs(self, runs: list[RunRecord]) -> None:
        """Their nodes are told at once."""
        agents = self._dispatch.end(runs)
        self.notifier.publish(frozenset(f"agent:{agent}" for agent in agents))

    def _end_pipeline(self, job: int) -> None:
        """The first failure shall end all of it."""
        done = self._dispatch.cancel([], by=FAIL_FAST, job=job).result()
        self.notifier.publish(frozenset(f"agent:{item.agent}" for item in done if item.agent is not None))

    def _after_round(self) -> None:
        if time.monotonic() - self._last_client > _QUIET_SECONDS:
            self._sweeper.start_if_due()
        self._heard_trials.end_asked()
        self._notices.look()
        self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        idle = time.monotonic() - self._last_client > self._settings.hub.idle
        if idle and self._fleet.is_idle() and not self._notices.is_busy:
            with self._store.read() as connection:
                busy = bool(live_runs(connection))
            if not busy:
                _log.info("nothing to do for %g s", self._settings.hub.idle)
                self._request_stop()

    def _request_stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _record(self) -> HubRecord:
        return HubRecord(
            host=socket.gethostname(), pid=os.getpid(), start=_start_time(), boot_id=_boot_id(), version=__version__,
            socket=str(self._socket_paths[0]), agent_socket=str(self._socket_paths[1]), started=self._started,
            tcp=self._listen,
        )  # fmt: skip

    def _describe(self) -> dict[str, Any]:
        agents = [
            {
                "id": agent.id,
                "target": target_of(agent.target),
                "node": agent.node,
                "pid": _pid_of(agent, self._targets),
            }
            for agent in self._fleet.agents()
        ]
        return {
            "pid": os.getpid(), "version": __version__, "host": socket.gethostname(), "home": str(self._home.root),
            "started": self._started, "uptime": round(time.time() - self._started, 3), "tcp": self._listen,
            "agents": agents, "targets": sorted({target_of(place) for place in self._targets}),
        }  # fmt: skip

    def _describe_targets(self) -> dict[str, dict[str, Any]]:
        """By target: what its places, of which there may be several, come to."""
        places: dict[str, list[Target]] = {}
        for place, target in self._targets.items():
            places.setdefault(target_of(place), []).append(target)
        sessions = [session for session in self._sessions.all() if session.heard]
        used = {agent.target for agent in self._fleet.agents()}
        described: dict[str, dict[str, Any]] = {}
        for name, found in places.items():
            here = [session for session in sessions if target_of(session.target) == name]
            described[name] = {
                "provider": found[-1].provider.name, "agents": len(here),
                "max_runs": sum(session.max_runs for session in here) or found[-1].max_runs("", os.cpu_count() or 1),
                "free": sum(max(0.0, session.max_runs - len(session.held)) for session in here),
                "trouble": "; ".join(
                    target.complaint for target in found
                    if target.complaint and (target is found[-1] or target.name in used)  # else of code long changed
                ),
                "nodes": {each.node: max(0.0, each.max_runs - len(each.held)) for each in here},
            }  # fmt: skip
        return described


def _pid_of(agent: Agent, targets: Mapping[str, Target]) -> int | None:
    """Of one that the built-in provider started here: what handles of others mean is their own affair."""
    target = targets.get(agent.target)
    if target is None or target.provider.name != "local" or agent.handle is None:
        return None
    return int(agent.handle.partition(":")[0])


def _take_lock(home: Home) -> int:
    lock = os.open(home.lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        record = HubRecord.load(home)
        who = f"pid {record.pid} on {record.host}" if record else "another process"
        raise Conflict(
            f"a hub already runs on {home.root} ({who})",
            hint="use it as it is, stop it with `turnout hub stop`, or set another TURNOUT_HOME",
        ) from error
    return lock


def _database_of(settings: Config, home: Home) -> str | None:
    url = services.database_url(settings)
    return secrets.resolve(url, home) if url is not None and url.startswith(PREFIX) else url


def _name_of(database: str) -> str:
    """Tells databases apart, and nothing else: the URL may hold a password."""
    parts = urlsplit(database)
    place = f"{parts.netloc.rpartition('@')[2]}{parts.path}?{parts.query}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _start_time() -> str:
    try:
        return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "0"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _log_to(path: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=4 << 20, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def main() -> None:
    parser = argparse.ArgumentParser(prog="turnout hub")
    parser.add_argument("--ready-fd", type=int, help="where to say that it answers, or why not")
    parser.add_argument("--listen", help="127.0.0.1:PORT for a browser")
    parser.add_argument("--bare", action="store_true", help="do not read the user's settings")
    parser.add_argument("--shared", action="store_true", help="for several users: take no code of theirs")
    options = parser.parse_args()
    os.umask(0o077)

    home = Home.from_env()
    starter = _Starter(options.ready_fd)
    hub: Hub | None = None
    try:
        home.make()
        _log_to(home.hub_log)
        hub = Hub(home, listen=options.listen, is_bare=options.bare, is_shared=options.shared)
        asyncio.run(hub.serve(lambda: starter.tell({"ready": True})))
    except TurnoutError as error:
        starter.tell(error.as_dict())
        sys.exit(error.exit_code)
    except Exception as error:
        _log.exception("the hub could not go on")
        starter.tell(
            {"error": "internal", "message": f"the hub could not start: {error}", "hint": f"see {home.hub_log}"}
        )
        sys.exit(70)
    finally:
        if hub is not None:
            hub.close()


class _Starter:
    """Who started the hub, and is told once: that it answers, or why not. A person at a terminal is told why not."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._told = False

    def tell(self, message: dict[str, object]) -> None:
        if self._told:
            return  # the descriptor is closed, and its number may be a file of ours by now
        self._told = True
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.write(self._fd, json.dumps(message).encode() + b"\n")
                os.close(self._fd)
        elif "error" in message:
            print(f"turnout hub: {message['message']}\n  {message['hint']}", file=sys.stderr)
