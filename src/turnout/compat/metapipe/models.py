"""``metapipe.models``."""

from turnout.compat.metapipe.batch import PBSJob, SGEJob
from turnout.compat.metapipe.calling import call
from turnout.compat.metapipe.commands import Command, CommandTemplate
from turnout.compat.metapipe.job import Job
from turnout.compat.metapipe.on_target import LocalJob
from turnout.compat.metapipe.queue import BaseQueue, JobQueue, Queue
from turnout.compat.metapipe.reporting import HtmlReportingJobQueue, ReportingJobQueue, TextReportingJobQueue

__all__ = [
    "BaseQueue", "Command", "CommandTemplate", "HtmlReportingJobQueue", "Job", "JobQueue", "LocalJob", "PBSJob",
    "Queue", "ReportingJobQueue", "SGEJob", "TextReportingJobQueue", "call",
]  # fmt: skip
