"""What tests of schedulers share: launches whose program does as its order says, and tells what it got."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import wait_until
from turnout.plugin.batch import BatchProvider
from turnout.plugin.provider import Failure, Handle, Launch, Need, Observation, Phase

#: In the place of the agent: waits for a file or its end, and writes down what it was given and which signals came.
_PROGRAM = """\
import json, os, signal, sys, time
order = json.load(sys.stdin)
def note(name, text):
    with open(os.path.join(order["directory"], name + ".new"), "w") as file:
        file.write(text)
    os.rename(file.name, os.path.join(order["directory"], name))
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("warned", str(time.time()))
    os._exit(order.get("code", 0))
signal.signal(signal.SIGTERM, end)
note("started", json.dumps({"environment": dict(os.environ), "order": order, "pid": os.getpid(), "cwd": os.getcwd()}))
print("hello from", order["directory"], flush=True)
while order.get("stays") and not os.path.exists(os.path.join(order["directory"], "go")):
    time.sleep(0.02)
sys.exit(order.get("code", 0))
"""


@dataclass
class Site:
    """One provider of a scheduler, and the directory it shares with its jobs."""

    provider: BatchProvider
    root: Path
    hold: str
    """the option of a job that keeps it waiting"""
    folder: Path
    """for the program of its launches"""

    @classmethod
    def of(cls, provider: BatchProvider, hold: str) -> Site:
        root = Path(provider.transport.enter())
        return cls(provider, root, hold, root.parent)

    def launch(self, *, need: Need | None = None, env: Mapping[str, str] | None = None, **order: object) -> Launch:
        token = secrets.token_hex(16)
        order = {"directory": f"nodes/{token}", **order}
        return Launch(
            token,
            "node",
            f"nodes/{token}",
            (),
            json.dumps(order).encode(),
            env or {},
            str(self._program()),
            need=need or Need(),
        )

    def but(self, **settings: object) -> Site:
        """The same place with other settings."""
        provider = type(self.provider)({**self.provider.settings, **settings})
        return Site(provider, self.root, self.hold, self.folder)

    def submit(self, *launches: Launch) -> list[Handle]:
        """Their handles; AssertionError when one was not taken."""
        answers = self.provider.submit(launches)
        assert len(answers) == len(launches)
        handles = [answer for answer in answers if not isinstance(answer, Failure)]
        assert len(handles) == len(answers), [str(each) for each in answers]
        return handles

    def look(self, handle: Handle) -> Observation:
        return self.provider.observe([handle])[handle]

    def wait_gone(self, handle: Handle, timeout: float = 30.0) -> Observation:
        wait_until(lambda: self.look(handle).phase is Phase.GONE, timeout, f"{handle} is over")
        return self.look(handle)

    def wait_started(self, launch: Launch) -> Mapping[str, Any]:
        """What its program was given."""
        file = self.root / launch.directory / "started"
        wait_until(file.exists, 30.0, f"{launch.directory} started")
        told: Mapping[str, Any] = json.loads(file.read_text())
        return told

    def let_go(self, launches: Sequence[Launch]) -> None:
        """Those that stay end by themselves."""
        for launch in launches:
            (self.root / launch.directory).mkdir(parents=True, exist_ok=True)
            (self.root / launch.directory / "go").touch()

    def was_warned(self, launch: Launch) -> bool:
        return (self.root / launch.directory / "warned").exists()

    def _program(self) -> Path:
        path = self.folder / "program.pyz"
        if not path.exists():
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in (("__init__", ""), ("agent/__init__", ""), ("agent/__main__", _PROGRAM)):
                    archive.writestr(f"turnout/{name}.py", text)
        return path


def is_alive(pid: int) -> bool:
    """Who nobody has waited for yet is dead nevertheless."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


_WRAPPER = """\
#!/bin/sh
echo {name} >> {folder}/calls
mode=$(cat {folder}/{name}.mode 2>/dev/null)
case "$mode" in
    answer) cat {folder}/{name}.answer; exit 0 ;;
    refuse) cat {folder}/{name}.answer >&2; exit 1 ;;
    lose) {path} "$@" > /dev/null 2>&1; cat {folder}/{name}.answer >&2; exit 1 ;;
    die) {path} "$@" > /dev/null 2>&1; kill -9 "$(cat {folder}/victim)"; exec sleep 60 ;;
esac
exec {path} "$@"
"""


class Commands:
    """Stands before the commands of a scheduler on PATH: counts their calls, and spoils what they say."""

    def __init__(self, names: Sequence[str]) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix="turnout-commands-", ignore_cleanup_errors=True)
        self.folder = Path(self._kept.name)
        for name in names:
            path = shutil.which(name)
            (self.folder / name).write_text(_WRAPPER.format(name=name, folder=self.folder, path=path))
            (self.folder / name).chmod(0o755)

    @property
    def path(self) -> str:
        return f"{self.folder}:{os.environ['PATH']}"

    def calls(self, name: str = "") -> int:
        """How often one of them was called, or any."""
        file = self.folder / "calls"
        lines = file.read_text().split() if file.exists() else []
        return len([each for each in lines if name in ("", each)])

    @contextmanager
    def spoiled(self, name: str, mode: str, text: str = "") -> Iterator[None]:
        """``answer``: it says only this. ``refuse``: it complains of this. ``lose``: it does its work and then
        complains of this. ``die``: it does its work, and then the process whose number is in `victim` is no more."""
        (self.folder / f"{name}.answer").write_text(text)
        (self.folder / f"{name}.mode").write_text(mode)
        try:
            yield
        finally:
            (self.folder / f"{name}.mode").unlink()
