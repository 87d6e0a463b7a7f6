"""What the hub orders: attempts to take, whose directories are then prepared, to end, and to drop."""

from __future__ import annotations

import errno
import time
from typing import Any, Dict, NamedTuple, Optional, Union

from turnout.agent.attempt import Attempt, Phase
from turnout.agent.cache import BrokenOff, Cache, DamagedCache
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.container_command import Runtime
from turnout.agent.containers import Containers, NoContainer
from turnout.agent.ender import Ender
from turnout.agent.holding import Holding
from turnout.agent.inputs import NoInput
from turnout.agent.leavings import Leavings
from turnout.agent.log import say
from turnout.agent.mask import Mask
from turnout.agent.record import STOP_CAUSES
from turnout.agent.rundir import RunDirs
from turnout.agent.secrets import NoSecret, reveal
from turnout.agent.setups import SetupFailed, Setups
from turnout.agent.stage import Filled, fill, needs_files, write_entrance
from turnout.agent.views import Views
from turnout.wire.http import Unreachable
from turnout.wire.messages import Grant, JobOrder, Orders, Poll, Stop

_RETRY_SECONDS = 1.0
_TRIES = 20  # for what may help; a hub that does not answer at all, and a full disk, are waited for
_PATIENCE = 600.0  # seconds for room on a full disk


class _Installed(NamedTuple):
    """`told` is for the run's history; `runtime` executes it, if that is in a container."""

    told: Dict[str, Any]
    runtime: Optional[Runtime]


class Intake:
    """For the main thread. Files are moved by the `porter`, which has the line of `cache` for itself, and setups are
    made by the `installer`."""

    def __init__(
        self, holding: Holding, dirs: RunDirs, ender: Ender, leavings: Leavings, mailbox: Mailbox,
        *, porter: Carrier, cache: Cache, views: Views, installer: Carrier, setups: Setups, containers: Containers,
    ) -> None:  # fmt: skip
        self._holding = holding
        self._dirs = dirs
        self._ender = ender
        self._leavings = leavings
        self._mailbox = mailbox
        self._porter = porter
        self._cache = cache
        self._views = views
        self._installer = installer
        self._setups = setups
        self._containers = containers

    def take(self, orders: Orders, asked: Poll, sent: float) -> bool:
        """Does as it is told in answer to a message that was `sent` then and said `asked`; whether anything was new."""
        holding = self._holding
        holding.renew(sent)
        holding.is_trouble_told = holding.is_trouble_told or bool(asked.trouble)
        holding.is_going_told = holding.is_going and (holding.is_going_told or asked.leaving)
        for job in orders.jobs:
            holding.learn(job)
        news = [self._ender.fence(ref) for ref in orders.fenced]
        for ref in asked.held:
            attempt = holding.attempts.get(ref)
            if attempt is not None:
                attempt.confirmed = True
        news += [self._accept(grant) for grant in orders.grants]
        news += [self._ender.stop(_known_cause(stop)) for stop in orders.stops]
        news.append(holding.is_leaving is not orders.exit)
        holding.is_leaving = orders.exit
        news.append(holding.is_gpu_wanted is not orders.gpus_wanted)
        holding.is_gpu_wanted = orders.gpus_wanted
        return any(news)

    def _accept(self, grant: Grant) -> bool:
        job = self._holding.order_of(grant)
        if self._holding.knows((grant.run, grant.attempt)) or job is None:
            return False
        attempt = Attempt(
            grant, [*job.after, *([] if grant.shared else grant.outputs)], self._dirs.of(grant.run, grant.attempt)
        )
        self._holding.add(attempt)
        self._stage(attempt, job, 1)
        return True

    def _stage(self, attempt: Attempt, job: JobOrder, number: int) -> None:
        """Prepares its directory, for the `number`-th time: here, or by the porter if files are to be moved."""
        if not needs_files(attempt.grant, job):
            try:
                outcome: Union[Filled, Exception] = self._fill(attempt, job)
            except Exception as error:
                outcome = error
            self._staged(attempt, job, number, outcome)
            return
        attempt.carried = True
        self._porter.do(lambda: self._fill(attempt, job), lambda outcome: self._staged(attempt, job, number, outcome))

    def _fill(self, attempt: Attempt, job: JobOrder) -> Filled:
        began = time.monotonic()
        self._dirs.make(attempt.directory)
        is_wanted = lambda: attempt.phase is Phase.STAGING  # noqa: E731
        filled = fill(attempt.directory, attempt.grant, job, self._cache, self._views, is_wanted)
        secrets = reveal(job.env)
        filled.env.update(secrets)
        attempt.streams.output.mask = Mask(secrets.values())
        attempt.directory.remember(attempt.grant, attempt.after, list(secrets.values()))
        filled.told["seconds"] = round(time.monotonic() - began, 4)
        return filled

    def _staged(self, attempt: Attempt, job: JobOrder, number: int, outcome: Union[Filled, Exception]) -> None:
        if not self._leavings.put_down(attempt) or attempt.phase is not Phase.STAGING:
            return
        if not isinstance(outcome, Exception):
            attempt.env = outcome.env
            attempt.add_fact("staged", outcome.told)
            self._set_up(attempt, job)
        elif isinstance(outcome, (NoInput, NoSecret)):
            self._ender.refuse(attempt, str(outcome))
        elif _may_pass(outcome, number, time.monotonic() - attempt.granted):
            self._mailbox.post_later(_RETRY_SECONDS, lambda: self._stage_again(attempt, job, number + 1))
        else:
            self._ender.fail(attempt, f"its directory could not be prepared: {outcome}")

    def _set_up(self, attempt: Attempt, job: JobOrder) -> None:
        """Has its setup made and its image brought, by the installer, if it has them; then it is ready."""
        if job.setup is None and job.container is None:
            attempt.phase = Phase.READY
            return
        attempt.carried = True
        self._installer.do(lambda: self._install(attempt, job), lambda outcome: self._is_set_up(attempt, outcome))

    def _install(self, attempt: Attempt, job: JobOrder) -> _Installed:
        def is_wanted() -> bool:
            return attempt.phase is Phase.STAGING

        told: Dict[str, Any] = {}
        if job.setup is not None:
            prepared = self._setups.prepare(job, attempt.directory.path, is_wanted)
            write_entrance(attempt.directory, job, prepared.environment)
            told = prepared.told
        return _Installed(told, None if job.container is None else self._containers.prepare(job, is_wanted))

    def _is_set_up(self, attempt: Attempt, outcome: Union[_Installed, Exception]) -> None:
        if not self._leavings.put_down(attempt) or attempt.phase is not Phase.STAGING:
            return
        if isinstance(outcome, (SetupFailed, NoContainer)):
            self._ender.refuse(attempt, str(outcome))
        elif isinstance(outcome, Exception):
            self._ender.fail(attempt, f"its setup could not be made: {outcome}")
        else:
            if outcome.told:
                attempt.add_fact("setup", outcome.told)
            attempt.runtime = outcome.runtime
            attempt.phase = Phase.READY

    def _stage_again(self, attempt: Attempt, job: JobOrder, number: int) -> None:
        if attempt.phase is Phase.STAGING:
            self._stage(attempt, job, number)


def _may_pass(error: Exception, number: int, waited: float) -> bool:
    if isinstance(error, Unreachable):
        return True
    if isinstance(error, (BrokenOff, DamagedCache)):
        return number < _TRIES
    if _is_full(error) and waited < _PATIENCE:
        if number == 1:
            say(f"no room to prepare a run: {error}; waiting for it")
        return True
    return False


def _is_full(error: BaseException) -> bool:
    """Whether this is a full disk, itself or as the reason of what was raised."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return error.__cause__ is not None and _is_full(error.__cause__)


def _known_cause(stop: Stop) -> Stop:
    return stop if stop.cause in STOP_CAUSES else Stop(stop.run, stop.attempt, "cancelled")
