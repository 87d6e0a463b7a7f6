"""Hosts made of namespaces: each has its network, processes, name and home of its own, and a real SSH server.

A host can be cut off, as if its cable had been pulled, and lose its power, which ends all that runs there.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import wait_until
from tests.sshd import USER, make_user

_HOME = "300m"


@dataclass
class Host:
    """`name` is also what its boxes are called; the link is named after `number` of all hosts of the yard."""

    yard: Yard
    name: str
    number: int
    home_size: str
    init: int = 0
    _server: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{self.yard.subnet}.{self.number}"

    @property
    def home(self) -> Path:
        """Of the user who logs in there, as it is seen from here."""
        return self.yard.folder / "homes" / self.name

    def entry(self, via: str = "", **more: object) -> str:
        """For the section ``boxes``; `via` another host."""
        rest = "".join(f", {key}: {value}" for key, value in more.items())
        name = f"{self.name}-via-{via}" if via else self.name
        return f'{{address: {name}, ssh-options: ["-F", "{self.yard.folder}/config"]{rest}}}'

    def run(self, *argv: str) -> str:
        """What a command of that user prints there."""
        enter = ["nsenter", "-t", str(self.init), "-m", "-p", "-n", "-u", "su", USER, "-s", "/bin/sh", "-c"]
        done = subprocess.run([*enter, " ".join(argv)], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout

    def cut(self) -> None:
        """Nothing comes through, and nobody is told."""
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        _ip("link", "set", self._link, "up")

    def drop_connections(self) -> int:
        """Every connection that is open now breaks; new ones can be made. How many there were."""
        dropped = 0
        for pid in self._processes():
            with suppress(OSError):
                told = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
                if told.startswith(f"sshd: {USER}".encode()):
                    os.kill(pid, signal.SIGKILL)
                    dropped += told.endswith(b"[priv]")
        return dropped

    def kill_agents(self) -> list[int]:
        """With SIGKILL; their launchers and the supervisors of runs stay."""
        agents = [pid for pid in self._processes() if _is_agent(pid)]
        found = [pid for pid in agents if _parent(pid) not in agents]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def lose_power(self) -> None:
        """All that runs there ends at once; what is on its disk stays."""
        assert self._server is not None
        os.kill(self.init, signal.SIGKILL)
        self._server.wait(20)

    def start(self) -> None:
        folder = self.yard.folder
        begin = (
            f"hostname {self.name}; mount --bind {self.home} /home/{USER}; mount -t tmpfs run /run; mkdir /run/sshd; "
            f"exec {self.yard.sshd} -D -f {folder}/sshd_config -E {folder}/{self.name}.log "
            f"-o ListenAddress={self.address}"
        )
        net = f"--net=/run/netns/{self._space}"
        unshare = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc", "sh", "-c", begin]
        with open(folder / f"{self.name}.err", "a") as errors:
            self._server = subprocess.Popen(["nsenter", net, *unshare], stderr=errors)
        self.init = wait_until(self._find_init)
        wait_until(lambda: self._answers(), what=f"the SSH server of {self.name}")

    def set_up(self) -> None:
        """A disk and a cable."""
        self.home.mkdir(parents=True)
        size = f"size={self.home_size},mode=700,uid={pwd.getpwnam(USER).pw_uid}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "home", self.home], check=True)
        _ip("netns", "add", self._space)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        _ip("link", "set", self._link, "master", self.yard.bridge, "up")
        _ip("-n", self._space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", self._space, "link", "set", device, "up")

    def take_down(self) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGKILL)
            self._server.kill()
            self._server.wait(20)
        subprocess.run(["umount", "-l", self.home], check=False, capture_output=True)
        _ip("netns", "del", self._space, check=False)
        _ip("link", "del", self._link, check=False)

    @property
    def _space(self) -> str:
        return f"{self.yard.bridge}-{self.name}"

    @property
    def _link(self) -> str:
        return f"{self.yard.bridge}v{self.number}"

    def _find_init(self) -> int:
        assert self._server is not None
        told = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
        return int(told[0]) if told else 0

    def _answers(self) -> bool:
        argv = ["ssh", "-F", str(self.yard.folder / "config"), "-o", "ControlPath=none", self.name, "true"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        return done.returncode == 0

    def _processes(self) -> list[int]:
        mine = os.readlink(f"/proc/{self.init}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(entry / "ns/pid") == mine:
                    found.append(int(entry.name))
        return found


@dataclass
class Yard:
    """All hosts, on one bridge."""

    sshd: str
    folder: Path
    number: int
    hosts: list[Host] = field(default_factory=list)

    @property
    def bridge(self) -> str:
        return f"to{self.number}"

    @property
    def subnet(self) -> str:
        return f"10.213.{self.number}"

    def settings(self, **more: object) -> str:
        """The section ``boxes``, with all hosts."""
        return "boxes:\n" + "".join(f"  {host.name}: {host.entry('', **more)}\n" for host in self.hosts)


@contextmanager
def running_hosts(sshd: str, names: Sequence[str], home_size: str = _HOME) -> Iterator[Yard]:
    """They are up, and the user of the tests can log in to each, for as long as this is open."""
    make_user()
    folder = Path(tempfile.mkdtemp(prefix="turnout-yard-"))
    folder.chmod(0o755)
    yard = Yard(sshd, folder, os.getpid() % 250)
    yard.hosts = [Host(yard, name, number, home_size) for number, name in enumerate(names, 1)]
    _write_files(yard)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # A packet to a host that is cut off must not leave by the way that all others take.
        _ip("route", "add", "blackhole", f"{yard.subnet}.0/24", "metric", "4000", check=False)
        stack.callback(_ip, "route", "del", "blackhole", f"{yard.subnet}.0/24", "metric", "4000", check=False)
        _ip("link", "add", yard.bridge, "type", "bridge")
        stack.callback(_ip, "link", "del", yard.bridge, check=False)
        _ip("addr", "add", f"{yard.subnet}.254/24", "dev", yard.bridge)
        _ip("link", "set", yard.bridge, "up")
        for host in yard.hosts:
            stack.callback(host.take_down)
            host.set_up()
            host.start()
        yield yard


def _write_files(yard: Yard) -> None:
    folder = yard.folder
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    (folder / "authorized_keys").chmod(0o644)
    server = {
        "HostKey": folder / "host", "PidFile": "none", "AuthorizedKeysFile": folder / "authorized_keys",
        "StrictModes": "no", "UsePAM": "no", "PasswordAuthentication": "no", "MaxStartups": "200:30:400",
        "MaxSessions": "200",
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in server.items()))
    public = (folder / "host.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known_hosts").write_text("".join(f"{host.address} {public}\n" for host in yard.hosts))
    lines = []
    for host in yard.hosts:
        others = [other.name for other in yard.hosts if other is not host]
        lines += [f"Host {host.name} {host.name}-via-*", f"  HostName {host.address}"]
        lines += [f"Host {host.name}-via-{other}\n  ProxyJump {other}" for other in others]
    lines += [
        "Host *", f"  User {USER}", f"  IdentityFile {folder}/key", f"  UserKnownHostsFile {folder}/known_hosts",
        "  IdentitiesOnly yes",
    ]  # fmt: skip
    (folder / "config").write_text("\n".join(lines) + "\n")


def _is_agent(pid: int) -> bool:
    with suppress(OSError):
        return b"turnout.agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _ip(*args: str, check: bool = True) -> None:
    subprocess.run(["ip", *args], check=check, capture_output=True, timeout=20)
