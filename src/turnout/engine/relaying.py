"""What launches tell their own system instead of us, where their provider passes it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnout.engine.concluding import relay
from turnout.engine.roster import Means, Roster
from turnout.engine.target import Target
from turnout.plugin.provider import Failure, Handle, Observation, Phase, Provider
from turnout.plugin.telling import Known, News, Telling
from turnout.schedule.record import Cause
from turnout.store.agents import Agent
from turnout.wire.messages import Attempt


@dataclass(slots=True)
class Relaying:
    """For one thread at a time. Nothing of it survives: after a start, all is told from the beginning, and what is here
    already is passed over."""

    target: Target
    means: Means
    roster: Roster
    _known: dict[int, Known] = field(default_factory=dict)
    _passed_on: set[Attempt] = field(default_factory=set)

    def listen(self, agents: Mapping[Handle, Agent], seen: Mapping[int, Observation]) -> dict[int, News]:
        """Writes what those have told that run; gives what those told that are gone."""
        self._known = {agent.id: self._known.get(agent.id, Known()) for agent in agents.values()}
        asked = {
            handle: self._from(agent, seen[agent.id]) for handle, agent in agents.items()
            if seen[agent.id].phase in (Phase.ACTIVE, Phase.GONE)
        }  # fmt: skip
        answer = self.target.ask(lambda provider: _news(provider, asked)) if asked else {}
        if isinstance(answer, Failure):
            return {}
        last: dict[int, News] = {}
        for handle, news in answer.items():
            agent = agents[handle]
            if seen[agent.id].phase is Phase.GONE and not self.roster.is_heard(agent):
                last[agent.id] = news
            elif news.records:
                self._take(agent, seen[agent.id], news)
        return last

    def _from(self, agent: Agent, seen: Observation) -> Known:
        """Of one that is gone and was never heard of, all once more: what is here already is passed over."""
        is_last = seen.phase is Phase.GONE and not self.roster.is_heard(agent)
        return Known() if is_last else self._known[agent.id]

    def _take(self, agent: Agent, seen: Observation, news: News) -> None:
        start, is_heard = self._known[agent.id].records, self.roster.is_heard(agent)
        is_new = self.means.store.write(lambda tx: relay(tx, agent, seen, news, start, is_heard=is_heard))
        self._known[agent.id] = Known(records=start + len(news.records))
        if is_new:  # should its own program come after all, it is given what it has
            self.means.dispatch.recover(agent, is_leased=False)

    @property
    def has_ends(self) -> bool:
        """Whether something has to end that was not passed on. From any thread."""
        sessions = [self.roster.session(agent) for agent in self.roster.all()]
        return any(key not in self._passed_on for each in sessions if each is not None for key in list(each.stops))

    def pass_on_ends(self) -> None:
        """What has to end, and has nobody there who would hear it, is ended by the provider; and it is told of each
        that a stopper ends."""
        asked: set[Attempt] = set()
        for agent in self.roster.all():
            session = self.roster.session(agent)
            if session is not None and agent.handle is not None:
                with self.means.sessions.lock:
                    stops = dict(session.stops)
                asked |= stops.keys()
                for stop in (each for key, each in stops.items() if key not in self._passed_on):
                    self._end(agent.handle, is_stop=stop.cause == Cause.STOPPED, is_heard=session.heard)
        self._passed_on = asked

    def _end(self, handle: Handle, *, is_stop: bool, is_heard: bool) -> None:
        """A launch that is heard ends its run itself; its system is told only why, if it was a stopper."""

        def end(provider: Provider) -> None:
            assert isinstance(provider, Telling), "only such are asked"
            provider.stop([handle]) if is_stop else provider.cancel([handle])

        if is_stop or not is_heard:
            self.target.ask(end)


def _news(provider: Provider, known: Mapping[Handle, Known]) -> dict[Handle, News]:
    assert isinstance(provider, Telling), "only such are asked"
    return provider.news(known)
