"""A submission becomes a job and its runs, once."""

from __future__ import annotations

from dataclasses import dataclass

from turnout.model.ids import job_name, run_name
from turnout.model.pipeline import PipelineSpec
from turnout.model.spec import JobSpec
from turnout.store.jobs import Numbers, insert_job
from turnout.store.pipelines import insert_pipeline
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
        pipeline, steps = insert_pipeline(tx, submission.spec)
        if any(step.late is not None and not step.needs for step in submission.spec.steps):
            tx.touch("pipelines")
        return {
            "job": job_name(pipeline),
            "steps": {
                step.name: {"job": job_name(written.job), "runs": [run_name(number) for number in written.runs]}
                for step, written in zip(submission.spec.steps, steps, strict=True)
            },
        }

    return once(tx, submission.key, submission.body, work, principal=submission.principal)


def submit(tx: Tx, submission: Submission) -> dict[str, object]:
    """Writes the job, or gives the answer that the same key got before.

    Raises InvalidInput when the key was used for something else.
    """

    def work() -> dict[str, object]:
        job, runs, _ = insert_job(tx, submission.spec, submission.numbers)
        return {"job": job_name(job), "runs": [run_name(number) for number in runs]}

    return once(tx, submission.key, submission.body, work, principal=submission.principal)
