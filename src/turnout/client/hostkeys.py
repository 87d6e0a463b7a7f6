"""By which key a machine is known: what it shows now, what is on record here, and putting it on record.

The system's own ssh is asked for all of it, so that the user's configuration, aliases and jump hosts count.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnout.errors import Unavailable

_PATIENCE = 30.0
_VOUCHED = "@cert-authority"
#: What a server signs with, by the type of its key, where that is not the type itself.
_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256,ssh-rsa"}


@dataclass(frozen=True, slots=True)
class Way:
    """How ssh gets to a machine, beside what the user's configuration says."""

    address: str
    port: str = ""
    options: Sequence[str] = ()

    def argv(self, *how: str) -> list[str]:
        """Nothing in an address can be taken for an option."""
        return ["ssh", *how, *(["-p", self.port] if self.port else []), *self.options, "--", self.address]


@dataclass(frozen=True, slots=True)
class HostKey:
    """`host` is what known_hosts calls the machine, `type` and `blob` are the key as it is written there."""

    host: str
    type: str
    blob: str

    @property
    def kind(self) -> str:
        """As ssh tells it to people: ``ED25519``."""
        return self.type.removeprefix("sk-").removeprefix("ssh-").partition("-")[0].partition("@")[0].upper()

    @property
    def fingerprint(self) -> str:
        try:
            digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        except binascii.Error:
            return "unreadable"
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Standing:
    """The key that a machine shows (None where an authority vouches for it), and those on record for it."""

    shown: HostKey | None
    known: Sequence[HostKey]

    @property
    def is_known(self) -> bool:
        shown = self.shown  # whatever the machine is called where its key is written
        return shown is None or any((key.type, key.blob) == (shown.type, shown.blob) for key in self.known)

    @property
    def is_changed(self) -> bool:
        return not self.is_known and bool(self.known)


def look(way: Way) -> Standing:
    """Unavailable when the machine cannot be reached, with what ssh said. Nothing is changed, nothing asked."""
    settings = _configuration(way)
    name = settings.get("hostkeyalias") or _with_port(settings.get("hostname", ""), settings.get("port", "22"))
    files = f"{settings.get('userknownhostsfile', '')} {settings.get('globalknownhostsfile', '')}".split()
    known = [key for file in files for key in _recorded(name, Path(file).expanduser())]
    if any(key.host == _VOUCHED for key in known):
        return Standing(None, known)
    return Standing(_shown(way, known), known)


def trust(way: Way, key: HostKey) -> Path:
    """Writes the key to where ssh would, which is told; on the disk when this returns."""
    settings = _configuration(way)
    file = Path(settings.get("userknownhostsfile", "~/.ssh/known_hosts").split()[0]).expanduser()
    line = f"{key.host} {key.type} {key.blob}\n"
    if settings.get("hashknownhosts") == "yes":
        line = _hashed(line)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b") as out:
            size = out.seek(0, os.SEEK_END)
            ends_well = size == 0 or os.pread(out.fileno(), 1, size - 1) == b"\n"
            out.write(("" if ends_well else "\n").encode() + line.encode())
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}", hint="make it a file you can write") from error
    return file


def _configuration(way: Way) -> dict[str, str]:
    """What ssh makes of its files and options for this machine."""
    done = _run(way.argv("-G"))
    if done.returncode != 0:
        raise Unavailable(f"ssh refuses {way.address}: {_complaint(done)}", hint="check ~/.ssh/config and the options")
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return {name: value for name, _, value in reversed(lines)}


def _with_port(host: str, port: str) -> str:
    return host if port == "22" else f"[{host}]:{port}"


def _recorded(name: str, file: Path) -> list[HostKey]:
    """The keys of that machine in a known_hosts file, hashed names too."""
    if not file.is_file():
        return []
    done = _run(["ssh-keygen", "-F", name, "-f", str(file)])
    return [_key(line, name) for line in done.stdout.splitlines() if not line.startswith(("#", "@revoked"))]


def _key(line: str, name: str) -> HostKey:
    words = line.split()
    return HostKey(_VOUCHED, *words[2:4]) if words[0] == _VOUCHED else HostKey(name, *words[1:3])


def _shown(way: Way, known: Sequence[HostKey]) -> HostKey:
    """What a connection that goes only as far as the keys shows; of a type that is on record, if one is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "known_hosts")
        how = {
            "StrictHostKeyChecking": "accept-new", "UserKnownHostsFile": str(file), "GlobalKnownHostsFile": os.devnull,
            "HashKnownHosts": "no", "PreferredAuthentications": "none", "BatchMode": "yes", "ControlPath": "none",
            "ConnectTimeout": "10", "ClearAllForwardings": "yes", "LogLevel": "ERROR", "UpdateHostKeys": "no",
            "RemoteCommand": "none", "CheckHostIP": "no",
        }  # fmt: skip
        if known:
            how["HostKeyAlgorithms"] = ",".join(dict.fromkeys(_ALGORITHMS.get(key.type, key.type) for key in known))
        options = [word for name, value in how.items() for word in ("-o", f"{name}={value}")]
        done = _run([*way.argv("-T", *options), "true"])
        lines = file.read_text().splitlines() if file.exists() else []
    if not lines:
        hint = f"try it yourself: {' '.join(way.argv())}"
        raise Unavailable(f"{way.address} cannot be reached: {_complaint(done)}", hint=hint)
    host, kind, blob = lines[-1].split()[:3]
    return HostKey(host, kind, blob)


def _hashed(line: str) -> str:
    """With the machine's name made unreadable, as `HashKnownHosts` wants it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "known_hosts")
        file.write_text(line)
        _run(["ssh-keygen", "-H", "-f", str(file)])
        return file.read_text()


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Without a terminal of its own, so that nothing on the way can ask."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
            timeout=_PATIENCE, start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"no answer within {_PATIENCE:g} s", hint=f"try it yourself: {' '.join(argv[:1])}") from error
    except OSError as error:
        raise Unavailable(f"{argv[0]} cannot be started: {error.strerror}", hint="install OpenSSH") from error


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
