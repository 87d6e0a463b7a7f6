"""Where a shell can be had: on this machine, or on one that ssh reaches.

A *transport* runs short scripts there, in one private directory of ours that it makes, and has the hub's socket for
agents in it as ``agent.sock``. So what is there needs no open port, and nothing of ours installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import shlex
import socket
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from turnout.plugin.provider import Failure
from turnout.plugin.settings import text, texts

PATIENCE = 30.0
SOCKET = "agent.sock"
#: For a script: its arguments are those that come by standard input (see `listed`), however many; unless a part is
#: missing, for to who reads, a connection that breaks is the end of a file. ``$1`` and so on are gone then.
ARGUMENTS = 'eval "{ set -- $(cat)" || exit 1'
#: What a program on a machine needs of the environment it is started from, whatever it does.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
#: What there is to say of a directory that somebody else made, and could put anything into.
_NOT_OURS = "it belongs to %s, who could change what is in it: have it removed, or name another `directory`"
#: What programs (Grid Engine's, tar) say after they said what is wrong.
_EMPTY_WORDS = ("Exiting.", "tar: Exiting with failure status due to previous errors")


class Broken(Failure):
    """It was lost while a script ran: nobody can tell whether that did its work."""


@dataclass(frozen=True)
class Told:
    """How a script ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line with a meaning of what it said on its standard error, or else at all."""
        said = self.err if self.err.strip() else self.out
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        telling = [line for line in lines if line not in _EMPTY_WORDS] or lines
        return telling[-1] if telling else f"exit code {self.code}"


class Transport(ABC):
    """`root` is the directory there; ``~/`` at its begin is the home of the user there. It is made if need be, and
    private: one that belongs to another user is refused. `socket` is the hub's, here. `place` is what people call the
    machine. For one thread at a time; the constructor does nothing but remember."""

    place = "this machine"

    def __init__(self, root: str, socket: str = "", patience: float = PATIENCE) -> None:
        self.root = root
        self.socket = socket
        self.patience = patience

    @abstractmethod
    def ask(self, script: str, *args: str, given: bytes = b"") -> Told:
        """Has a shell there, in `root` and with umask 077, run a script of one line, whose ``$1`` and so on are `args`
        and whose standard input is `given`. Failure when the machine cannot be reached, Broken when it is lost."""

    @abstractmethod
    def enter(self) -> str:
        """Sees to it that the directory is there and has the socket; tells its full path. Idempotent."""

    @abstractmethod
    def close(self) -> None:
        """Nothing is left open. It may be used again. Idempotent."""

    def run(self, script: str, *args: str, given: bytes = b"") -> str:
        """What it prints; Failure also when it does not exit with 0."""
        told = self.ask(script, *args, given=given)
        if told.code != 0:
            raise Failure(told.complaint, kind="rejected")
        return told.out


class Shell(Transport):
    """This machine. Of the environment here, scripts get what every program needs, and `variables`."""

    def __init__(self, root: str, socket: str = "", patience: float = PATIENCE, variables: Sequence[str] = ()) -> None:
        super().__init__(root, socket, patience)
        self.variables = variables

    def ask(self, script: str, *args: str, given: bytes = b"") -> Told:
        root = self.enter()
        env = {name: os.environ[name] for name in (*_PLAIN, *self.variables) if name in os.environ}
        argv = ["sh", "-c", f"umask 077; {script}", "sh", *args]
        try:
            done = subprocess.run(argv, input=given, cwd=root, env=env, **_pipes(), timeout=self.patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"no answer within {self.patience:g} s") from error
        except OSError as error:
            raise Failure(f"no shell could be started: {error}") from error
        return _told(done)

    def enter(self) -> str:
        root = os.path.abspath(os.path.join(os.path.expanduser("~"), os.path.expanduser(self.root)))
        try:
            _check_length(root)
            os.makedirs(root, mode=0o700, exist_ok=True)
            _make_private(root)
            link = os.path.join(root, SOCKET)
            if self.socket and not (os.path.islink(link) and os.readlink(link) == self.socket):
                fresh = f"{link}.{os.urandom(8).hex()}"  # of several targets, each may be here at the same time
                os.symlink(self.socket, fresh)
                os.replace(fresh, link)
        except OSError as error:
            raise Failure(f"the directory {root} cannot be used: {error.strerror}", kind="rejected") from error
        return root

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class SshSettings:
    """What ssh is told beside the user's own configuration."""

    address: str = field(default="", metadata={"doc": "Host name or user@host, as for ssh."})
    port: Optional[int] = field(default=None, metadata={"doc": "The port of its ssh server."})
    ssh_options: Sequence[str] = field(default=(), metadata={"doc": "Further arguments of ssh, as in `[-i, KEY]`."})
    password: str = field(default="", metadata={"doc": "The password there, as `secret:NAME`; empty = only keys."})
    passphrase: str = field(default="", metadata={"doc": "What opens the key here, as `secret:NAME`."})


#: Nothing is asked, no unknown key is believed, a connection that is dead is noticed, and what a user's configuration
#: has every session do is not done. (ssh takes the first value it is given, and a command line before a configuration.)
_SAFE = (
    "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2", "-o", "ControlPersist=yes",
    "-o", "RemoteCommand=none",
)  # fmt: skip
#: What is asked for then is answered, once, by the program that ssh asks in place of a terminal.
_ASKS = ("-o", "BatchMode=no", "-o", "NumberOfPasswordPrompts=1")
_ANSWER = """#!/bin/sh
case "$1" in *passphrase*) printf '%s\\n' "$TURNOUT_PASSPHRASE" ;; *) printf '%s\\n' "$TURNOUT_PASSWORD" ;; esac
"""
#: The connection that stays; every other call must not become it by a ``ControlMaster auto``.
_STAYS = ("-M", "-N", "-f", "-o", "ExitOnForwardFailure=yes")
_PASSES = ("-o", "ControlMaster=no")
_LOGIN = ("Permission denied", "Host key verification failed", "host key is known", "REMOTE HOST IDENTIFICATION")
_LOST = 255  # what ssh itself exits with
#: What a script prints before all else: start-up files of the shell over there may have printed something already.
_MARK = "-turnout-"
#: $1 = the directory, $2 = what to say if it, or a link in its place, is another's, $3 = what of it is in the way, if
#: anything is. Tells its full path.
_ENTER = (
    'umask 077; case "$1" in "~/"*) root="$HOME/${1#??}" ;; *) root="$1" ;; esac; said="$2" away="$3"; '
    'is_ours() { [ -n "$(find "$1" -prune -user "$(id -u)")" ] || { ls -ld "$1" | '
    '{ read -r _ _ owner _; printf "$said" "$owner" >&2; }; false; }; }; '
    'mkdir -p "$root" && is_ours "$root" && cd "$root" && is_ours . && chmod 700 . && '
    f'{{ [ -z "$away" ] || rm -f "$away"; }} && echo {_MARK} && pwd'
)
#: $0 = the directory, as it was told.
_BEGIN = (
    'umask 077; cd "$0" || exit 1; [ -O . ] || { echo "the directory $0 is not ours any more" >&2; exit 1; }; '
    f"echo {_MARK}; "
)


class Ssh(Transport):
    """A machine that the system's own OpenSSH reaches, with the user's configuration, keys and jump hosts.

    There is one connection (its control socket in the directory `controls`), shared by all who go to the same place;
    it stays, and brings the hub's socket over. When it is lost it is made again with the next script.
    """

    def __init__(
        self, root: str, socket: str, settings: SshSettings, controls: str = "", patience: float = PATIENCE
    ) -> None:
        super().__init__(root, socket, patience)
        self.place = settings.address
        self.controls = controls
        self.options = [*(["-p", str(settings.port)] if settings.port else []), *settings.ssh_options]
        self._answers = {"TURNOUT_PASSWORD": settings.password, "TURNOUT_PASSPHRASE": settings.passphrase}
        self._path = ""

    def ask(self, script: str, *args: str, given: bytes = b"") -> Told:
        root = self.enter()
        done = self._ssh(_PASSES, words(_BEGIN + script, *args, name=root), given=given)
        told = _told(done)
        if told.code == _LOST:
            raise Broken(told.complaint)
        if told.code == 0 and _MARK.encode() not in done.stdout:
            raise Broken(f"{self.place} answers something else: {told.out[:100]!r}")
        return told

    def enter(self) -> str:
        if not self._path or not self.is_connected():
            with open(f"{self._control()}.lock", "w") as lock:  # others may go there at the same time
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._path = self._connect()
        return self._path

    def is_connected(self) -> bool:
        """Whether there is a process that keeps it. Asked often, so no program is started for it."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(self.patience)
            try:
                control.connect(self._control())
            except OSError:
                return False
        return True

    def close(self) -> None:
        if self._path:
            self._ssh([*_PASSES, "-O", "exit"])
            self._path = ""

    def argv(self, *how: str, command: str = "") -> List[str]:
        """What starts ssh so that it uses the connection that is there."""
        last = [command] if command else []
        return ["ssh", "-S", self._control(), *how, *self.options, "--", self.place, *last]

    def _connect(self) -> str:
        """There is a connection that has the socket over there. What an earlier one left of it would be in the way."""
        is_new = not self.is_connected()
        if is_new and os.path.exists(self._control()):
            os.unlink(self._control())  # of one that was killed; ssh would take it for a connection
        told = _told(self._ssh(_PASSES, words(_ENTER, self.root, _NOT_OURS, SOCKET if is_new else "")))
        _check_reached(told)
        if told.code != 0:
            raise Failure(f"the directory {self.root} cannot be used: {told.complaint}", kind="rejected")
        root = told.out.rstrip("\n")
        _check_length(root)
        if is_new:
            forward = ["-R", f"{root}/{SOCKET}:{self.socket}"] if self.socket else []
            _check_reached(_told(self._ssh([*_STAYS, *forward], stays=True)))
        return root

    def _ssh(
        self, how: Sequence[str], command: str = "", *, given: bytes = b"", stays: bool = False
    ) -> "subprocess.CompletedProcess[bytes]":
        """One that `stays` in the background gets no pipe to hold open."""
        asks = _ASKS if any(self._answers.values()) else ()
        argv = self.argv(*asks, *_SAFE, *how, command=command)
        env = self._with_answers() if asks else None
        try:
            return subprocess.run(argv, input=given, env=env, **_pipes(stays), timeout=self.patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"{self.place} does not answer within {self.patience:g} s") from error
        except OSError as error:
            raise Failure(f"there is no ssh here: {error}", kind="unsupported") from error

    def _with_answers(self) -> Dict[str, str]:
        """The environment in which ssh gets what it asks for: never among its arguments, and in no file."""
        program = f"{os.path.dirname(self._control())}/answer"
        if not os.path.exists(program):
            fresh = f"{program}.{os.getpid()}"
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as file:
                file.write(_ANSWER)
            os.replace(fresh, program)
        forced = {"SSH_ASKPASS": program, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": os.environ.get("DISPLAY", ":")}
        return {**os.environ, **forced, **self._answers}

    def _control(self) -> str:
        folder = os.path.join(self.controls or os.path.expanduser("~/.ssh"), "ssh")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        said = json.dumps([self.place, self.options, self.root, self.socket])
        return os.path.join(folder, hashlib.sha256(said.encode()).hexdigest()[:16])


def words(script: str, *args: str, name: str = "sh") -> str:
    """One line for a login shell, whichever it is: it only has to know single quotes."""
    return shlex.join(["exec", "sh", "-c", script, name, *args])


def listed(args: Sequence[str]) -> bytes:
    """What has to be `given` to a script that takes its `ARGUMENTS`."""
    return f"{shlex.join(args)}; }}".encode()


def transport(settings: Mapping[str, object], kind: str, *, variables: Sequence[str] = ()) -> Transport:
    """As the settings of a provider say (those of `SshSettings`, and ``directory``): over ssh if there is an address.

    Its directory is in the one they say, or in one for `kind`; neither another hub nor another machine has the same.
    """
    ssh = ssh_settings(settings)
    whose = json.dumps([text(settings, "nodes_directory"), ssh.address, text(settings, "port")])
    above = text(settings, "directory") or f"~/.turnout/{kind}"
    root = f"{above.rstrip('/')}/{hashlib.sha256(whose.encode()).hexdigest()[:12]}"
    socket = text(settings, "agent_socket")
    if ssh.address in ("", "localhost"):
        return Shell(root, socket, variables=variables)
    return Ssh(root, socket, ssh, text(settings, "sockets_directory"))


def ssh_settings(settings: Mapping[str, object]) -> SshSettings:
    port = text(settings, "port")
    return SshSettings(
        text(settings, "address"), int(port) if port else None, texts(settings, "ssh-options"),
        password=text(settings, "password"), passphrase=text(settings, "passphrase"),
    )  # fmt: skip


def _pipes(stays: bool = False) -> Dict[str, Any]:
    where = subprocess.DEVNULL if stays else subprocess.PIPE
    return {"stdout": where, "stderr": where}


def _told(done: "subprocess.CompletedProcess[bytes]") -> Told:
    out = (done.stdout or b"").decode("utf-8", "replace")
    before, mark, after = out.partition(f"{_MARK}\n")
    return Told(done.returncode, after if mark else before, (done.stderr or b"").decode("utf-8", "replace"))


def _check_reached(told: Told) -> None:
    if told.code == _LOST:
        raise Failure(told.complaint, kind="login" if any(each in told.err for each in _LOGIN) else "transient")


def _make_private(root: str) -> None:
    """The directory, and the link that leads there if it is one, are ours; nobody else can enter it."""
    for found in (os.lstat(root), os.stat(root)):
        if found.st_uid != os.geteuid():
            message = f"the directory {root} cannot be used: {_NOT_OURS % _name_of(found.st_uid)}"
            raise Failure(message, kind="rejected")
    if found.st_mode & 0o077:
        os.chmod(root, 0o700)


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _check_length(root: str) -> None:
    """A socket's path has room for 107 bytes, and ssh makes it under a name that is no longer."""
    if len(os.fsencode(f"{root}/{SOCKET}")) > 107:
        raise Failure(f"the path {root} is too long for a socket in it: name a shorter `directory`", kind="rejected")
