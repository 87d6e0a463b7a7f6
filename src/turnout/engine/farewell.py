"""Agents that were given up on machines which stay: nobody waits for them any more, but they may still be there.

Such an agent ends its runs itself when it hears that it is not wanted, and it hears that over the connection that a
look makes. One that died meanwhile left its runs to nobody: a process is started there that clears them away.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field

from turnout.engine.launching import Yard
from turnout.engine.pace import Looks
from turnout.engine.target import Target
from turnout.plugin.provider import Failure, Observation, Phase
from turnout.store.agents import Agent

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Farewells:
    """Those of one place, kept in memory: after a start of the hub, the next agent on the machine clears up. `add` from
    any thread, the rest from one at a time."""

    target: Target
    yard: Yard
    looks: Looks
    _left: dict[int, Agent] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, agent: Agent) -> None:
        if agent.handle is not None:
            self._left[agent.id] = agent

    def tend(self, now: float) -> None:
        """Looks at them, less and less often, until all are gone."""
        left = list(self._left.values())
        if not left or not self.looks.is_due(now):
            return
        handles = {agent.handle: agent for agent in left if agent.handle is not None}
        seen = self.target.ask(lambda provider: provider.observe(list(handles)))
        self.looks.looked(now, is_awaited=False)
        if isinstance(seen, Failure):
            return
        for handle, agent in handles.items():
            phase = seen.get(handle, Observation(Phase.GONE)).phase
            if phase is Phase.GONE and self._clear(agent):
                del self._left[agent.id]

    def _clear(self, agent: Agent) -> bool:
        """Whether a process that clears up was started, or never will be."""
        launch = self.yard.clearing(self.target, agent, secrets.token_hex(16))
        answer = self.target.ask(lambda provider: provider.submit([launch])[0])
        if not isinstance(answer, Failure):
            return True
        _log.warning("what agent %d left on %s is not cleared: %s", agent.id, agent.node, answer.message)
        return answer.kind in ("rejected", "unsupported")
