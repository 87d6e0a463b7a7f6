"""What is done for one place in each round of the engine: agents are started where runs wait, watched, started again
when they died with runs in hand, given up, or sent home."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnout.engine import steer
from turnout.engine.concluding import conclude
from turnout.engine.demand import Needs
from turnout.engine.farewell import Farewells
from turnout.engine.hiring import Hiring
from turnout.engine.pace import Looks, Quota
from turnout.engine.relaying import Relaying
from turnout.engine.roster import Means, Roster
from turnout.engine.target import Backoff, Target
from turnout.model.ids import place_of
from turnout.model.state import Reason
from turnout.plugin.provider import Failure, Handle, Observation, Phase
from turnout.plugin.telling import News, Telling
from turnout.schedule.record import Lost
from turnout.schedule.staffing import openings, surplus
from turnout.store.agents import Agent, AgentState, Observed
from turnout.store.queue import busy_nodes, queues_with_waiting_runs

_log = logging.getLogger(__name__)
#: An agent that began and cannot be heard for so long beyond a lease will not be.
_MUTE_SECONDS = 30.0
#: Of a machine that stays: how many intervals looks may be apart, and by how much more each time.
_STEADY = 120.0, 10.0
#: Seconds between its rounds, while nothing waits and all its agents are waiting for orders.
_STEADY_ROUND = 60.0
#: Seconds between tries to make its provider, where that failed.
_REMAKE_SECONDS = 60.0
#: Why a launch that held runs ended, as the reason of those runs.
_REASONS = dict.fromkeys(("preempted", "timeout", "cancelled", "stopped"), Reason.PREEMPTED)


@dataclass(slots=True)
class Pool:
    """For one thread at a time, but for `agents`, `end_all` and `give_up_silent`."""

    target: Target
    means: Means
    _is_ending: bool = False
    _next_round: float = 0.0
    _unwanted: list[Handle] = field(default_factory=list)
    _active_since: dict[int, float] = field(default_factory=dict)
    _backoffs: dict[int, Backoff] = field(default_factory=dict)
    _has_begun: bool = field(init=False)
    _next_remake: float = 0.0
    _left: list[Agent] = field(default_factory=list)
    """given up while nobody knew what kind of place this is"""
    _roster: Roster = field(init=False)
    _looks: Looks = field(init=False)
    _quota: Quota = field(init=False)
    _needs: Needs = field(init=False)
    _farewells: Farewells = field(init=False)
    _relaying: Relaying = field(init=False)

    def __post_init__(self) -> None:
        self._has_begun = self.target.is_served
        self._roster = Roster(self.target, self.means)
        self._looks = self._pace()
        self._farewells = Farewells(self.target, self.means.yard, Looks(self._looks.interval))
        self._quota = Quota(self.target.terms.rate)
        self._needs = Needs(self.means.store, self.target)
        self._relaying = Relaying(self.target, self.means, self._roster)

    def agents(self) -> list[Agent]:
        return self._roster.all()

    def needs_round(self, now: float, waiting: Sequence[str]) -> bool:
        """Whether there may be something to do; quick, and from any thread. While all agents talk to us and nothing
        waits, a round every now and then is enough."""
        if waiting or self._is_ending or self._unwanted or self._farewells or now >= self._next_round:
            return True
        if isinstance(self.target.provider, Telling) and self._relaying.has_ends:
            return True
        return not all(each.handle and "#" not in each.queue and self._is_talking(each, now) for each in self.agents())

    def recover(self, agent: Agent) -> None:
        """After a start of the hub: takes up with an agent that the store knows."""
        self._roster.add([agent])
        if agent.handle is None and self.target.is_here:
            self._find(agent)
        if self._roster.get(agent.id) is not None:
            self.means.dispatch.recover(agent, is_leased=self.target.is_here or agent.state is AgentState.UP)

    @property
    def has_business(self) -> bool:
        """Whether it needs a round although nothing waits."""
        return bool(self.agents() or self._unwanted or self._farewells or self._left)

    def end_all(self) -> None:
        """Has the provider end every agent, whatever it does, in the next round. Idempotent."""
        self._is_ending = True

    def tend(self, now: float, waiting: Sequence[str]) -> None:
        """One round. `waiting` are the queues of this place in which runs waited when it began."""
        self._next_round = now + (2 * self._looks.interval if self.target.is_elastic else _STEADY_ROUND)
        before = {agent.id for agent in self.agents()}
        self._begin(now)
        self._give_up_mute(now)
        self._lose_dropped()
        self._find_unanswered(now)
        self._observe(now)
        if before != {agent.id for agent in self.agents()}:  # what those had who are gone may wait again
            waiting = self._waiting()
        self._start_needed(now, waiting)
        self._take_back(waiting)
        if isinstance(self.target.provider, Telling):
            self._relaying.pass_on_ends()
        self._cancel_unwanted()
        self._farewells.tend(now)
        self._send_home()
        self._end_asked()
        if not self.has_business:
            self.target.ask(lambda provider: provider.rest())
            if self.means.works is not None and self.target.launches_runs:
                self.means.works.clear()

    def _begin(self, now: float) -> None:
        """Where the provider could not be made when the hub started: tries that every so often. Until then its agents
        go on as long as they are heard; then what is to be known of the place is known, and they are taken up."""
        if not self.target.is_served and now >= self._next_remake:
            self._next_remake = now + _REMAKE_SECONDS
            self.target.try_to_serve()
        if not self.target.is_served:
            return
        if not self._has_begun:
            self._has_begun, self._looks = True, self._pace()
            for agent in self.agents():
                if not self._roster.is_heard(agent):
                    self.recover(agent)
        while self._left:
            self._let_go(self._left.pop())

    # --- who is lost --------------------------------------------------------------------------------------------------

    def give_up_silent(self, lost: Sequence[int]) -> None:
        """Those of these that are here. It does not wait for a round that is under way: that may wait for the very
        machine which cannot be reached."""
        for number in lost:
            agent = self._roster.get(number)
            if agent is not None:
                self._give_up(agent, Lost(message=f"no sign of life for {self.means.sessions.lease_seconds:g} s"))

    def _give_up_mute(self, now: float) -> None:
        """Those that a site began, and that say nothing. (In the queue of a site nobody has a lease.)"""
        for number, since in list(self._active_since.items()):
            agent = self._roster.get(number)
            if agent is None or self._roster.is_heard(agent):
                del self._active_since[number]
            elif now - since > self.means.sessions.lease_seconds + _MUTE_SECONDS:
                host = (agent.observed.host if agent.observed is not None else "") or agent.node
                self._give_up(agent, Lost(message="it began and was never heard of"))
                self.target.trouble = f"an agent began on {host} and does not reach the hub"

    def _lose_dropped(self) -> None:
        """What an agent has no more, though nobody heard how it ended, is lost there."""
        for agent, attempts in self.means.sessions.dropped().items():
            if self._roster.get(agent) is None:
                continue
            _log.warning("agent %d let go of %s", agent, sorted(attempts))
            lost = Lost(reason=Reason.INFRA, message="its agent let go of it without a word")
            self.means.store.write(lambda tx: steer.lose(tx, agent, lost, only=attempts))  # noqa: B023
            self.means.sessions.release(agent, attempts)

    def _give_up(self, agent: Agent, fact: Lost) -> None:
        """It is lost, whoever has it."""
        self._roster.give_up(agent, fact)
        self._let_go(agent)

    def _let_go(self, agent: Agent) -> None:
        """If the site may still have it, it is told in a round that nobody wants it any more."""
        if not self.target.is_served:
            self._left.append(agent)
        elif agent.handle is not None and self.target.is_elastic:
            self._unwanted.append(agent.handle)
        elif not self.target.is_here:
            self._farewells.add(agent)

    def _find_unanswered(self, now: float) -> None:
        """Looks again for agents whose target could not tell whether they were started. To find out that it still
        cannot may take long: that is enough for one round, and the next begins with those that waited longest."""
        self._backoffs = {number: each for number, each in self._backoffs.items() if self._roster.get(number)}
        unanswered = [agent for agent in self.agents() if agent.handle is None]
        for agent in sorted(unanswered, key=lambda each: self._own_backoff(each).not_before):
            if now >= self._backoff(agent).not_before and not self._find(agent):
                self._own_backoff(agent).tried(now)
                if not agent.seat:
                    self.target.tried(now, self.target.trouble)
                return

    def _own_backoff(self, agent: Agent) -> Backoff:
        return self._backoffs.setdefault(agent.id, Backoff())

    def _backoff(self, agent: Agent) -> Backoff:
        """What puts off tries for this agent: where there are seats, trouble with one machine is none of the others."""
        return self._own_backoff(agent) if agent.seat else self.target.backoff

    def _find(self, agent: Agent) -> bool:
        """Learns the handle of an agent whose launch was not answered, or that it was never started and is given up.
        False when its target cannot tell: then it stays, and no other is started in its place."""
        trouble = "it cannot be asked for an agent that may be there"
        found = self.target.find(agent.launch_token, agent.seat, trouble)
        if isinstance(found, Failure):
            return False
        if found is None:
            self._give_up(agent, Lost(message="it was never started"))
        else:
            self._roster.set_handles({agent.id: found})
        return True

    # --- how they are -------------------------------------------------------------------------------------------------

    def _observe(self, now: float) -> None:
        """Looks at all, when it is time: whoever speaks to us need not be looked at often."""
        mine = {agent.handle: agent for agent in self.agents() if agent.handle is not None}
        if not mine:
            return
        is_awaited = not all(self._is_talking(agent, now) for agent in mine.values())
        if is_awaited:
            self._looks.hurry(now)
        if not self._looks.is_due(now):
            return
        seen = self.target.ask(lambda provider: provider.observe(list(mine)), "its agents cannot be looked at")
        self._looks.looked(now, is_awaited=is_awaited)
        if isinstance(seen, Failure):
            return
        found = {agent.id: seen.get(handle) or Observation(Phase.GONE) for handle, agent in mine.items()}
        if not self.target.is_here:
            self._roster.set_observed({agent: _to_observed(each) for agent, each in found.items()})
        told = self._relaying.listen(mine, found) if isinstance(self.target.provider, Telling) else {}
        for agent in mine.values():
            known = self._roster.get(agent.id)
            if known is not None:  # else it was given up meanwhile
                self._judge(known, found[agent.id], now, told.get(agent.id, News()))

    def _pace(self) -> Looks:
        """Where a machine stays, its silence tells all that a look would: it is looked at for that, and hardly ever
        else."""
        if self.target.is_here:
            return Looks(0.0)
        interval = self.target.interval(self.means.sessions.lease_seconds)
        return Looks(interval) if self.target.is_elastic else Looks(interval, *_STEADY)

    def _is_talking(self, agent: Agent, now: float) -> bool:
        session = self._roster.session(agent)
        if session is None or session.waits_at is None or not self._roster.is_heard(agent):
            return False
        if session.dropped:  # it said less than it should
            return False
        if session.departing or (session.leaving and not session.held):  # gone in a moment
            return False
        return not self.means.sessions.is_overdue(agent.id, now)

    def _judge(self, agent: Agent, seen: Observation, now: float, told: News) -> None:
        session = self._roster.session(agent)
        if session is not None and session.trouble:
            self.target.ailing = session.trouble
        is_missed = seen.phase is Phase.UNKNOWN and seen.reason == "node_lost"
        if seen.phase is Phase.GONE or (is_missed and self._is_silent(agent)):
            self._bury(agent, seen, now, told)
        elif session is not None and session.heard:
            if not session.preparing and not session.trouble:
                self._backoffs.pop(agent.id, None)
                self.target.heard()
        elif seen.phase is Phase.ACTIVE and self._has_to_be_heard and agent.state is AgentState.LAUNCHING:
            self._active_since.setdefault(agent.id, now)

    @property
    def _has_to_be_heard(self) -> bool:
        """Whether what a site began is of no use if it says nothing. A run may be executed in silence."""
        return not self.target.is_here and not self.target.launches_runs

    def _is_silent(self, agent: Agent) -> bool:
        """Whether it was never heard of, by no hub."""
        return agent.state is AgentState.LAUNCHING and not self._roster.is_heard(agent)

    def _bury(self, agent: Agent, seen: Observation, now: float, told: News) -> None:
        """An agent's process is gone. With runs in hand, another takes its place there, if the place stays; else the
        agent is history."""
        session = self._roster.session(agent)
        has_more = session is not None and bool(session.held or session.kept) and agent.state is not AgentState.GONE
        said = f": {seen.detail}" if seen.detail else ""
        if has_more and not self.target.is_elastic:
            self._replace(agent, now)
        elif self.target.launches_runs and self._is_silent(agent):
            self.means.store.write(lambda tx: conclude(tx, agent, seen, told))
            self._roster.forget(agent)
        elif has_more:
            reason = _REASONS.get(seen.reason, Reason.NODE_LOST)
            self._roster.give_up(agent, Lost(reason=reason, message=f"its allocation ended{said}"))
        else:
            if not self._roster.is_heard(agent):
                self._note_unheard(agent, f"an agent ended before it was heard of{said}")
            self._roster.forget(agent)

    def _note_unheard(self, agent: Agent, what: str) -> None:
        """Here the next one follows at once, so it stays said until one is heard, and people can read what it printed.
        (A hub that was restarted has not heard those that were up before.)"""
        if not self.target.is_here:
            self.target.trouble = what
        elif agent.state is AgentState.LAUNCHING:
            directory = self.means.yard.directory(self.target, agent.id)
            self.target.ailing = f"{what}; {directory}/agent.log has what it printed"

    def _replace(self, agent: Agent, now: float) -> None:
        """Starts a process in the place of one that died with runs in hand, which go on."""
        session = self._roster.session(agent)
        assert session is not None
        found = self.target.find(agent.launch_token, agent.seat, "its dead agent cannot be looked for")
        if isinstance(found, Failure):
            return
        if found is not None and found != agent.handle:  # an earlier hub started it again and could not say so
            self._roster.set_handles({agent.id: found})
        elif now >= self._backoff(agent).not_before:
            _log.warning("agent %d died with %d runs in hand; starting it again", agent.id, len(session.held))
            self._backoff(agent).tried(now)
            was_heard, session.heard = session.heard, False
            self._launch([agent], now)
            if was_heard:
                self.means.sessions.renew(agent.id, now)

    # --- who is needed ------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[str]:
        with self.means.store.read() as connection:
            return [queue for queue in queues_with_waiting_runs(connection) if place_of(queue) == self.target.name]

    def _start_needed(self, now: float, waiting: Sequence[str]) -> None:
        if now < self.target.not_before or not waiting or not self.target.is_served:  # all of a round is one try
            return
        wanted = openings(self._needs.of(waiting), self._roster.posts(), self.target.site)
        allowed = self._quota.allows(now)
        is_held_back = allowed is not None and allowed < len(wanted)
        said = f"no more than {self.target.terms.rate} nodes are asked for in a minute (`submit-rate`)"
        self.target.restraint = said if is_held_back else ""
        wanted = wanted[:allowed]
        if wanted:
            self._quota.use(len(wanted))
            self._launch(self._roster.take_on(wanted, now), now)

    def _launch(self, group: Sequence[Agent], now: float) -> None:
        """Starts a process for each."""
        hired = Hiring(self.target, self.means, self._roster).start(group, now)
        if self.target.is_here:
            for agent in hired.unsure:
                self._find(agent)
        for agent in hired.given_up:
            self._let_go(agent)
        if hired.any:
            self._looks.hurry(now, at_once=self.target.launches_runs)
            if self.target.launches_runs:  # what others call it has to be known while it is there
                self._observe(now)

    # --- who is not needed any more -----------------------------------------------------------------------------------

    def _take_back(self, waiting: Sequence[str]) -> None:
        """What the site has not begun and nobody waits for any more is not wanted."""
        if not self.target.is_elastic:
            return
        unwanted = {post.number for post in surplus(self._roster.posts(), set(waiting))}
        mine = {agent.handle: agent for agent in self.agents() if agent.handle and agent.number in unwanted}
        if mine and not isinstance(self.target.ask(lambda provider: provider.cancel(list(mine))), Failure):
            for agent in mine.values():
                self._roster.forget(agent)

    def _cancel_unwanted(self) -> None:
        handles = list(self._unwanted)
        if handles and not isinstance(self.target.ask(lambda provider: provider.cancel(handles)), Failure):
            for each in handles:  # one by one: another thread may add some at any moment
                self._unwanted.remove(each)

    def _send_home(self) -> None:
        """Nodes of a job's own go when the job has nothing more for them: at once, others may wait for the place."""
        own = [agent for agent in self.agents() if "#" in agent.queue]
        if not own:
            return
        with self.means.store.read() as connection:
            busy = busy_nodes(connection, [agent.queue for agent in own])
        for agent in own:
            session = self._roster.session(agent)
            if session is not None and not session.held and not session.kept and agent.queue not in busy:
                is_news, session.leaving = not session.leaving, True
                if is_news:
                    self.means.on_news(agent)
                if self.target.launches_runs and session.heard:  # nobody else would tell that it left
                    self._roster.forget(agent)

    def _end_asked(self) -> None:
        if not self._is_ending:
            return
        self._is_ending = False
        mine = [agent.handle for agent in self.agents() if agent.handle is not None]
        if mine:
            _log.warning("%s: %d agents that do not leave are ended", self.target.name, len(mine))
            self.target.ask(lambda provider: provider.cancel(mine), "its agents cannot be ended")


def _to_observed(seen: Observation) -> Observed:
    return Observed(**{**vars(seen), "phase": seen.phase.value})
