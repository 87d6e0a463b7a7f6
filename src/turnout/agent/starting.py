"""What a run finds when it starts: its command and its environment."""

from __future__ import annotations

import json
import os
import shutil
from functools import lru_cache
from typing import Dict, List, Sequence

from turnout.agent import container_command, gpu_sources
from turnout.agent.attempt import Attempt
from turnout.agent.stage import entrance_path, has_params, number_of, script_of
from turnout.agent.supervisor import Order
from turnout.wire import nni
from turnout.wire.long_words import shorten
from turnout.wire.messages import JobOrder

#: What a run has of its node where its submitter, who may be on another machine, did not say.
_OF_THE_NODE = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")


def make_order(attempt: Attempt, job: JobOrder, *, gpus: str) -> Order:
    """What the supervisor is told; of a run in a container, what is executed in there. `gpus`: who made the node's, if
    it has any: those the run did not get are hidden from it, unless its job is to see them all."""
    by_shell = container_command.shell if attempt.runtime is not None else _by_shell
    argv = [] if attempt.grant.script else attempt.grant.argv
    shortened = shorten(argv, attempt.directory.text)
    if shortened is not None:
        argv = shortened.argv
    script = script_of(attempt.directory, attempt.grant, job)
    if script is not None:
        argv = by_shell([script.path, *argv])
    if job.setup is not None:
        argv = by_shell([entrance_path(attempt.directory), *argv])
    return Order(
        key=attempt.key, dir=attempt.directory.path, argv=argv, job=job.job,
        env=_run_environment(attempt, job, gpus),
        seconds=job.seconds, grace=job.grace, memory=job.memory,
        umask=job.umask, cwd=_begins_in(attempt, job),
    )  # fmt: skip


def _begins_in(attempt: Attempt, job: JobOrder) -> str:
    work = attempt.grant.shared or attempt.directory.work
    return f"{work}/{job.working_dir}" if job.working_dir else work


def job_environment(job: JobOrder, *, node: str, sdk: str) -> Dict[str, str]:
    """What the runs of a job share: the node's environment as far as every program needs it, and what it is told."""
    return {
        **{name: os.environ[name] for name in _OF_THE_NODE if name in os.environ},
        **told_environment(job, node=node, sdk=sdk),
    }


def told_environment(job: JobOrder, *, node: str, sdk: str) -> Dict[str, str]:
    """What the runs of a job are told: the submitter's environment and ours, and the names XT scripts read."""
    path: List[str] = [sdk, *filter(None, [job.env.get("PYTHONPATH", "")])]
    return {
        **job.env,
        "XT_EXPERIMENT_NAME": job.experiment,
        "XT_WORKSPACE_NAME": job.workspace,
        "XT_NODE_ID": node,
        "XT_CONTROLLER": "1",
        "XT_USERNAME": job.env.get("XT_USERNAME", ""),
        "TURNOUT_EXPERIMENT": job.experiment,
        "TURNOUT_WORKSPACE": job.workspace,
        "TURNOUT_NODE": node,
        "PYTHONPATH": os.pathsep.join(path),
    }


def _run_environment(attempt: Attempt, job: JobOrder, gpus: str) -> Dict[str, str]:
    grant, directory = attempt.grant, attempt.directory
    here = _begins_in(attempt, job)
    env = {
        "TURNOUT_RUN_NAME": grant.name,
        "TURNOUT_JOB": grant.job_name,
        "TURNOUT_ATTEMPT": str(grant.attempt),
        "TURNOUT_OUTPUT_DIR": directory.kept,
        "TURNOUT_PARAMS": json.dumps(grant.params),
        "TURNOUT_SPOOL": directory.track,
        "PWD": here,
        "XT_RUN_NAME": grant.name,
        "XT_JOB_ID": grant.job_name,
        "XT_OUTPUT_DIR": directory.kept,
        "XT_RESUME_NAME": grant.name if grant.attempt > 1 else "",
        **attempt.env,
    }
    if has_params(grant, job):
        number = number_of(grant)
        env.update(
            nni.environment(directory.track, experiment=grant.job_name, run=grant.name, number=number, code=here)
        )
        env.update({"NNI_OUTPUT_DIR": directory.kept, "TURNOUT_PARAMS_FILE": directory.params})
    if job.sees_gpus:
        env.update(_bounds(job) if attempt.runtime is None else {})
    elif gpus:
        env.update(gpu_sources.environment(gpus, attempt.gpus, inside=attempt.runtime is not None))
    return env


def _bounds(job: JobOrder) -> Dict[str, str]:
    """Which GPUs a run may see that sees all of them: as its submitter said, else as we were told ourselves."""
    return {name: value for name, value in gpu_sources.bounds(os.environ).items() if name not in job.env}


def _by_shell(script: Sequence[str]) -> List[str]:
    return [_shell(), *script]


@lru_cache(maxsize=None)
def _shell() -> str:
    return shutil.which("bash") or "/bin/sh"
