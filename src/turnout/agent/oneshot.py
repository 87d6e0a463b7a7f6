"""``agent.pyz exec ORDER -- COMMAND …``: one run, where somebody else starts it.

It claims the run when it begins, and executes it as every agent does: from the hub's files, under a supervisor, telling
all that happens. Where the hub cannot be reached it executes the command as it stands, in the directory it is in, and
whoever started it is the only one who hears how that ended. A command that needs an image or a setup is not executed
without it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List

from turnout.agent import launcher
from turnout.agent.log import say
from turnout.agent.privacy import keep_memory_private
from turnout.wire.http import Connection, Unreachable

_REACH_SECONDS = 10.0
_FAILED = 1
_NOT_EXECUTED = 126


def main(argv: List[str]) -> int:
    """The run's exit code; 0 when there was nothing to do any more."""
    path, dashes, command = argv[0], argv[1], argv[2:]
    assert dashes == "--"
    os.umask(0o077)
    with open(path, encoding="utf-8") as file:
        order = json.load(file)
    # An agent that begins anew starts this program by its module.
    os.environ["PYTHONPATH"] = os.path.abspath(sys.argv[0])
    if not _reaches(order):
        if order.get("lacks"):
            say(f"the hub cannot be reached from here, and without it {order['lacks']} is not there")
            return _NOT_EXECUTED
        say("the hub cannot be reached from here; executing the command without it")
        return _execute(command, str(order.get("working_dir") or "."))
    name = order.get("run", "the run")
    say(f"{name} is executed here; `turnout logs {name}` has what it prints")
    keep_memory_private()
    warm = launcher.start(keep=1)
    from turnout.agent import node

    return _exit_code(node.run(order, warm))


def _reaches(order: Dict[str, Any]) -> bool:
    """Whether somebody answers at the hub's address, within some seconds."""
    connection = Connection(order["address"], str(order["token"]), timeout=5.0)
    deadline = time.monotonic() + float(order.get("patience", _REACH_SECONDS))
    while True:
        try:
            connection.request("POST", "/wire/blobs/missing", b"[]", timeout=5.0).read()
            return True
        except Unreachable:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        finally:
            connection.close()


def _execute(command: List[str], directory: str) -> int:
    child = subprocess.Popen(command, cwd=directory)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, _: child.send_signal(found))
    code = child.wait()
    return code if code >= 0 else 128 - code


def _exit_code(outcome: Dict[str, Any]) -> int:
    if not outcome:
        say("nothing to do here: the run is over, or somebody else has it")
        return 0
    if outcome.get("signal"):
        return 128 + int(outcome["signal"])
    code = outcome.get("exit_code")
    return _FAILED if code is None else int(code)
