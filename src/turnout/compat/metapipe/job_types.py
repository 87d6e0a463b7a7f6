"""The job types and queues there always are, by the names that Metapipe has for them."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.compat.metapipe.batch import PBSJob, SGEJob
from turnout.compat.metapipe.job import Job
from turnout.compat.metapipe.on_target import LocalJob
from turnout.compat.metapipe.queue import Queue
from turnout.compat.metapipe.reporting import HtmlReportingJobQueue, TextReportingJobQueue

JOB_TYPES: Mapping[str, type[Job]] = {"local": LocalJob, "pbs": PBSJob, "sge": SGEJob}
QUEUE_TYPES: Mapping[str, type[Queue]] = {"text": TextReportingJobQueue, "html": HtmlReportingJobQueue}
