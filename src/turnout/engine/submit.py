"""A submission becomes a job and its runs, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.engine.carrying import carry
from turnout.engine.following import settle
from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.pipeline import PipelineSpec
from turnout.model.spec import JobSpec
from turnout.model.state import RunState
from turnout.store.carrying import link_steps
from turnout.store.jobs import Numbers, insert_job
from turnout.store.ledger import Ledger
from turnout.store.pipelines import insert_pipeline, is_pipeline
from turnout.store.reads import find_job
from turnout.store.requests import once
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """`key` makes a repeated submission (a lost reply) the same one; `body` is what it is compared by. `numbers` were
    promised to it."""

    spec: JobSpec
    principal: str
    key: str
    body: bytes
    numbers: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSubmission:
    """As `Submission`."""

    spec: PipelineSpec
    principal: str
    key: str
    body: bytes


def submit_pipeline(tx: Tx, submission: PipelineSubmission) -> dict[str, object]:
    """As `submit`; all of it is written, or nothing."""

    def work() -> dict[str, object]:
        earlier = _earlier(tx, submission.spec.resume)  # before anything is written: what is refused leaves nothing
        pipeline, steps = insert_pipeline(tx, submission.spec)
        carried = 0
        if earlier is not None:
            carried = _go_on(tx, pipeline, earlier, [run for step in steps for run in step.ids])
        if any(step.late is not None and not step.needs for step in submission.spec.steps):
            tx.touch("pipelines")  # something may be to be decided at once
        return {
            "job": job_name(pipeline),
            "carried": carried,
            "steps": {
                step.name: {"job": job_name(written.job), "runs": [run_name(number) for number in written.runs]}
                for step, written in zip(submission.spec.steps, steps, strict=True)
            },
        }

    return once(tx, submission.key, submission.body, work, principal=submission.principal)


def _earlier(tx: Tx, name: str | None) -> int | None:
    if name is None:
        return None
    job = find_job(tx.connection, name)
    if not is_pipeline(tx, job):
        raise Conflict(f"{name} is no pipeline", hint="give --resume the job of one: `turnout list jobs`")
    return job


def _go_on(tx: Tx, pipeline: int, earlier: int, runs: Sequence[int]) -> int:
    """From an earlier pipeline: how many of its runs are taken over at once."""
    link_steps(tx, pipeline, earlier)
    ledger = Ledger(tx)
    ledger.load(runs)
    free = [run for run in runs if (record := ledger.get(run)) is not None and not record.blocked and not record.gate]
    carry(tx, ledger, free)
    settle(tx, ledger)
    over = sum(1 for record in ledger.ended() if record.state is RunState.COMPLETED)
    ledger.flush()
    return over


def submit(tx: Tx, submission: Submission) -> dict[str, object]:
    """Writes the job, or gives the answer that the same key got before.

    Raises InvalidInput when the key was used for something else.
    """

    def work() -> dict[str, object]:
        job, runs, _ = insert_job(tx, submission.spec, submission.numbers)
        return {"job": job_name(job), "runs": [run_name(number) for number in runs]}

    return once(tx, submission.key, submission.body, work, principal=submission.principal)
