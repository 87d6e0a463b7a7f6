"""A machine that ssh reaches: an agent there is a detached process of the user it logs in as.

The system's own OpenSSH does it, with the user's configuration, keys and jump hosts. There is one connection to a box,
which stays and brings the hub's socket for agents over to it; so the box needs Python and no open port. When that
connection is lost the agents go on, and it is made again with the next look at them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider

_PATIENCE = 30.0
_LOST = 255  # what ssh itself exits with
_PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9"

# Each is one line, for the login shell over there may be one that takes no other.
#: $1 = whose agents these are, $2 = the digest of their program. Tells where they live, and whether that is there.
_ENTER = (
    'umask 077; root="$HOME/.turnout/boxes/$1"; mkdir -p "$root" || exit 1; cd "$root" || exit 1; {leave}pwd; '
    '[ -e "agent-$2.pyz" ] && echo here || echo missing'
)
#: $1 = the root, $2 = the digest; the program comes by standard input.
_BRING = 'umask 077; cd "$1" || exit 1; cat > "agent-$2.pyz.$$" && mv "agent-$2.pyz.$$" "agent-$2.pyz"'
#: $1 = the root, $2 = the digest, $3 = where the agent lives, the rest = Pythons to try; its order by standard input,
#: which a shell's own `printf` passes on, so that no list of processes and no file ever has it.
_START = (
    'umask 077; cd "$1" || exit 1; program="$1/agent-$2.pyz"; node="$3"; shift 3; order=$(cat); python=; '
    'for each in "$@"; do "$each" -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && python="$each"'
    ' && break; done; [ -n "$python" ] || { echo "no Python 3.9 or newer there, tried: $*" >&2; exit 3; }; '
    'mkdir -p "$node" || exit 1; detach=$(command -v setsid || command -v nohup); '
    'printf %s "$order" | PYTHONPATH="$program" "$detach" "$python" -m turnout.agent >> "$node/agent.log" 2>&1 & '
    """pid=$!; echo "$pid:$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d' ' -f20)\""""
)
#: The handles that are alive, of those given.
_LOOK = (
    """for each in "$@"; do stat=$(sed 's/.*) //' "/proc/${each%%:*}/stat" 2>/dev/null) || continue; """
    """case "$stat" in [ZX]*) continue ;; esac; """
    """[ "$(echo "$stat" | cut -d' ' -f20)" = "${each#*:}" ] && echo "$each"; done; true"""
)
_TELL = 'cat "$1"/nodes/*/agent.json 2>/dev/null; true'
_END = 'for each in "$@"; do kill "${each%%:*}" 2>/dev/null; done; true'


@dataclass(frozen=True)
class SshSettings:
    """What ssh is told beside the user's own configuration."""

    address: str = field(default="", metadata={"doc": "Host name or user@host, as for ssh."})
    port: str = field(default="", metadata={"doc": "The port of its ssh server."})
    ssh_options: Sequence[str] = field(default=(), metadata={"doc": "Further arguments of ssh, as in `[-i, KEY]`."})


class SshProvider(Provider):
    """Handles are ``pid:start time`` over there."""

    name = "ssh"
    Settings = SshSettings
    capabilities = Capabilities(launches="agents", same_host=False)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self._address = str(settings.get("address", ""))
        self._id = hashlib.sha256(str(settings.get("nodes_directory", "")).encode()).hexdigest()[:12]
        self._root = ""
        port, options = settings.get("port"), settings.get("ssh-options", settings.get("ssh_options", ()))
        more = [str(each) for each in options] if isinstance(options, list | tuple) else []
        self._options = [*(["-p", str(port)] if port else []), *more]

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._start(launch) for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        alive = self._run(_LOOK, *handles).split()
        return {handle: Observation(Phase.ACTIVE) for handle in alive}

    def cancel(self, handles: Sequence[Handle]) -> None:
        alive = self._run(_LOOK, *handles).split()
        self._run(_END, *alive)

    def find(self, token: str) -> Handle | None:
        """An agent tells its launch token in the record it keeps in its node directory."""
        if not self._root:
            self._connect("")
        for record in _records(self._run(_TELL, self._root)):
            handle = f"{record.get('pid')}:{record.get('start')}"
            if record.get("launch_token") == token and self.observe([handle]):
                return handle
        return None

    def rest(self) -> None:
        if self._root:
            self._ssh(["-O", "exit"], may_fail=True)
            self._root = ""

    def check(self) -> list[Finding]:
        try:
            told = self._run("uname -sr; hostname").split("\n")
        except Failure as error:
            return [Finding("problem", f"{self._address}: {error.message}", f"try it yourself: ssh {self._address}")]
        return [Finding("ok", f"{self._address} is {told[1]}, {told[0]}")]

    def _start(self, launch: Launch) -> Handle | Failure:
        try:
            with open(launch.program, "rb") as file:
                program = file.read()
            digest = hashlib.sha256(program).hexdigest()[:16]
            if self._connect(digest) == "missing":
                self._run(_BRING, self._root, digest, given=program)
            pythons = [launch.python] if launch.python else _PYTHONS.split()
            return self._run(_START, self._root, digest, launch.directory, *pythons, given=launch.stdin).strip()
        except Failure as error:
            return error
        except OSError as error:
            return Failure(f"the agent could not be started: {error}")

    def _connect(self, digest: str) -> str:
        """There is a connection that has the hub's socket over there; whether the program of this digest is."""
        is_new = not self._is_connected()
        leave = "rm -f agent.sock; " if is_new else ""  # what an earlier connection left would be in the way
        enter = _command(_ENTER.format(leave=leave), self._id, digest)
        self._root, has = self._ssh([], enter).stdout.decode("utf-8", "replace").split("\n")[:2]
        if is_new:
            socket = f"{self._root}/agent.sock:{self.settings.get('agent_socket', '')}"
            self._ssh(["-M", "-N", "-f", "-o", "ExitOnForwardFailure=yes", "-R", socket], stays=True)
        return has

    def _is_connected(self) -> bool:
        return self._ssh(["-O", "check"], may_fail=True).returncode == 0

    def _run(self, script: str, *args: str, given: bytes = b"") -> str:
        """What a shell over there prints. Failure when it cannot be reached, or fails."""
        if not self._root or not self._is_connected():
            self._connect("")
        return self._ssh([], _command(script, *args), given=given).stdout.decode("utf-8", "replace")

    def _ssh(
        self, how: Sequence[str], command: str = "", *, given: bytes = b"", may_fail: bool = False, stays: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Failure when it fails, unless it may. One that `stays` in the background gets no pipe to hold open."""
        words = [command] if command else []
        argv = ["ssh", "-S", self._control(), *_SAFE, *how, *self._options, "--", self._address, *words]
        out: Any = subprocess.DEVNULL if stays else subprocess.PIPE
        try:
            done = subprocess.run(argv, input=given, stdout=out, stderr=out, timeout=_PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{self._address} does not answer within {_PATIENCE:g} s") from error
        except OSError as error:
            raise Failure(f"there is no ssh here: {error}", kind="unsupported") from error
        if done.returncode != 0 and not may_fail:
            raise _failure(done)
        return done

    def _control(self) -> str:
        folder = os.path.join(str(self.settings.get("sockets_directory", "")) or os.path.expanduser("~/.ssh"), "ssh")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        said = json.dumps([self._address, self._options, self._id])
        return os.path.join(folder, hashlib.sha256(said.encode()).hexdigest()[:16])


#: Nothing is asked, no unknown key is believed, and a connection that is dead is noticed.
_SAFE = (
    "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ControlPersist=yes",
)  # fmt: skip
_LOGIN = ("Permission denied", "Host key verification failed", "host key is known", "REMOTE HOST IDENTIFICATION")


def _command(script: str, *args: str) -> str:
    """For the login shell over there, whichever it is: it only has to know single quotes."""
    return shlex.join(["exec", "sh", "-c", script, "sh", *args])


def _failure(done: subprocess.CompletedProcess[bytes]) -> Failure:
    lines = [line for line in (done.stderr or b"").decode("utf-8", "replace").splitlines() if line.strip()]
    said = lines[-1].strip() if lines else f"exit code {done.returncode}"
    if any(each in line for line in lines for each in _LOGIN):
        return Failure(said, kind="login")
    return Failure(said, kind="transient" if done.returncode == _LOST else "rejected")


def _records(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a text, one behind the other; what is none is passed over."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        try:
            record, end = decoder.raw_decode(text)
        except ValueError:
            break
        found.append(record)
        text = text[end:]
    return found
