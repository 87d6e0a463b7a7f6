"""A submission becomes a job and its runs, once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.errors import InvalidInput
from turnout.model.ids import job_name, run_name
from turnout.model.spec import JobSpec
from turnout.store import schema
from turnout.store.jobs import insert_job
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """`key` makes a repeated submission (a lost reply) the same one; `body` is what it is compared by."""

    spec: JobSpec
    principal: str
    key: str
    body: bytes


def submit(tx: Tx, submission: Submission) -> dict[str, object]:
    """Writes the job, or gives the answer that the same key got before.

    Raises InvalidInput when the key was used for something else.
    """
    table = schema.requests
    body_hash = hashlib.sha256(submission.body).hexdigest()
    where = (table.c.principal == submission.principal, table.c.key == submission.key)
    earlier = tx.connection.execute(sa.select(table.c.body_hash, table.c.answer).where(*where)).first()
    if earlier is not None:
        if earlier.body_hash != body_hash:
            raise InvalidInput("this idempotency key was used for another submission", hint="make a new key for each")
        return dict(json.loads(earlier.answer))
    job, runs = insert_job(tx, submission.spec)
    answer: dict[str, object] = {"job": job_name(job), "runs": [run_name(number) for number in runs]}
    tx.connection.execute(
        table.insert(),
        {
            "principal": submission.principal, "key": submission.key, "body_hash": body_hash,
            "answer": json.dumps(answer), "created": tx.now,
        },  # fmt: skip
    )
    return answer
