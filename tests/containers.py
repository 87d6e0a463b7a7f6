"""Real podman and real docker for tests: each with images, storage and a daemon of its own, all gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.harness import short_folder, wait_until

IMAGE = "localhost/busybox:1"
#: Root may lack the right to raise limits (in a container, say), and cgroups may be of both versions at once.
_PODMAN_CONF = """\
[containers]
default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
[network]
network_backend="netavark"
"""


@dataclass(frozen=True)
class Engine:
    """`program` is what a target names: the real one, told where its things are."""

    kind: str
    program: Path

    def __call__(self, *words: str, check: bool = True, stdin: int | None = None) -> str:
        done = subprocess.run(
            [str(self.program), *words], stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{self.kind} {shlex.join(words)} exited {done.returncode}: {done.stderr}")
        return done.stdout

    def names(self) -> list[str]:
        """Of all containers there are, running or not."""
        return self("ps", "-a", "--format", "{{.Names}}").split()

    def entry(self, **more: object) -> str:
        """The value of ``docker:`` in a target."""
        words = {"image": IMAGE, "program": str(self.program), "network": "none", "pull": "never", **more}
        return "{" + ", ".join(f"{name}: {value}" for name, value in words.items()) + "}"


@contextlib.contextmanager
def podman(busybox: str) -> Iterator[Engine]:
    with _folder() as folder:
        (folder / "containers.conf").write_text(_PODMAN_CONF)
        words = ["podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run", "--storage-driver", "overlay"]
        engine = Engine("podman", _program(folder, words, CONTAINERS_CONF=f"{folder}/containers.conf"))
        _import(engine, busybox, folder)
        try:
            yield engine
        finally:
            engine("rm", "-fa", check=False)
            engine("rmi", "-fa", check=False)
            for mounted in (folder / "storage/overlay", folder / "storage", folder / "run"):
                subprocess.run(["umount", "-l", str(mounted)], capture_output=True)


@contextlib.contextmanager
def docker(busybox: str) -> Iterator[Engine]:
    """Without a bridge or rules of a firewall: nothing of it is left on the machine."""
    with _folder() as folder:
        socket = f"unix://{folder}/docker.sock"
        argv = ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-p", f"{folder}/pid"]
        argv += ["-H", socket, "--bridge=none", "--iptables=false", "--default-ulimit", "nofile=1024:1024"]
        with open(folder / "log", "wb") as log:
            daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            engine = Engine("docker", _program(folder, ["docker", "-H", socket]))
            wait_until(lambda: engine("version", check=False).count("Version:") > 1, what="dockerd answers")
            _import(engine, busybox, folder)
            yield engine
        finally:
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = short_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _program(folder: Path, words: list[str], **env: str) -> Path:
    program = folder / words[0]
    real = shutil.which(words[0], path=f"/usr/bin:{os.environ.get('PATH', '')}")
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in env.items()]
    program.write_text(f'#!/bin/sh\n{"".join(lines)}exec {real} {shlex.join(words[1:])} "$@"\n')
    program.chmod(0o755)
    return program


def _import(engine: Engine, busybox: str, folder: Path) -> None:
    """An image of nothing but busybox: no registry is needed."""
    tools = folder / "image" / "bin"
    tools.mkdir(parents=True)
    (folder / "image" / "tmp").mkdir(mode=0o1777)
    shutil.copy2(busybox, tools / "busybox")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in {*listed} - {"busybox"}:
        (tools / name).symlink_to("busybox")
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["tar", "-C", str(folder / "image"), "-c", "."], stdout=archive, check=True)
        archive.seek(0)
        engine("import", "-", IMAGE, stdin=archive.fileno())
