"""A trial from claim to last acknowledgement: started once the hub gave it to us, told of while it goes on and after.

**Exactly once.** Output and metrics are files here, and go to the hub by byte offsets: it takes each byte once, whoever
dies in between. **The trial comes first.** It begins when the hub gives it to us. A hub that goes away then is waited
for while the trial runs, and for `patience` seconds when it is over; what was not told by then stays here, and
`send_again` tells it. Only a hub that gave the run to somebody else, or whose people cancelled it, ends the trial.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from turnout.compat.nni.keeper.beginning import Beginning, NotBegun
from turnout.compat.nni.keeper.bell import Bell
from turnout.compat.nni.keeper.echo import Echo, say
from turnout.compat.nni.keeper.streams import Streams
from turnout.compat.nni.keeper.talking import Hub, Listener, Refused
from turnout.compat.nni.keeper.telling import Told, fact
from turnout.compat.nni.keeper.tickets import Order
from turnout.compat.nni.keeper.trial import Trial, environment, metrics_file
from turnout.errors import InvalidInput, NotFound
from turnout.wire.http import Unreachable
from turnout.wire.messages import Grant

_LOOK_SECONDS = 0.1
_STATE = "trial.json"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """`silent`: its output is not told. `spool`: where to keep what is not told yet."""

    command: str
    order: Order
    silent: bool = False
    spool: str = "."
    patience: float = 300.0


def keep(wish: Wish) -> int:
    """Executes it; gives its exit code, above 128 a signal. Where nothing is executed: 0 if the run is not there for
    anybody any more, else 126."""
    hub, bell = Hub(wish.order), Bell()
    try:
        claimed = Beginning(hub, bell, wish.order["run"], wish.patience).claim()
    except NotBegun as end:
        say(str(end))
        return end.code
    grant, job = claimed.grant, claimed.job
    if bell.signals:
        with suppress(Unreachable, Refused):
            hub.report([(grant.run, grant.attempt)], [fact(grant, "returned", {})], [])
        return 128 + bell.signals[0]
    directory = _make_directory(wish.spool, grant.name)
    env = environment(directory, grant, job)
    streams = Streams(directory, metrics_file(env), silent=wish.silent)
    trial = Trial(wish.command, env, streams.output, limit=job.seconds, grace=job.grace)
    told, echo = Told(hub, grant, streams), Echo(streams.output)
    told.facts.append(fact(grant, "running", {"pid": trial.pid}))
    code = _watch(trial, told, Listener(hub.beside(), told.attempt, claimed.lease / 3, bell.ring), bell)
    told.end(_how(trial, code))
    state = {"order": wish.order, "run": grant.run, "attempt": grant.attempt, "name": grant.name, "silent": wish.silent,
             "metrics": metrics_file(env), "end": told.facts[-1].body}  # fmt: skip
    _finish(told, directory, state, wish.patience)
    echo.finish()
    return _exit_code(code)


def send_again(directory: str, patience: float) -> int:
    """Tells the hub what it was not told when the keeper that left this directory ended; 0 when it has all."""
    try:
        with open(f"{directory}/{_STATE}", encoding="utf-8") as file:
            state = json.load(file)
    except (OSError, ValueError) as error:
        raise NotFound(f"{directory} is not what a TrialKeeper left: {error}", hint="it said where that is") from error
    grant = Grant(
        run=state["run"], attempt=state["attempt"], name=state["name"], job=0, argv=[], params={}, slots=1.0,
        memory=0, gpus=0,
    )  # fmt: skip
    streams = Streams(directory, state["metrics"], silent=state["silent"])
    told = Told(Hub(state["order"]), grant, streams, must_greet=True)
    told.end(state["end"])
    return 0 if _finish(told, directory, state, patience) else 1


def _watch(trial: Trial, told: Told, listener: Listener, bell: Bell) -> int:
    """Until it is over; gives how, as `Trial.code` does."""
    while True:
        for number in bell.take_signals():
            trial.send(number)
        while not listener.news.empty():
            news = listener.news.get()
            if isinstance(news, Refused):
                told.refused(news)
            else:
                for cause in told.take(news):
                    trial.end(cause)
        if not told.is_wanted:
            trial.end("cancelled")
        code = trial.code()
        told.streams.look()
        if code is not None:
            return code
        told.tell()
        bell.wait(_LOOK_SECONDS)


def _finish(told: Told, directory: str, state: dict[str, Any], patience: float) -> bool:
    """Until the hub has all, or was silent for too long: then what is here stays. Whether it has."""
    told.heard = time.monotonic()
    while not told.is_over and time.monotonic() - told.heard <= patience:
        told.tell()
        time.sleep(told.seconds_left())
    if told.is_over:
        if not told.is_wanted:
            say(f"the hub does not take what {told.grant.name} tells: it went to somebody else, or was ended")
        shutil.rmtree(directory, ignore_errors=True)
        return told.is_wanted
    with open(os.open(f"{directory}/{_STATE}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(state, file)
    say(f"the hub did not answer for {patience:g} s. What {told.grant.name} told is kept: "
         f"`turnout trialkeeper --resend {directory}` tells it later")  # fmt: skip
    return False


def _how(trial: Trial, code: int) -> dict[str, Any]:
    """The fact of its end."""
    cause = trial.cause or ("signal" if code < 0 else "exit")
    said = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return {
        "cause": cause, "exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None,
        "message": trial.cause or said, "seconds": round(time.time() - trial.began, 6),
    }  # fmt: skip


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _make_directory(place: str, run: str) -> str:
    """For what is not told yet; where we are told if that can be, for it may be large."""
    for parent in (place, tempfile.gettempdir()):
        with suppress(OSError):
            directory = os.path.abspath(tempfile.mkdtemp(prefix=f".turnout-{run}-", dir=parent))
            os.mkdir(f"{directory}/track", 0o700)
            return directory
    raise InvalidInput(f"nothing can be written to {place}", hint="name another directory with --spool")
