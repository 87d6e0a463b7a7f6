"""The process of a plugin host: ``python -m turnout.compat.child REQUESTS ANSWERS [DIRECTORY]...``.

Requests come as lines of JSON on one descriptor, one answer for each goes out on another. The directories are put in
front of the places where modules are looked for. When the requests end, so does this.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
from typing import Any

from turnout.compat import aliases, loading, searchers
from turnout.compat.kept import Kept
from turnout.plugin import remote, searching
from turnout.plugin.provider import Failure
from turnout.plugin.remote import Plugin, plain
from turnout.plugin.searching import Searcher

_METHODS = {**remote.METHODS, **searching.METHODS}


class Child:
    """Its instances: one for each plugin it was asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def answer(self, line: bytes) -> bytes:
        """What a request is answered. Never raises: whatever the plugin does is told."""
        request = json.loads(line)
        try:
            return json.dumps({"value": plain(self._call(request))}).encode()
        except Failure as error:
            return _failed({**plain(error)["failure"], "trace": loading.trace_of(error)})
        except BaseException as error:
            trace = loading.trace_of(error)
            if request["method"] != "status":  # what is printed there is shown, and so is the trace
                print(trace, file=sys.stderr)
            said = f"{request['plugin']['path']}, {request['method']}: {type(error).__name__}: {error}"
            place = loading.place_of(error)
            return _failed({"message": said.rstrip(": ") + (f" ({place})" if place else ""), "trace": trace})
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    def _call(self, request: dict[str, Any]) -> object:
        made = self._instance(request["plugin"])
        name = request["method"]
        if name == "describe":
            return loading.describe(made)
        method = getattr(made, name)
        return method(*_METHODS[name].read(request["arguments"]))

    def _instance(self, raw: dict[str, Any]) -> Any:
        key = json.dumps(raw, sort_keys=True)
        if key not in self._made:
            self._made[key] = searchers.make(Searcher(**raw)) if "kind" in raw else loading.make(Plugin(**raw))
        return self._made[key]


def _failed(how: dict[str, Any]) -> bytes:
    return json.dumps({"failure": how}).encode()


def _read(requests: int, lines: queue.SimpleQueue[bytes]) -> None:
    """Ends the process when there is nobody any more who could ask, whatever the plugin is doing."""
    with open(requests, "rb") as file:
        for line in file:
            lines.put(line)
    os._exit(0)


def main() -> None:
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    copy, own, *python_path = sys.argv[3:]
    sys.path[:0] = python_path
    if copy:
        Kept(copy, own).install()
    sys.argv = sys.argv[:1]
    faulthandler.enable()
    aliases.install()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), name="requests", daemon=True).start()
    child = Child()
    while True:  # in the main thread: event loops and signal handlers of plugins work only there
        view = memoryview(child.answer(lines.get()) + b"\n")
        while view:
            view = view[os.write(answers, view) :]


if __name__ == "__main__":
    main()
