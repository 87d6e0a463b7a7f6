"""Agents that are written down are started: as many in one go as their site takes, and what a refusal means."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnout.engine.roster import Means, Roster
from turnout.engine.target import Target
from turnout.errors import TurnoutError
from turnout.plugin.provider import Failure, Handle, Launch, Provider
from turnout.store.agents import Agent
from turnout.store.parts import in_parts

_log = logging.getLogger(__name__)
#: What a site refused for good is asked again after so long: its administrators may have changed their minds.
_REJECTED_SECONDS, _LOGIN_SECONDS = 600.0, 60.0


@dataclass(slots=True)
class Hired:
    """What came of it: whether any was started, of whom nobody knows, and who was given up meanwhile, with handles."""

    any: bool = False
    unsure: list[Agent] = field(default_factory=list)
    given_up: list[Agent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Hiring:
    """For one thread at a time."""

    target: Target
    means: Means
    roster: Roster

    def start(self, group: Sequence[Agent], now: float) -> Hired:
        """Starts a process for each. Those that were refused are forgotten, unless they have runs in hand."""
        hired = Hired()
        for part in in_parts(group, self.target.terms.bulk or len(group)):
            try:
                launches = self._launches(part)
            except (OSError, TurnoutError) as error:
                self._fail(part, Failure(f"its files cannot be put together: {error}"), now)
                continue
            wanted = [agent for agent in part if agent.id in launches]
            if wanted:
                self._submit(wanted, list(launches.values()), hired, now)
        return hired

    def _launches(self, group: Sequence[Agent]) -> dict[int, Launch]:
        """By agent, without those that have nothing to do any more."""
        tokens = self.roster.new_tokens(group)
        launches = {agent.id: self.means.yard.launch(self.target, agent, tokens[agent.id]) for agent in group}
        return self._with_works(group, launches) if self.target.launches_runs else launches

    def _with_works(self, group: Sequence[Agent], launches: Mapping[int, Launch]) -> dict[int, Launch]:
        """Each with its run; those whose run is not there any more are forgotten."""
        assert self.means.works is not None
        found: dict[int, Launch] = {}
        for agent in group:
            launch = self.means.works.attach(agent, launches[agent.id])
            if launch is not None:
                found[agent.id] = launch
            else:
                self.roster.forget(agent)
        return found

    def _submit(self, group: Sequence[Agent], launches: Sequence[Launch], hired: Hired, now: float) -> None:
        answers = self.target.ask(lambda provider: _answers(provider, launches))
        if isinstance(answers, Failure):
            hired.unsure += [agent for agent in group if not self.roster.has_runs(agent)]
            self._put_off(answers, now)
            return
        handles: dict[int, Handle] = {}
        for agent, answer in zip(group, answers, strict=True):
            if isinstance(answer, Failure):
                self._fail([agent], answer, now)
            else:
                handles[agent.id] = answer
        if handles:
            hired.any = True
            self.target.tried(now, "" if len(handles) == len(group) else self.target.trouble)
            late = self.roster.set_handles(handles)
            hired.given_up += [replace(agent, handle=handles[agent.id]) for agent in group if agent.id in late]

    def _fail(self, group: Sequence[Agent], failure: Failure, now: float) -> None:
        """They were not started."""
        self._put_off(failure, now)
        for agent in group:
            if not self.roster.has_runs(agent):
                self.roster.forget(agent)

    def _put_off(self, failure: Failure, now: float) -> None:
        _log.warning("no agent on %s: %s", self.target.name, failure)
        wait = failure.retry_after
        if failure.kind in ("rejected", "unsupported") and not self.target.is_here:
            wait = _REJECTED_SECONDS
        elif failure.kind == "login":
            wait = max(wait, _LOGIN_SECONDS)
        self.target.tried(now, f"no agent could be started: {failure.message}", wait=wait)


def _answers(provider: Provider, launches: Sequence[Launch]) -> list[Handle | Failure]:
    """One for each launch. Failure when it gave more or fewer: then nobody can tell whose they are."""
    answers = list(provider.submit(launches))
    if len(answers) != len(launches):
        raise Failure(f"it gave {len(answers)} answers to {len(launches)} launches")
    return answers
