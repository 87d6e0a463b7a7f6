"""A hub of another version: an older one makes room for one of ours, a newer one is left alone.

What a hub is asked, ``GET /api/version`` and ``POST /api/hub/stop``, hubs of all versions understand.
"""

from __future__ import annotations

import re
import sys
import time

from turnout._version import __version__
from turnout.errors import Conflict, HubUnreachable
from turnout.home import Home, HubRecord
from turnout.wire.http import Connection, Unreachable
from turnout.wire.protocol import PROTOCOL

About = dict[str, object]
_VERSION = re.compile(r"(\d{1,9}(?:\.\d{1,9})*)(?:[.-]?(dev|a|b|rc)(\d{0,9}))?", re.ASCII)
_STAGES = {"dev": 0, "a": 1, "b": 2, "rc": 3, None: 4}
_STOP_SECONDS = 30.0


def is_ours(about: About) -> bool:
    """Whether the hub that said this of itself is of this version. Raises Conflict when it is of a newer one."""
    theirs, ours = _rank(about.get("version"), about.get("protocol")), _rank(__version__, PROTOCOL)
    if theirs > ours:
        raise Conflict(
            f"the hub (pid {about.get('pid')}) is turnout {about.get('version')}, which is newer than "
            f"the turnout {__version__} in {sys.prefix}",
            hint="upgrade this one: pip install --upgrade turnout\n"
            "`turnout hub status` and `turnout hub stop` work with a hub of any version",
        )
    return theirs == ours


def make_room(home: Home, hub: Connection, about: About) -> str | None:
    """Asks an older hub to stop and waits until it has: it answers who it is busy with, and runs go on without it.

    Returns the TCP address where it listened, if it did. HubUnreachable when it does not stop.
    """
    import logging  # what was done is said on stderr, unless a program that uses the client has other plans for it

    record = HubRecord.load(home)
    pid = about.get("pid", record.pid if record is not None else "?")
    version = about.get("version", "of an earlier version")
    logging.getLogger("turnout").warning(
        "the hub (pid %s) is turnout %s: it is restarted as %s, and runs go on meanwhile", pid, version, __version__
    )
    try:
        hub.request("POST", "/api/hub/stop", timeout=_STOP_SECONDS).read()
    except Unreachable:
        pass  # it is gone, or going
    finally:
        hub.close()
    deadline = time.monotonic() + _STOP_SECONDS
    while record is not None and HubRecord.load(home) == record:
        if time.monotonic() > deadline:
            raise HubUnreachable(
                f"the hub (pid {record.pid}, turnout {version}) does not stop",
                hint=f"end it with `kill {record.pid}`: runs go on, and the next command starts a new one",
            )
        time.sleep(0.01)
    return record.tcp if record is not None else None


def _rank(version: object, protocol: object) -> tuple[object, ...]:
    """Grows with versions, and with protocols within a version. A hub that does not tell its own is of an early one."""
    found = _VERSION.match(str(version))
    if found is None:
        return ((), 0, 0, 0)
    release = [int(part) for part in found[1].split(".")]
    while release and not release[-1]:
        release.pop()
    return (tuple(release), _STAGES[found[2]], int(found[3] or 0), protocol if isinstance(protocol, int) else 0)
