"""Metapipe: its `Job` types, `Queue` and `Runtime` drive pipelines here, and a `Job` type is a compute provider.

::

    command_templates = Parser(config).consume()          # ValueError tells what is wrong with the file
    pipeline = Runtime(command_templates, JOB_TYPES, 'my_custom_job_type', queue=MyCustomQueue)
    pipeline.run()                                        # PipelineFailed when not all jobs were complete
"""

from turnout.compat.metapipe.app import run
from turnout.compat.metapipe.calling import call
from turnout.compat.metapipe.commands import Command, CommandTemplate
from turnout.compat.metapipe.job import Job
from turnout.compat.metapipe.on_target import LocalJob
from turnout.compat.metapipe.outcome import Outcome, PipelineFailed
from turnout.compat.metapipe.parser import Parser
from turnout.compat.metapipe.queue import BaseQueue, JobQueue, Queue
from turnout.compat.metapipe.runtime import Runtime

__all__ = [
    "BaseQueue", "Command", "CommandTemplate", "Job", "JobQueue", "LocalJob", "Outcome", "Parser", "PipelineFailed",
    "Queue", "Runtime", "call", "run",
]  # fmt: skip
