"""Tokens: the user's, in a 0600 file; the agents', by their hash in the store, remembered while they are valid."""

from __future__ import annotations

import os
import secrets
import threading

from starlette.concurrency import run_in_threadpool

from turnout.errors import InvalidInput
from turnout.home import Home, write_private
from turnout.store.agents import Agent, find_by_token, hash_token
from turnout.store.store import Store

PREFIX = "tnt_"


def user_token(home: Home) -> str:
    """The token of this state directory, made on first use."""
    try:
        found = os.stat(home.token_file)
    except FileNotFoundError:
        write_private(home.token_file, PREFIX + secrets.token_urlsafe(32))
        return home.token_file.read_text()
    if found.st_mode & 0o077 or found.st_uid != os.getuid():
        raise InvalidInput(f"others may read {home.token_file}", hint=f"run: chmod 600 {home.token_file}")
    return home.token_file.read_text()


class AgentTokens:
    """Finds an agent by its token. `forget`, from any thread, once an agent's token changed or it is gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Agent] = {}
        self._forgotten = 0
        self._lock = threading.Lock()

    async def find(self, token: str) -> Agent | None:
        key = hash_token(token)
        agent = self._known.get(key)
        while agent is None:
            forgotten = self._forgotten
            agent = await run_in_threadpool(self._look_up, token)
            if agent is None:
                return None
            with self._lock:
                if forgotten == self._forgotten:
                    self._known[key] = agent
                else:
                    agent = None  # what was read may have been true before: look again
        return agent

    def forget(self, agent: int) -> None:
        with self._lock:
            self._forgotten += 1
            self._known = {key: known for key, known in self._known.items() if known.id != agent}

    def _look_up(self, token: str) -> Agent | None:
        with self._store.read() as connection:
            return find_by_token(connection, token)
