"""A run that is executed in a container: the same order to the supervisor, with podman or docker as its command."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Sequence

from turnout.agent import container_command, containers
from turnout.agent.attempt import Attempt
from turnout.agent.container_command import Files, Inside, Mount
from turnout.agent.gpus import Gpus
from turnout.agent.rundir import RunDir
from turnout.agent.supervisor import Order
from turnout.wire.messages import JobOrder

_HOME = "HOME"


def contain(
    order: Order, attempt: Attempt, job: JobOrder, shared: Mapping[str, str], *, root: str, sdk: str, gpus: Gpus
) -> Order:
    """`order` is what would be executed inside, `shared` the environment of all runs of the job, `root` the agent's
    directory. Returning means that it is written down whose container it is: who finds the attempt can end it.
    Raises CannotContain, OSError."""
    assert attempt.runtime is not None and job.container is not None
    directory, runtime = attempt.directory, attempt.runtime
    name = containers.name_of(root, attempt.grant.run, attempt.grant.attempt)
    files = Files(containers.environment_path(directory), containers.id_path(directory))
    home = f"{directory.path}/home"
    os.makedirs(home, mode=0o700, exist_ok=True)
    env = {_HOME: home, **shared, **order.env}
    env.pop("PWD", None)
    inside = Inside(
        argv=order.argv, env=env, directory=f"{order.dir}/{order.cwd}",
        mounts=_mounts(directory, job, attempt.env, sdk),
        gpus=attempt.gpus, vendor=gpus.vendor, gpu_nodes=_nodes(attempt.gpus, gpus), limits=(job.cpus, order.memory),
        umask=0o077 if order.umask is None else order.umask,
    )  # fmt: skip
    _write(files.env, container_command.environment_file(env))
    if os.path.lexists(files.id):
        os.unlink(files.id)
    directory.remember_container(runtime.program, name.name)
    return order._replace(
        argv=container_command.run(runtime, job.container, name, inside, files),
        env={variable: value for variable, value in order.env.items() if not container_command.is_theirs(variable)},
        memory=None, umask=None, cleanup=container_command.cleanup(runtime.program, name.name),
    )  # fmt: skip


def _mounts(directory: RunDir, job: JobOrder, env: Mapping[str, str], sdk: str) -> List[Mount]:
    """The run's directory, what ``import turnout`` finds, and what it reads elsewhere."""
    found: Dict[str, Mount] = {}
    for name, given in job.inputs.items():
        path = env.get(f"TURNOUT_{name.upper()}_DIR", "")
        if path and not path.startswith(f"{directory.path}/"):
            found[path] = Mount(path, is_writable=given.manifest is None)
    return [Mount(directory.path, is_writable=True), Mount(sdk), *found.values()]


def _nodes(ids: Sequence[str], gpus: Gpus) -> List[str]:
    return list(dict.fromkeys(path for each in ids for path in gpus.nodes.get(each, ())))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
