"""A run that is executed in a container: the same order to the supervisor, with podman or docker as its command."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import List, Mapping, Sequence

from turnout.agent import container_command, containers
from turnout.agent.attempt import Attempt
from turnout.agent.container_command import Files, Inside, Mount
from turnout.agent.gpus import Gpus
from turnout.agent.setups import FAILED
from turnout.agent.stage import entrance_path, script_of
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
    given = [each.id for each in gpus.facts] if job.sees_gpus else attempt.gpus
    directory, runtime, nodes = attempt.directory, attempt.runtime, _nodes(given, gpus)
    name = containers.name_of(root, attempt.grant.run, attempt.grant.attempt)
    files = Files(containers.environment_path(directory), containers.id_path(directory))
    home = f"{directory.path}/home"
    os.makedirs(home, mode=0o700, exist_ok=True)
    if job.setup is not None:
        _write(entrance_path(directory) + FAILED, "")  # what is not there cannot be shown, nor be written to
    env = {_HOME: home, **shared, **order.env}
    env.pop("PWD", None)
    inside = Inside(
        argv=order.argv, env=env, directory=os.path.join(order.dir, order.cwd),
        mounts=[Mount(home, is_writable=True), *_mounts(attempt, job), Mount(sdk)],
        gpus=_names(given, gpus), vendor=gpus.vendor, gpu_nodes=nodes, gpu_groups=_groups(nodes),
        limits=(job.cpus, order.memory), umask=0o077 if order.umask is None else order.umask,
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


def _mounts(attempt: Attempt, job: JobOrder) -> List[Mount]:
    """Of the attempt's directory its files and what it logs, what is executed and printed only to be read; and what it
    reads elsewhere. The rest of ``ctl/`` is what agent and supervisor go by: nothing in there may write it."""
    directory = attempt.directory
    found = {path: Mount(path, is_writable=True) for path in (directory.work, directory.track)}
    found[directory.output] = Mount(directory.output)
    if attempt.grant.shared:
        found[attempt.grant.shared] = Mount(attempt.grant.shared, is_writable=True)
    script = script_of(directory, attempt.grant, job)
    if script is not None and script.path.startswith(f"{directory.ctl}/"):
        found[script.path] = Mount(script.path)
    if os.path.exists(directory.text):
        found[directory.text] = Mount(directory.text)
    if job.setup is not None:
        entrance = entrance_path(directory)
        found[entrance] = Mount(entrance)
        found[entrance + FAILED] = Mount(entrance + FAILED, is_writable=True)
    for name, given in job.inputs.items():
        path = attempt.env.get(f"TURNOUT_{name.upper()}_DIR", "")
        if path and not path.startswith(f"{directory.work}/"):
            found[path] = Mount(path, is_writable=given.manifest is None or given.writable)
    return list(found.values())


def _names(ids: Sequence[str], gpus: Gpus) -> List[str]:
    """By uuid, where it is known: a number counts what this agent may see, and a daemon may see more."""
    uuids = {each.id: each.uuid for each in gpus.facts}
    return [uuids.get(each) or each for each in ids]


def _groups(nodes: Sequence[str]) -> List[int]:
    """Whose files they are, besides root's and this user's own group."""
    found = set()
    for path in nodes:
        with suppress(OSError):
            found.add(os.stat(path).st_gid)
    return sorted(found - {0, os.getgid()})


def _nodes(ids: Sequence[str], gpus: Gpus) -> List[str]:
    return list(dict.fromkeys(path for each in ids for path in gpus.nodes.get(each, ())))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
