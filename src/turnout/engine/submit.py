"""A submission becomes a job and its runs, once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from turnout.errors import InvalidInput
from turnout.model.ids import job_name, run_name
from turnout.model.spec import JobSpec
from turnout.store.jobs import insert_job
from turnout.store.requests import find_answer, keep_answer
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
    body_hash = hashlib.sha256(submission.body).hexdigest()
    earlier = find_answer(tx, submission.principal, submission.key)
    if earlier is not None:
        if earlier.body_hash != body_hash:
            raise InvalidInput("this idempotency key was used for another submission", hint="make a new key for each")
        return earlier.answer
    job, runs = insert_job(tx, submission.spec)
    answer: dict[str, object] = {"job": job_name(job), "runs": [run_name(number) for number in runs]}
    keep_answer(tx, submission.principal, submission.key, body_hash, answer)
    return answer
