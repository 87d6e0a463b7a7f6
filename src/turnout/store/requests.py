"""Answers already given, by idempotency key, so that a repeated request is the same one."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.writer import Tx

_KEPT_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Earlier:
    body_hash: str
    answer: dict[str, object]


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
