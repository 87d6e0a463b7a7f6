"""Agents are known by their tokens, remembered while those are valid and not a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.hub import tokens as module
from turnout.hub.tokens import AgentTokens
from turnout.store import agents
from turnout.store.agents import Agent, hash_token

TOKEN = "0123456789abcdef"


@pytest.fixture
def tokens(lab: Lab) -> AgentTokens:
    return AgentTokens(lab.store)


def launch(lab: Lab) -> int:
    """An agent that may say TOKEN."""
    agent = lab.agent()
    lab.store.write(lambda tx: agents.set_token(tx, agent.id, hash_token(TOKEN)))
    return agent.id


def give_up(lab: Lab, tokens: AgentTokens, agent: int) -> None:
    lab.store.write(lambda tx: agents.set_gone(tx, agent))
    tokens.forget(agent)


def find(tokens: AgentTokens, token: str = TOKEN) -> int | None:
    found = asyncio.run(tokens.find(token))
    return found.id if found is not None else None


def test_an_agent_is_found_by_its_token_and_by_no_other(lab: Lab, tokens: AgentTokens) -> None:
    agent = launch(lab)
    assert find(tokens) == agent and find(tokens, "something else") is None


def test_a_token_is_looked_up_once(lab: Lab, tokens: AgentTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = launch(lab)
    assert find(tokens) == agent
    monkeypatch.setattr(module, "find_by_token", lambda connection, token: pytest.fail("asked again"))
    assert find(tokens) == agent


def test_a_token_that_was_forgotten_opens_nothing(lab: Lab, tokens: AgentTokens) -> None:
    agent = launch(lab)
    assert find(tokens) == agent
    give_up(lab, tokens, agent)
    assert find(tokens) is None


def test_a_token_that_is_forgotten_while_it_is_looked_up_is_not_remembered(
    lab: Lab, tokens: AgentTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row was read, then the agent is given up, then the reader goes on."""
    agent = launch(lab)
    look_up: Callable[[sa.Connection, str], Agent | None] = agents.find_by_token

    def be_overtaken(connection: sa.Connection, token: str) -> Agent | None:
        found = look_up(connection, token)
        monkeypatch.setattr(module, "find_by_token", look_up)
        give_up(lab, tokens, agent)
        return found

    monkeypatch.setattr(module, "find_by_token", be_overtaken)
    find(tokens)
    assert find(tokens) is None
