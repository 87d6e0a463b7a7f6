"""Containers on this node: which program there is for them, whether it has the image, and clearing them away."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import Callable, Dict, List, Optional

from turnout.agent import record
from turnout.agent.awaiting import wait_for
from turnout.agent.container_command import Name, Runtime, cleanup
from turnout.agent.log import say
from turnout.agent.rundir import RunDir
from turnout.wire.messages import ContainerOrder, JobOrder

PROGRAMS = ("podman", "docker")
_ASK_SECONDS, _PULL_SECONDS, _CLEAR_SECONDS = 60.0, 3600.0, 60.0
_INIT_PLACES = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/libexec/docker", "/usr/local/sbin", "/usr/sbin")
_USED = "containers"
_FAILED = 125  # what they exit with when it is they who failed
_SHOWN_LINES, _SHOWN_BYTES = 5, 2000
_COMPLAINTS = ("Error: ", "docker: ", "podman: ")


class NoContainer(Exception):
    """It cannot be had on this node; the message says what to do."""


def found() -> List[str]:
    """Which programs are there. Whether they work is seen when one is needed."""
    return [name for name in PROGRAMS if shutil.which(name) is not None]


class Containers:
    """For one thread. `root` is the directory of this node's agent."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._working: Dict[str, Runtime] = {}

    def prepare(self, job: JobOrder, is_wanted: Callable[[], bool]) -> Runtime:
        """Who executes the job's runs; its image is there on return. Raises NoContainer, Abandoned."""
        order = job.container
        assert order is not None
        runtime = self._runtime(order.program)
        note_use(self._root, runtime.program)
        has_image = _ask([runtime.program, "image", "inspect", "--format", "{{.Id}}", order.image]) is not None
        if order.pull == "never" and not has_image:
            what = f"no image {order.image} on this node, and it is never pulled"
            raise NoContainer(f"{what}; `{runtime.kind} pull {order.image}` there, or `pull: missing`, brings it")
        if order.pull == "always" or not has_image:
            _pull(runtime, order, is_wanted)
        return runtime

    def _runtime(self, program: Optional[str]) -> Runtime:
        names = [program] if program else list(PROGRAMS)
        key = names[0]
        if key not in self._working:
            self._working[key] = _find(names)
        return self._working[key]


def name_of(root: str, run: int, attempt: int) -> Name:
    """Told apart by the agent's directory, which is one hub's and one agent's on this machine."""
    mark = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()[:12]
    return Name(f"turnout-{mark}-{run}-{attempt}", f"turnout={mark}")


def note_use(root: str, program: str) -> None:
    """Before the first container: an agent that comes after this one then knows whom to ask for leftovers."""
    path = os.path.join(root, _USED)
    if program not in _used(root):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, os.fsencode(program) + b"\n")
        finally:
            os.close(fd)


def clear_strays(root: str) -> None:
    """Ends the containers of this node whose attempt has no directory here any more: one is begun only in its own, and
    ended with it. Never raises."""
    label = name_of(root, 0, 0).label
    for program in _used(root):
        listed = _ask([program, "ps", "-a", "--filter", f"label={label}", "--format", "{{.Names}}"]) or ""
        for name in listed.split():
            key = _key_of(root, name)
            if key and not os.path.isdir(os.path.join(root, "runs", key)):
                say(f"container {name} is nobody's; ending it")
                _execute(cleanup(program, name), _CLEAR_SECONDS)


def clear(directory: RunDir) -> None:
    """Ends the container of an attempt, if it may have had one, and clears it away. Never raises; may be repeated.

    Whom to ask, and for whom, is not taken from the directory: a run writes there.
    """
    runs, key = os.path.split(directory.path)
    root = os.path.dirname(runs)
    run, _, attempt = key.partition(".")
    told = record.read(directory.ctl)
    if not (run.isdecimal() and attempt.isdecimal()) or (told and "container" not in told):
        return
    for program in _used(root):
        _execute(cleanup(program, name_of(root, int(run), int(attempt)).name), _CLEAR_SECONDS)


def trouble(directory: RunDir, exit_code: int) -> str:
    """Why the command was not executed: its container could not be made. Empty when the exit code is its own."""
    if exit_code != _FAILED:
        return ""
    try:
        with open(directory.output, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN_BYTES))
            last = file.read().decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
    except OSError:
        last = []
    is_theirs = any(line.startswith(_COMPLAINTS) for line in last)
    if os.path.exists(id_path(directory)) and not is_theirs:
        return ""
    return "\n".join(["its container could not be started:", *last])


def id_path(directory: RunDir) -> str:
    return f"{directory.ctl}/container.id"


def environment_path(directory: RunDir) -> str:
    return f"{directory.ctl}/container.env"


def _key_of(root: str, name: str) -> str:
    """Whose container it is that is called like this, as its directory is called; empty when it is none of ours."""
    mine = name_of(root, 0, 0).name[: -len("0-0")]
    found = re.fullmatch(re.escape(mine) + r"([0-9]+)-([0-9]+)", name)
    return f"{found[1]}.{found[2]}" if found else ""


def _find(names: List[str]) -> Runtime:
    tried = []
    for name in names:
        program = shutil.which(name)
        if program is None:
            tried.append(f"there is no {name}")
            continue
        version = _ask([program, "--version"]) or ""
        runtime = _podman(program) if "podman" in version else _docker(program)
        if runtime is not None:
            return runtime
        tried.append(f"{program} does not work: `{name} info` there tells why")
    raise NoContainer(f"no container on this node: {', '.join(tried)}; install podman, or name one as `program:`")


def _podman(program: str) -> Optional[Runtime]:
    said = _ask([program, "info", "--format", "{{.Host.Security.Rootless}}"])
    if said is None:
        return None
    return Runtime(program, "podman", has_init=_has("catatonit"), is_rootless=said.strip() == "true")


def _docker(program: str) -> Optional[Runtime]:
    said = _ask([program, "info", "--format", "{{.ServerVersion}}|{{.InitBinary}}|{{.SecurityOptions}}"])
    version, _, rest = (said or "").partition("|")
    if not version.strip():
        return None
    init, _, security = rest.partition("|")
    return Runtime(program, "docker", has_init=bool(init) and _has(init), is_rootless="name=rootless" in security)


def _has(init: str) -> bool:
    places = os.pathsep.join([os.environ.get("PATH", ""), *_INIT_PLACES])
    return shutil.which(init, path=places) is not None


def _pull(runtime: Runtime, order: ContainerOrder, is_wanted: Callable[[], bool]) -> None:
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [runtime.program, "pull", order.image], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        code = wait_for(child, _PULL_SECONDS, is_wanted)
        log.seek(0)
        said = log.read()[-_SHOWN_BYTES:].decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
    if code is None:
        raise NoContainer(f"the image was not there within {_PULL_SECONDS:g} s")
    if code != 0:
        what = f"image {order.image} could not be pulled (exit code {code}):"
        hint = f"`{runtime.kind} pull {order.image}` on the node tries it again; a name like localhost/NAME is of there"
        raise NoContainer("\n".join([what, *said, hint]))


def _ask(argv: List[str]) -> Optional[str]:
    """What it prints; None when it fails or does not answer."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _execute(argv: List[str], seconds: float) -> None:
    null = subprocess.DEVNULL
    try:
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, timeout=seconds)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"a container could not be cleared away: {error}")


def _used(root: str) -> List[str]:
    try:
        with open(os.path.join(root, _USED), encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
