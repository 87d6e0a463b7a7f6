"""Programs beside ours that some tests need. `scripts/test-deps` looks in the same places, and installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def strace() -> str:
    """The program's path. A test that asks is skipped where there is none; see `_needed`."""
    return _needed(shutil.which("strace"), "strace", "apt install strace")


def python39() -> str:
    """The oldest Python that nodes may have. A test that asks is skipped where there is none; see `_needed`."""
    found = next((path for path in _places_of_python39() if _works(path)), None)
    return _needed(found, "Python 3.9", "`pyenv install 3.9`, or set TURNOUT_TEST_PYTHON39")


def sshd() -> str:
    """The SSH server's path. Only root can let others log in; see `_needed`."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return _needed(found if os.geteuid() == 0 else None, "an SSH server, and root", "apt install openssh-server")


def slurm() -> None:
    """The daemons and commands of Slurm. Only root can be all of its users; see `_needed`."""
    names = ("slurmctld", "slurmd", "munged", "sbatch")
    found = all(shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in names)
    packages = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
    _needed("slurm" if found and os.geteuid() == 0 else None, "Slurm, and root", f"apt install {packages}")


def namespaces() -> str:
    """The SSH server's path, where hosts can be made of namespaces; see `_needed`."""
    program = sshd()
    can = all(
        shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in ("ip", "nsenter", "unshare")
    )
    works = can and subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True).returncode == 0
    return _needed(program if works else None, "namespaces of networks and processes", "apt install iproute2")


def slurm_accounting() -> None:
    """What keeps the jobs of Slurm; see `_needed`."""
    slurm()
    names = ("slurmdbd", "mariadbd", "mariadb-install-db")
    found = all(shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in names)
    packages = "slurmdbd slurm-wlm-mysql-plugin mariadb-server"
    _needed("slurmdbd" if found else None, "Slurm's accounting", f"apt install {packages}")


def redis_server() -> str:
    """The path of Redis; see `_needed`."""
    return _needed(shutil.which("redis-server"), "Redis", "apt install redis-server")


def gridengine() -> None:
    """The daemons and commands of Grid Engine. Only root can start them; see `_needed`."""
    found = shutil.which("sge_execd", path="/usr/sbin") and shutil.which("sge_qmaster", path="/usr/sbin")
    packages = "gridengine-master gridengine-exec gridengine-client"
    _needed(found if os.geteuid() == 0 else None, "Grid Engine, and root", f"apt install {packages}")


def podman() -> str:
    """The path of a static busybox, to make an image of, where podman is; see `_needed`."""
    return _engine("podman", "podman runc netavark aardvark-dns catatonit busybox-static")


def docker() -> str:
    """The path of a static busybox, to make an image of, where docker's daemon can be started; see `_needed`."""
    return _engine("dockerd", "docker.io tini busybox-static")


def _engine(program: str, packages: str) -> str:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = shutil.which(program, path=path) is not None and os.geteuid() == 0
    return _needed(shutil.which("busybox") if found else None, f"{program}, and root", f"apt install {packages}")


def unpacked(packages: Sequence[str], folder: Path) -> None:
    """Debian packages, unpacked into `folder` and not installed; see `_needed`."""
    argv = ["apt-get", "-o", "APT::Sandbox::User=root", "download", *packages]
    done = subprocess.run(argv, cwd=folder, capture_output=True) if shutil.which("apt-get") else None
    how = f"apt-get download {' '.join(packages)}"
    _needed("apt" if done is not None and done.returncode == 0 else None, " and ".join(packages), how)
    for file in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(file), str(folder)], check=True)


def _needed(found: str | None, what: str, how: str) -> str:
    """Where `CI` is set nothing may be left out: there, what is missing is a failure."""
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{what} is missing: {how}, or run scripts/test-deps as root")
    if found is None:
        pytest.skip(f"{what} is not installed ({how})")
    return found


def _places_of_python39() -> Iterator[str]:
    named = os.environ.get("TURNOUT_TEST_PYTHON39")
    if named:
        yield named
        return
    if on_path := shutil.which("python3.9"):
        yield on_path
    for where in (Path.home() / ".pyenv" / "versions", _ROOT / ".venv" / "pythons"):
        yield from map(str, sorted(where.glob("*3.9.*/bin/python3.9")))


def _works(path: str) -> bool:
    """Version switchers leave commands of that name that only print an excuse."""
    try:
        said = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    except OSError:
        return False
    return said.stdout.split() == ["3", "9"]
