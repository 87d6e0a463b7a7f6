"""Answers already given, by idempotency key, so that a repeated request is the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.errors import InvalidInput
from turnout.store import schema
from turnout.store.writer import Tx

USER = "user"
_KEPT_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Earlier:
    body_hash: str
    answer: dict[str, object]


def once(
    tx: Tx, key: str | None, body: str | bytes, work: Callable[[], dict[str, Any]], *, principal: str = USER
) -> dict[str, Any]:
    """What `work` gives, or gave when a request of `principal` with the same key was answered before; without a key,
    each time.

    `body` is what the request asks for. InvalidInput when the key was used for something else.
    """
    if key is None:
        return work()
    said = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    body_hash = hashlib.sha256(said).hexdigest()
    earlier = find_answer(tx, principal, key)
    if earlier is None:
        answer = work()
        keep_answer(tx, principal, key, body_hash, answer)
        return answer
    if earlier.body_hash != body_hash:
        raise InvalidInput("this idempotency key was used for another request", hint="make a new key for each")
    return dict(earlier.answer)


def find_answer(tx: Tx, principal: str, key: str) -> Earlier | None:
    table = schema.requests
    where = (table.c.principal == principal, table.c.key == key)
    row = tx.connection.execute(sa.select(table.c.body_hash, table.c.answer).where(*where)).first()
    return Earlier(row.body_hash, json.loads(row.answer)) if row is not None else None


def keep_answer(tx: Tx, principal: str, key: str, body_hash: str, answer: dict[str, object]) -> None:
    """Keeps an answer for a week, and forgets those that are older."""
    table = schema.requests
    tx.connection.execute(table.delete().where(table.c.created < tx.now - _KEPT_SECONDS))
    row = {"principal": principal, "key": key, "body_hash": body_hash, "answer": json.dumps(answer), "created": tx.now}
    tx.connection.execute(table.insert(), row)
