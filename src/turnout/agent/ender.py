"""How an attempt ends: by itself, because the hub wants it, or because something broke."""

from __future__ import annotations

from typing import Any, Callable, Dict, Union

from turnout.agent import containers, killing, record
from turnout.agent.attempt import Attempt, Phase, Ref
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.holding import Holding
from turnout.agent.launcher import Launcher
from turnout.agent.leavings import Leavings
from turnout.agent.log import say
from turnout.agent.rundir import RunDirs
from turnout.agent.stage import entrance_trouble
from turnout.agent.watch import Watch
from turnout.wire.messages import Stop

_PREEMPTED = "preempted"
_RETRY_SECONDS = 1.0
_START_TRIES = 10
_NOT_STARTED = 126  # what a shell says of a command that cannot be executed
_UNKNOWN_GRACE = 60.0
_SUPERVISOR_SECONDS = 5.0  # beyond the grace: a supervisor that takes longer is stopped or stuck


class Ender:
    """For the main thread; killing that takes time is done by `chores`."""

    def __init__(
        self, holding: Holding, launcher: Launcher, watch: Watch, leavings: Leavings, mailbox: Mailbox, chores: Carrier
    ) -> None:
        self._holding = holding
        self._launcher = launcher
        self._watch = watch
        self._leavings = leavings
        self._mailbox = mailbox
        self._chores = chores

    def end(self, attempt: Attempt) -> None:
        """Its supervisor is done with it, or gone: what does the record say?"""
        self._watch.remove(attempt)
        if not attempt.uses_slot:
            return
        # Most have this one; the rest is only asked for when it is not there.
        found = record.read_exit(attempt.directory.ctl) or record.examine(attempt.directory.path)
        if isinstance(found, record.Exit):
            body = {**vars(found), "seconds": round(found.seconds, 6)}
            body.pop("output_bytes")
            if found.cause == "exit" and found.exit_code and (trouble := self._trouble(attempt, found.exit_code)):
                body.update(cause="spawn_failed", message=trouble)
            is_wanted_back = self._holding.is_yielding or attempt.stop_cause == _PREEMPTED
            if found.cause == "signal" and is_wanted_back:
                body.update(cause=_PREEMPTED)  # who wants the node back told so to every process on it
            self._holding.saw(attempt.grant, found.seconds)
            is_clean = found.cause == "exit" and found.message == f"exit code {found.exit_code}"
            self._conclude(attempt, body, is_clean=is_clean)
        elif isinstance(found, record.Running):
            self._watch.add(attempt, found.supervisor)
        elif isinstance(found, record.Died):
            running = found.running
            self._bury(attempt, lambda: killing.end_orphans(attempt.directory, running), "its supervisor was killed")
        elif attempt.directory.recall() is not None:
            self.start_again(attempt, "its supervisor ended before it began")
        else:
            self._bury(attempt, lambda: killing.end_orphans(attempt.directory, None), "its control directory is gone")

    def _trouble(self, attempt: Attempt, exit_code: int) -> str:
        job = self._holding.order_of(attempt.grant)
        if job is None:
            return ""
        told = entrance_trouble(attempt.directory) if job.setup is not None else ""
        return told or (containers.trouble(attempt.directory, exit_code) if job.container is not None else "")

    def start_again(self, attempt: Attempt, why: str) -> None:
        """Nothing of it was executed. The shortage that was the reason may pass; if it does not, the attempt fails."""
        if attempt.starts >= _START_TRIES:
            self.fail(attempt, why)
            return
        say(f"{attempt.key}: {why}; trying again")
        attempt.supervisor = None

        def make_ready() -> None:
            if attempt.uses_slot:  # the launcher may have said that it runs
                attempt.phase = Phase.READY
                self._holding.gpus.free(attempt)

        self._mailbox.post_later(_RETRY_SECONDS, make_ready)

    def fail(self, attempt: Attempt, message: str) -> None:
        """It cannot go on, through no fault of its own. Nothing of it may be running."""
        self._watch.remove(attempt)
        if attempt.phase < Phase.ENDED:
            self._conclude(attempt, {"cause": "infra", "message": message})

    def refuse(self, attempt: Attempt, message: str) -> None:
        """What it asks for cannot be had: its own failure, which another attempt would only repeat."""
        if attempt.phase < Phase.STARTED:
            self._conclude(attempt, {"cause": "spawn_failed", "exit_code": _NOT_STARTED, "message": message})

    def stop(self, stop: Stop) -> bool:
        """The hub wants it ended; whether that was news."""
        attempt = self._holding.attempts.get((stop.run, stop.attempt))
        if attempt is None or attempt.stop_cause is not None or attempt.phase >= Phase.ENDED:
            return False
        attempt.stop_cause = stop.cause
        if attempt.phase < Phase.STARTED and stop.cause == _PREEMPTED:
            self.give_back(attempt)
        elif attempt.phase < Phase.STARTED:
            self._conclude(attempt, {"cause": stop.cause, "message": "ended before it was started"})
        elif killing.ask_to_end(attempt.directory, attempt.supervisor, stop.cause):
            job = self._holding.order_of(attempt.grant)
            grace = job.grace if job is not None else _UNKNOWN_GRACE
            self._mailbox.post_later(grace + _SUPERVISOR_SECONDS, lambda: self._force(attempt))
        else:
            self._force(attempt)
        return True

    def give_back(self, attempt: Attempt) -> None:
        """It goes to another node, or comes again. Nothing of it was executed."""
        attempt.phase = Phase.CAPTURED
        attempt.add_fact("returned", {})

    def fence(self, ref: Ref) -> bool:
        """The hub says that this attempt is not ours any more: nothing of it may go on here. Whether that was news."""
        attempt = self._holding.attempts.get(ref)
        if attempt is None:
            return False
        say(f"{attempt.key} is not ours any more")
        self._watch.remove(attempt)
        self._holding.drop(attempt)
        attempt.phase = Phase.OVER
        attempt.is_fenced = True
        if attempt.began:
            killing.ask_to_end(attempt.directory, attempt.supervisor, "cancelled", at_once=True)
        self._leavings.clear_away(attempt)
        return True

    def give_up(self, attempt: Attempt, why: str) -> None:
        """It is over, but what it tells cannot be told: only that is said of it. If even that fails, it is let go of:
        the hub sees that we name it no more, and counts it as lost."""
        if attempt.carried:
            return  # this will come again
        if attempt.is_given_up:
            self._let_go(attempt)
            return
        attempt.is_given_up = True
        attempt.refusals = 0
        attempt.facts = []
        attempt.streams.mute()
        self._conclude(attempt, {"cause": "infra", "message": why})

    def _let_go(self, attempt: Attempt) -> None:
        """Its directory stays: should it be granted to an agent that comes next, that one finds it executed. It goes
        with the hub's answer to that agent, or after the last agent here."""
        say(f"{attempt.key}: nothing can be told of it; letting go of it")
        self._holding.drop(attempt)
        attempt.phase = Phase.OVER
        attempt.streams.close()

    def _force(self, attempt: Attempt) -> None:
        """Its supervisor was told to end it and did not, or could not be told."""
        if attempt.uses_slot:
            self._watch.remove(attempt)
            self._bury(attempt, lambda: killing.end_now(attempt.directory), "its supervisor did not end it")

    def _bury(self, attempt: Attempt, bury: Callable[[], bool], what: str) -> None:
        """Has all ended that may still run of it, then tells that."""
        attempt.phase = Phase.ENDED
        attempt.carried = True
        self._launcher.sweep()

        def then(is_empty: Union[bool, Exception]) -> None:
            if self._leavings.put_down(attempt):
                ended = "what it had started was ended" + ("" if is_empty is True else ", not all of it")
                cause = attempt.stop_cause or "infra"
                self._conclude(attempt, {"cause": cause, "message": f"{what}; {ended}"})

        self._chores.do(bury, then)

    def _conclude(self, attempt: Attempt, body: Dict[str, Any], *, is_clean: bool = False) -> None:
        attempt.phase = Phase.ENDED
        attempt.look_at = 0.0
        self._holding.gpus.free(attempt)
        attempt.add_fact("ended", body)
        self._holding.outcome = body
        self._leavings.take(attempt, is_clean=is_clean)


def surrender(holding: Holding, dirs: RunDirs) -> None:
    """Ends all that is here before it returns, and clears it away; also what was to be cleared away already."""
    began = [attempt for attempt in holding.attempts.values() if attempt.began]
    for attempt in began:  # all are told before the first is waited for
        killing.ask_to_end(attempt.directory, attempt.supervisor, "cancelled", at_once=True)
    unbegun = {attempt.directory.path for attempt in holding.attempts.values() if not attempt.began}
    for directory in dirs.found():
        if directory.path not in unbegun:
            killing.end_now(directory)
        directory.remove()
