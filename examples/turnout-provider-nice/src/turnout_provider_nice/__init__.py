"""This machine, at low priority: agents that give way to whatever else runs here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider

#: Runs the rest of its arguments, and leaves their exit code in $0/exit. A TERM is for the program, not for this.
SCRIPT = 'trap : TERM; "$@"; echo $? > "$0/exit.new"; mv "$0/exit.new" "$0/exit"'


@dataclass(frozen=True)
class NiceSettings:
    level: int = field(default=10, metadata={"doc": "How far agents give way, from 0 (not at all) to 19."})


def began_at(pid: int | str) -> str:
    """When a process began, which tells it from a later one of the same number; empty when it is over."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


class NiceProvider(Provider):
    """A launch is a directory that is called after its token, which is its handle, too."""

    name = "nice"
    Settings = NiceSettings
    capabilities = Capabilities(launches="agents", same_host=True, records=True)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self._jobs = Path(str(settings["nodes_directory"])) / "nice"
        self._level = str(settings.get("level", NiceSettings.level))

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._start(launch) for launch in launches]

    def _start(self, launch: Launch) -> Handle | Failure:
        if shutil.which(launch.argv[0]) is None:
            return Failure(f"there is no {launch.argv[0]}", kind="rejected")
        if (launch.need.cpus or 0) > (os.cpu_count() or 1):
            return Failure(f"there are no {launch.need.cpus} processors here", kind="unsupported")
        job = self._jobs / launch.token
        try:
            for directory in (job, Path(launch.directory)):
                directory.mkdir(parents=True, exist_ok=True)
            with open(Path(launch.directory, "agent.log"), "ab") as log:
                process = subprocess.Popen(
                    ["nice", "-n", self._level, "sh", "-c", SCRIPT, str(job), *launch.argv], env=dict(launch.env),
                    stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            # Before it gets its order, without which it ends: so there is nothing that `find` does not know.
            (job / "process").write_text(f"{process.pid} {began_at(process.pid)}")
            assert process.stdin is not None
            with process.stdin:
                process.stdin.write(launch.stdin)
        except OSError as error:
            return Failure(f"it could not be started: {error}")
        return launch.token

    def find(self, token: str) -> Handle | None:
        return token if token and (self._jobs / token / "process").exists() else None

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        return {handle: self._look(handle) for handle in handles if (self._jobs / handle / "process").exists()}

    def _look(self, handle: Handle) -> Observation:
        if self._is_alive(handle):
            return Observation(Phase.ACTIVE)
        try:
            code = int((self._jobs / handle / "exit").read_text())
        except FileNotFoundError:
            return Observation(Phase.GONE, "killed, or this machine was restarted", reason="node_lost")
        return Observation(Phase.GONE, reason="signal" if code > 128 else "exit_code", exit_code=code)

    def _is_alive(self, handle: Handle) -> bool:
        pid, began = (self._jobs / handle / "process").read_text().split()
        return began_at(pid) == began

    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in self.observe(handles):
            if self._is_alive(handle):
                os.killpg(int((self._jobs / handle / "process").read_text().split()[0]), signal.SIGTERM)

    def check(self) -> list[Finding]:
        if shutil.which("nice") is None:
            return [Finding("problem", "there is no command `nice` here", "install coreutils")]
        return [Finding("ok", f"agents run here with niceness {self._level}")]
