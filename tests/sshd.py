"""A real SSH server, and a user who logs in there and has nothing of ours."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.harness import wait_until

USER = "turnout-box"
PASSWORD = "open sesame, $(please) 'now'"


@dataclass(frozen=True)
class Box:
    """`home` is that of the user over there; `log` is the server's."""

    folder: Path
    port: int
    home: Path

    @property
    def options(self) -> list[str]:
        """What ssh has to be told to get there, and nothing of the configuration of who runs the tests."""
        known = f"UserKnownHostsFile={self.folder}/known_hosts"
        return ["-F", "none", "-i", str(self.folder / "key"), "-o", known]

    def entry(self, **more: object) -> str:
        """For the section ``boxes``."""
        options = ", ".join(f'"{each}"' for each in self.options)
        rest = "".join(f", {key}: {value}" for key, value in more.items())
        return f"{{address: {USER}@127.0.0.1, port: {self.port}, ssh-options: [{options}]{rest}}}"

    def entry_with_password(self) -> str:
        """The same for who has no key, but the secret ``BOX``."""
        options = ", ".join(f'"{each}"' for each in ("-F", "none", *self.options[4:]))
        return f"{{address: {USER}@127.0.0.1, port: {self.port}, ssh-options: [{options}], password: secret:BOX}}"

    def drop_connections(self) -> None:
        """Every connection that is open now breaks, as if a cable had been pulled. New ones can be made."""
        found = subprocess.run(["pgrep", "-f", f"^sshd: {USER}"], capture_output=True, text=True, check=False)
        server = int((self.folder / "pid").read_text())
        for pid in [int(word) for word in found.stdout.split() if server in _ancestors(int(word))]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def running_box(program: str) -> Iterator[Box]:
    """A server that `program` is, for as long as this is open."""
    folder = Path(tempfile.mkdtemp(prefix="turnout-sshd-"))
    folder.chmod(0o755)
    home = make_user()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    (folder / "authorized_keys").chmod(0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host = (folder / "host.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host}\n")
    settings = {
        "Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": folder / "pid",
        "AuthorizedKeysFile": folder / "authorized_keys", "StrictModes": "no", "UsePAM": "no",
        "PasswordAuthentication": "yes", "MaxStartups": "200:30:400", "MaxSessions": "200",
    }  # fmt: skip
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")])
    try:
        wait_until(lambda: _answers(port))
        yield Box(folder, port, home)
    finally:
        Box(folder, port, home).drop_connections()
        server.terminate()
        server.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def make_user() -> Path:
    """With a shell that reads no files of anybody's; the home. Each hub has a directory of its own there."""
    try:
        found = pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "-m", "-s", "/bin/sh", USER], check=True)
        found = pwd.getpwnam(USER)
    # Without PAM the usual `!` would lock the user out. The hash is of `PASSWORD`, by SHA-512.
    subprocess.run(["usermod", "-p", _hashed(PASSWORD), USER], check=True)
    return Path(found.pw_dir)


def _hashed(password: str) -> str:
    argv = ["openssl", "passwd", "-6", "-salt", "turnout", "-stdin"]
    return subprocess.run(argv, input=password, capture_output=True, text=True, check=True).stdout.strip()


def _ancestors(pid: int) -> list[int]:
    found = [pid]
    with suppress(OSError):
        while found[-1] > 1:
            found.append(int(Path(f"/proc/{found[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
    return found


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
