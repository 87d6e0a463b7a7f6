"""How podman or docker is called to execute a run: what the run would be without a container, put into words of theirs.

The environment is in no argument. Values go through the environment of the program that is called (``--env NAME`` takes
them from there), so that every byte survives. Variables that this program reads itself, its PATH and HOME say, have
to be the node's for it: for those, the run's values go by a file, which holds one line for each.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from turnout.wire.messages import ContainerOrder

#: What podman, docker and what they are written in read.
_THEIRS = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|PWD|OLDPWD|_|XDG_\w+|DOCKER_\w+|CONTAINERS?_\w+|REGISTRY_\w+|BUILDAH_\w+"
    r"|STORAGE_\w+|_?CONTAINERS_\w+|LD_\w+|GO[A-Z]+|NOTIFY_SOCKET|LISTEN_\w+|SSL_\w+|DBUS_\w+|(?i:\w+_proxy)"
)
_GROUP = "--group-add"
_LONGEST_LINE = 60_000  # they read lines up to 64 kB
_SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash "$@"; else exec sh "$@"; fi'
#: The first asks them to end it at once, the second clears away what is left of it; both, whether or not it is there.
_CLEANUP = '"$0" kill "$1"; "$0" rm -f "$1"'


class CannotContain(Exception):
    """What the run asks for cannot be put into words of theirs."""


class Runtime(NamedTuple):
    """A program for containers that works here. `kind`: podman | docker. `has_init`: it can put a first process into a
    container that passes signals on. `is_rootless`: who is root in there is this user out here."""

    program: str
    kind: str
    has_init: bool = False
    is_rootless: bool = False


class Mount(NamedTuple):
    """A directory or file that is found inside under the same path."""

    path: str
    is_writable: bool = False


class Inside(NamedTuple):
    """What is to be executed, and what it finds there. `directory` is where it begins; `gpus` are what it is given, of
    this `vendor` and with these files below /dev, which only these groups may open; `limits` are cpus and bytes of
    memory."""

    argv: Sequence[str]
    env: Mapping[str, str]
    directory: str
    mounts: Sequence[Mount]
    gpus: Sequence[str] = ()
    vendor: str = ""
    gpu_nodes: Sequence[str] = ()
    gpu_groups: Sequence[int] = ()
    limits: Tuple[Optional[int], Optional[int]] = (None, None)
    umask: int = 0o077


class Name(NamedTuple):
    """A container's own name, and the label it shares with all of its node."""

    name: str
    label: str


class Files(NamedTuple):
    """Where those variables are that go by file, and where its id will be told."""

    env: str
    id: str


def shell(script: Sequence[str]) -> List[str]:
    """A script with its arguments, by the best shell that the image has."""
    return ["/bin/sh", "-c", _SHELL, "sh", *script]


def is_theirs(variable: str) -> bool:
    return _THEIRS.fullmatch(variable) is not None


def environment_file(env: Mapping[str, str]) -> str:
    """The file's text. CannotContain for a value that has no place in one line."""
    lines = []
    for name, value in sorted(env.items()):
        if is_theirs(name):
            if "\n" in value or "\r" in value or len(value) > _LONGEST_LINE:
                raise CannotContain(f"{name} cannot be handed to a container: it has several lines, or is too long")
            lines.append(f"{name}={value}\n")
    return "".join(lines)


def client_environment(env: Mapping[str, str], node: Mapping[str, str]) -> Dict[str, str]:
    """The environment in which the program is called: its own from the node, and the run's."""
    own = {name: value for name, value in node.items() if is_theirs(name)}
    return {**own, **{name: value for name, value in env.items() if not is_theirs(name)}}


def run(runtime: Runtime, order: ContainerOrder, name: Name, inside: Inside, files: Files) -> List[str]:
    """The whole command. The image's own entry point is not used: what is executed is the run's command.

    The order's own options come after ours, and may say otherwise; but not about how it is found and ended.
    """
    argv = [runtime.program, "run", "--log-driver", "none", "--security-opt", "label=disable"]
    argv += ["--workdir", inside.directory, *(["--init"] if runtime.has_init else [])]
    argv += [*_user(runtime, inside.umask), *_limits(inside)]
    for mount in inside.mounts:
        argv += ["--mount", _mount(mount)]
    argv += ["--env-file", files.env]
    for variable in sorted(inside.env):
        if not is_theirs(variable):
            argv += ["--env", variable]
    argv += [*_gpus(runtime, inside), *_groups(runtime, order, inside)]
    argv += [*(["--network", order.network] if order.network else []), *order.options]
    argv += ["--name", name.name, "--label", name.label, "--cidfile", files.id, "--rm", "--detach=false"]
    return [*argv, "--entrypoint", inside.argv[0], order.image, *inside.argv[1:]]


def cleanup(program: str, name: str) -> List[str]:
    """What has to be executed when it shall be gone, whatever it does."""
    return ["/bin/sh", "-c", _CLEANUP, program, name]


def _user(runtime: Runtime, umask: int) -> List[str]:
    """So that files it makes belong to this user."""
    if runtime.kind == "docker":
        return [] if runtime.is_rootless else ["--user", f"{os.getuid()}:{os.getgid()}"]
    return [*(["--userns", "keep-id"] if runtime.is_rootless else []), "--umask", f"{umask:04o}"]


def _limits(inside: Inside) -> List[str]:
    cpus, memory = inside.limits
    return [*(["--cpus", str(cpus)] if cpus else []), *(["--memory", str(memory)] if memory else [])]


def _gpus(runtime: Runtime, inside: Inside) -> List[str]:
    if not inside.gpus:
        return []
    if inside.vendor == "amd":
        return [word for path in inside.gpu_nodes for word in ("--device", path)]
    if runtime.kind == "docker":
        return ["--gpus", f'"device={",".join(inside.gpus)}"']
    return [word for each in inside.gpus for word in ("--device", f"nvidia.com/gpu={each}")]


def _groups(runtime: Runtime, order: ContainerOrder, inside: Inside) -> List[str]:
    """With another user than root, a container has none of the groups that this user has out here.

    Rootless podman can keep them all, but then takes no other group beside; rootless docker cannot.
    """
    is_podman = runtime.kind == "podman"
    if not inside.gpu_groups or (is_podman and any(word.split("=")[0] == _GROUP for word in order.options)):
        return []
    if runtime.is_rootless:
        return [_GROUP, "keep-groups"] if is_podman else []
    return [word for group in inside.gpu_groups for word in (_GROUP, str(group))]


def _mount(mount: Mount) -> str:
    fields = ["type=bind", f"source={mount.path}", f"target={mount.path}"]
    fields += [] if mount.is_writable else ["readonly"]
    return ",".join(map(_field, fields))


def _field(text: str) -> str:
    """As in a line of CSV."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text
