"""``metapipe.app``."""

from __future__ import annotations

from turnout.compat.metapipe.job_types import JOB_TYPES as JOB_TYPES
from turnout.compat.metapipe.job_types import QUEUE_TYPES as QUEUE_TYPES
from turnout.compat.metapipe.outcome import Outcome
from turnout.compat.metapipe.parser import Parser
from turnout.compat.metapipe.runtime import Runtime


def run(config: str, max_jobs: int | None = None, *, job_type: str = "local", report_type: str = "text") -> Outcome:
    """Runs a pipeline to its end, here and now. ValueError for a bad file; PipelineFailed."""
    templates = Parser(config).consume()
    return Runtime(templates, QUEUE_TYPES[report_type], JOB_TYPES, job_type, max_jobs=max_jobs).run()
