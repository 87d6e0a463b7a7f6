"""An attempt's way from its end to nothing: why it ended, what it left, and its directory."""

from __future__ import annotations

from typing import Any, Callable, Dict, Union

from turnout.agent import capture, killing, record
from turnout.agent.attempt import Attempt, Phase, Ref
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.holding import Holding
from turnout.agent.hub import HubLine
from turnout.agent.launcher import Launcher
from turnout.agent.log import say, say_error
from turnout.agent.rundir import RunDirs
from turnout.agent.streams import Seal
from turnout.agent.watch import Watch
from turnout.wire.http import Unreachable
from turnout.wire.messages import Stop

_RETRY_SECONDS = 1.0
_HASHED_HERE = 1 << 16
_START_TRIES = 10
_UNKNOWN_GRACE = 60.0
_SUPERVISOR_SECONDS = 5.0  # beyond the grace: a supervisor that takes longer is stopped or stuck


class Ender:
    """For the main thread. What takes long goes to a carrier: files to the `shipper`, which has `line` for itself, and
    the killing and clearing away to `chores`."""

    def __init__(
        self, holding: Holding, dirs: RunDirs, launcher: Launcher, watch: Watch, mailbox: Mailbox,
        *, shipper: Carrier, line: HubLine, chores: Carrier,
    ) -> None:  # fmt: skip
        self._holding = holding
        self._dirs = dirs
        self._launcher = launcher
        self._watch = watch
        self._mailbox = mailbox
        self._shipper = shipper
        self._line = line
        self._chores = chores

    def end(self, attempt: Attempt) -> None:
        """Its supervisor is done with it, or gone: what does the record say?"""
        self._watch.remove(attempt)
        if attempt.phase not in (Phase.STARTED, Phase.RUNNING):
            return
        # Most have this one; the rest is only asked for when it is not there.
        found = record.read_exit(attempt.directory.ctl) or record.examine(attempt.directory.path)
        if isinstance(found, record.Exit):
            body = {**vars(found), "seconds": round(found.seconds, 6)}
            body.pop("output_bytes")
            self._holding.saw(found.seconds)
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

    def start_again(self, attempt: Attempt, why: str) -> None:
        """Nothing of it was executed. The shortage that was the reason may pass; if it does not, the attempt fails."""
        if attempt.starts >= _START_TRIES:
            self.fail(attempt, why)
            return
        say(f"{attempt.key}: {why}; trying again")
        attempt.supervisor = None

        def ready() -> None:
            if attempt.phase is Phase.STARTED:
                attempt.phase = Phase.READY
                self._holding.free(attempt)

        self._mailbox.post_later(_RETRY_SECONDS, ready)

    def fail(self, attempt: Attempt, message: str) -> None:
        """It cannot go on, through no fault of its own. Nothing of it may be running."""
        self._watch.remove(attempt)
        if attempt.phase < Phase.ENDED:
            self._conclude(attempt, {"cause": "infra", "message": message})

    def stop(self, stop: Stop) -> bool:
        """The hub wants it ended; whether that was news."""
        attempt = self._holding.attempts.get((stop.run, stop.attempt))
        if attempt is None or attempt.stop_cause is not None or attempt.phase >= Phase.ENDED:
            return False
        attempt.stop_cause = stop.cause
        if attempt.phase < Phase.STARTED:
            self._conclude(attempt, {"cause": stop.cause, "message": "ended before it was started"})
        elif killing.ask_to_end(attempt.directory, attempt.supervisor, stop.cause):
            job = self._holding.job(attempt.grant.job)
            grace = job.grace if job is not None else _UNKNOWN_GRACE
            self._mailbox.post_later(grace + _SUPERVISOR_SECONDS, lambda: self._force(attempt))
        else:
            self._force(attempt)
        return True

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
        self._clear_away(attempt)
        return True

    def retire(self, attempt: Attempt) -> None:
        """The hub has everything."""
        self._holding.drop(attempt)
        attempt.phase = Phase.OVER
        if attempt.can_be_put_away and self._dirs.put_away(attempt.directory):
            attempt.streams.close()
            return
        self._clear_away(attempt)

    def surrender(self) -> None:
        """Ends all that is here before it returns, and clears it away; also what was to be cleared away already."""
        unbegun = {attempt.directory.path for attempt in self._holding.attempts.values() if not attempt.began}
        left = [directory for directory in self._dirs.found() if directory.path not in unbegun]
        for directory in left:  # all are told before the first is waited for
            found = record.examine(directory.path)
            if isinstance(found, record.Running):
                killing.ask_to_end(directory, found.supervisor, "cancelled", at_once=True)
        for directory in left:
            killing.end_now(directory)
        for directory in self._dirs.found():
            directory.remove()

    def keep_files(self, attempt: Attempt) -> None:
        """Captures what it left. Again = once more, when the hub turned out not to have it."""
        attempt.phase = Phase.ENDED
        attempt.result = None
        attempt.carried = True
        artifacts = frozenset(attempt.streams.artifacts)
        self._shipper.do(
            lambda: capture.find(attempt.directory, attempt.after, set(artifacts), attempt.streams),
            lambda found: self._found(attempt, found),
        )

    def settle(self, attempt: Attempt) -> None:
        """The hub has other output than we believe, whatever the reason: what it has is the output."""
        if attempt.result is not None:
            self._captured(attempt, attempt.result, attempt.streams.settle())

    def give_up(self, attempt: Attempt, why: str) -> None:
        """What it tells cannot be told: it is ended, and only that is said of it. If even that fails, nothing is."""
        if attempt.carried:
            return  # this will come again
        if attempt.is_given_up:
            self.fence(attempt.ref)
            return
        attempt.is_given_up = True
        attempt.refusals = 0
        attempt.facts = []
        attempt.streams.mute()
        self._watch.remove(attempt)
        self._bury(attempt, lambda: killing.end_now(attempt.directory), why)

    def settled(self, attempt: Attempt) -> bool:
        """A carrier is done with this attempt's directory. False when nothing else counts: then it was cleared away."""
        attempt.carried = False
        if attempt.phase is Phase.OVER:
            self._clear_away(attempt)
            return False
        return True

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
            if self.settled(attempt):
                ended = "what it had started was ended" + ("" if is_empty is True else ", not all of it")
                cause = attempt.stop_cause or "infra"
                self._conclude(attempt, {"cause": cause, "message": f"{what}; {ended}"})

        self._chores.do(bury, then)

    def _conclude(self, attempt: Attempt, body: Dict[str, Any], *, is_clean: bool = False) -> None:
        """`is_clean`: its supervisor says that nothing of it is alive."""
        attempt.phase = Phase.ENDED
        attempt.look_at = 0.0
        self._holding.free(attempt)
        attempt.add_fact("ended", body)
        if not attempt.began or attempt.is_given_up:
            self._captured(attempt, dict(capture.NOTHING), attempt.streams.measure())
            return
        attempt.streams.finish()
        is_bare = attempt.directory.is_bare() and not attempt.streams.has_spools
        if is_bare and attempt.streams.output_size() <= _HASHED_HERE:
            attempt.can_be_put_away = is_clean
            self._captured(attempt, dict(capture.NOTHING), attempt.streams.seal())
        else:
            self.keep_files(attempt)

    def _found(self, attempt: Attempt, found: Union[capture.Found, Exception]) -> None:
        if not self.settled(attempt):
            return
        if isinstance(found, Exception):
            self._captured(attempt, _not_kept(found), attempt.streams.measure())
            return
        attempt.carried = True
        self._shipper.do(
            lambda: capture.upload(attempt.directory.work, found.entries, self._line),
            lambda body: self._uploaded(attempt, found, body),
        )

    def _uploaded(self, attempt: Attempt, found: capture.Found, body: Union[Dict[str, Any], Exception]) -> None:
        if not self.settled(attempt):
            return
        if isinstance(body, Unreachable):
            self._mailbox.post_later(_RETRY_SECONDS, lambda: self._retry_upload(attempt, found))
            return
        if isinstance(body, Exception):
            body = _not_kept(body)
        if found.problems:
            body["problems"] = found.problems
        self._captured(attempt, body, found.seal)

    def _retry_upload(self, attempt: Attempt, found: capture.Found) -> None:
        if attempt.phase is Phase.ENDED:
            self._found(attempt, found)

    def _captured(self, attempt: Attempt, body: Dict[str, Any], seal: Seal) -> None:
        attempt.result = {**body, "output_bytes": seal.size, "output_sha256": seal.sha256}
        attempt.phase = Phase.CAPTURED
        attempt.look_at = 0.0

    def _clear_away(self, attempt: Attempt) -> None:
        """Ends what may still run of it, and removes its directory; later, when a carrier is at work in there."""
        if attempt.carried:
            return

        def clear() -> None:
            if attempt.is_fenced and attempt.began:
                killing.end_now(attempt.directory)
            attempt.directory.remove()

        def then(outcome: Union[None, Exception]) -> None:
            if isinstance(outcome, Exception):
                say(f"{attempt.key} could not be cleared away: {outcome}")

        attempt.streams.close()
        self._chores.do(clear, then)


def _not_kept(error: Exception) -> Dict[str, Any]:
    say_error(f"files could not be kept: {error!r}")
    return {**capture.NOTHING, "error": f"its files could not be kept: {error}"}
