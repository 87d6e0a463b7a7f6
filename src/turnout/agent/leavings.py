"""What an attempt leaves when it is over: files for the hub, and a directory that has to go."""

from __future__ import annotations

from typing import Any, Dict, Union

from turnout.agent import capture, killing
from turnout.agent.attempt import Attempt, Phase
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.holding import Holding
from turnout.agent.hub import HubLine
from turnout.agent.log import say, say_error
from turnout.agent.output import Seal
from turnout.agent.rundir import RunDirs
from turnout.wire.http import Unreachable

_RETRY_SECONDS = 1.0
_HASHED_HERE = 1 << 16


class Leavings:
    """For the main thread. Files are hashed and sent by the `shipper`, which has `line` for itself; directories are
    removed by `chores`."""

    def __init__(
        self, holding: Holding, dirs: RunDirs, mailbox: Mailbox, *, shipper: Carrier, line: HubLine, chores: Carrier
    ) -> None:
        self._holding = holding
        self._dirs = dirs
        self._mailbox = mailbox
        self._shipper = shipper
        self._line = line
        self._chores = chores

    def take(self, attempt: Attempt, *, is_clean: bool) -> None:
        """Captures what it left; its result follows. See Attempt for `is_clean`."""
        if not attempt.began or attempt.is_given_up:
            self._captured(attempt, dict(capture.NOTHING), attempt.streams.output.measure())
            return
        attempt.streams.finish()
        attempt.is_clean = is_clean
        attempt.is_bare = attempt.directory.is_bare()
        is_quick = attempt.is_bare and not attempt.streams.has_spools and not attempt.grant.outputs
        if is_quick and attempt.streams.output.size() <= _HASHED_HERE:
            self._captured(attempt, dict(capture.NOTHING), attempt.streams.output.seal())
        else:
            self.keep_files(attempt)

    def keep_files(self, attempt: Attempt) -> None:
        """Has its files found and sent. Again = once more, when the hub turned out not to have them."""
        attempt.phase = Phase.ENDED
        attempt.result = None
        attempt.carried = True
        self._shipper.do(
            lambda: capture.find(attempt.directory, attempt.grant, attempt.after, attempt.streams.output),
            lambda found: self._found(attempt, found),
        )

    def settle(self, attempt: Attempt) -> None:
        """The hub has other output than we believe, whatever the reason: what it has is the output."""
        if attempt.result is not None:
            self._captured(attempt, attempt.result, attempt.streams.output.settle())

    def put_down(self, attempt: Attempt) -> bool:
        """A carrier is done with its directory. False when nothing of it counts any more: then it was cleared away."""
        attempt.carried = False
        if attempt.phase is Phase.OVER:
            self.clear_away(attempt)
            return False
        return True

    def retire(self, attempt: Attempt) -> None:
        """The hub has everything."""
        self._holding.drop(attempt)
        attempt.phase = Phase.OVER
        attempt.streams.close()
        if attempt.grant.keep and attempt.began and self._holding.keep(attempt):
            return
        if not (attempt.is_clean and attempt.is_bare and self._dirs.put_away(attempt.directory, is_bare=True)):
            self.clear_away(attempt)

    def clear_away(self, attempt: Attempt) -> None:
        """Ends what may still run of it when it was fenced, and removes its directory; later, when a carrier is at work
        in there."""
        if attempt.carried:
            return

        def clear() -> None:
            if attempt.is_fenced and attempt.began:
                killing.end_now(attempt.directory)
            elif attempt.is_clean and self._dirs.put_away(attempt.directory, is_bare=attempt.is_bare):
                return
            attempt.directory.remove()

        def then(outcome: Union[Exception, None]) -> None:
            if outcome is not None:
                say(f"{attempt.key} could not be cleared away: {outcome}")

        attempt.streams.close()
        self._chores.do(clear, then)

    def _found(self, attempt: Attempt, found: Union[capture.Found, Exception]) -> None:
        if not self.put_down(attempt):
            return
        if isinstance(found, Exception):
            body = {**_not_kept(found), **({"missing": attempt.grant.outputs} if attempt.grant.outputs else {})}
            self._captured(attempt, body, attempt.streams.output.measure())
            return
        attempt.carried = True
        self._shipper.do(
            lambda: capture.upload(attempt.directory.work, found.entries, self._line, found.sources),
            lambda body: self._uploaded(attempt, found, body),
        )

    def _uploaded(self, attempt: Attempt, found: capture.Found, body: Union[Dict[str, Any], Exception]) -> None:
        if not self.put_down(attempt):
            return
        if isinstance(body, Unreachable):
            self._mailbox.post_later(_RETRY_SECONDS, lambda: self._upload_again(attempt, found))
            return
        if isinstance(body, Exception):
            body = _not_kept(body)
        if found.problems:
            body["problems"] = found.problems
        missing = attempt.grant.outputs if "error" in body and not attempt.grant.shared else found.missing
        if missing:
            body["missing"] = missing
        if found.left:
            body["left"] = found.left
        self._captured(attempt, body, found.seal)

    def _upload_again(self, attempt: Attempt, found: capture.Found) -> None:
        if attempt.phase is Phase.ENDED:
            self._found(attempt, found)

    def _captured(self, attempt: Attempt, body: Dict[str, Any], seal: Seal) -> None:
        attempt.result = {**body, "output_bytes": seal.size, "output_sha256": seal.sha256}
        if attempt.grant.keep:
            attempt.result["kept"] = attempt.directory.path
        attempt.phase = Phase.CAPTURED
        attempt.look_at = 0.0


def _not_kept(error: Exception) -> Dict[str, Any]:
    say_error(f"files could not be kept: {error!r}")
    return {**capture.NOTHING, "error": f"its files could not be kept: {error}"}
