"""By what a TrialKeeper takes its run: the token of the run's launch, with where the hub is, as one word.

It opens this run alone, and nothing any more once the run is over or went to somebody else.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from turnout.errors import InvalidInput

#: Holds a ticket. The trial does not get it.
VARIABLE = "TURNOUT_TRIAL_TOKEN"
HOW = f"`turnout trialkeeper --print-token RUN` prints one, for the variable {VARIABLE}"
_PREFIX = "tkt_"
_TOLD = ("token", "launch_token", "node", "run", "given")
_OURS = ".turnout"
_ORDER = re.compile(r"(run[0-9]+(?:\.[0-9]+)?)\.([0-9]+)\.json", re.ASCII)
_HERE = ("127.0.0.1", "localhost")
#: What the order of a launch says, as `turnout.engine.launching` makes it.
Order = dict[str, Any]


def write(order: Mapping[str, Any]) -> str:
    """The ticket for whoever is not where this order lies."""
    told = {key: order[key] for key in _TOLD if order.get(key)}
    told["address"] = [each for each in order["address"] if not each.startswith("file:")]
    return _PREFIX + base64.urlsafe_b64encode(json.dumps(told).encode()).decode()


def read(text: str) -> Order:
    """InvalidInput when it is none."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError("it does not begin as one")
        order = json.loads(base64.urlsafe_b64decode(text[len(_PREFIX) :].strip()))
        return {**order, "address": list(order["address"]), "run": str(order["run"]), "token": str(order["token"])}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{VARIABLE} does not hold the token of a run", hint=HOW) from error


def orders_in(folder: str) -> dict[str, str]:
    """Paths of the orders that lie there, by run: of each its newest attempt's."""
    found: dict[str, tuple[int, str]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        named = _ORDER.fullmatch(name)
        if named:
            found[named[1]] = max(found.get(named[1], (0, "")), (int(named[2]), os.path.join(folder, name)))
    return {run: path for run, (_, path) in found.items()}


def takes_its_run(command: str) -> bool:
    """Whether this command is one as a TrainingService is given it: by ``exec``, the order of a run that lies among the
    files here, and ``--`` it takes that run itself."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(
        (before, after) == ("exec", "--") and _is_order(word)
        for before, word, after in zip(words, words[1:], words[2:], strict=False)
    )


def _is_order(path: str) -> bool:
    folder, name = os.path.split(path)
    return folder == _OURS and _ORDER.fullmatch(name) is not None and os.path.isfile(path)


def among_files(run: str | None, environ: Mapping[str, str]) -> Order:
    """The order of the run whose files these are, as a TrainingService is given them. InvalidInput when there is none,
    or are several and nobody says which."""
    found = orders_in(_OURS)
    named = [run] if run else [environ.get("NNI_TRIAL_JOB_ID"), environ.get("TURNOUT_RUN_NAME")]
    wanted = next((name for name in named if name in found), None)
    if wanted is None and run is None and len(found) == 1:
        wanted = next(iter(found))
    if wanted is None:
        hint = f"name one with --run: {', '.join(sorted(found))}" if found else HOW
        raise InvalidInput(f"there is no {VARIABLE}, and no telling which run this is", hint=hint)
    with open(found[wanted], encoding="utf-8") as file:
        order: Order = json.load(file)
    return order


def addresses(known: Sequence[str], host: str | None, port: str | None) -> list[str]:
    """Where to look for the hub: where the ticket says, or where we are told. A token is sent in plain text to this
    machine only; elsewhere the hub is known by its certificate, whose mark is in the ticket."""
    if host is None and port is None:
        return list(known)
    if not host or not port or not port.isdecimal():
        raise InvalidInput("--nnimanager_ip and --nnimanager_port go together", hint="the port is a number")
    marks = [each.partition("#")[2] for each in known if each.startswith("tls:")]
    ways = [f"tls:{host}:{port}#{mark}" for mark in marks]
    if host in _HERE:
        ways.append(f"tcp:{host}:{port}")
    if not ways:
        hint = "let the hub listen with TLS (`hub: agents-listen:`) and print the token again, or tunnel to 127.0.0.1"
        raise InvalidInput(f"will not send a token to {host} in plain text", hint=hint)
    return ways
