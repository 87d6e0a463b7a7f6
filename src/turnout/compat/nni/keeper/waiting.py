"""A target that starts nothing: each run waits there until a TrialKeeper, whoever starts it, takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider

_HOW = "`turnout trialkeeper --print-token RUN` tells the token by which one takes the run"


@dataclass(frozen=True)
class KeeperSettings:
    """There is nothing to say of it."""


class KeeperProvider(Provider):
    """A handle is the launch's token. Nothing is kept: what the hub wrote down is all that there is to a launch."""

    name = "trialkeeper"
    Settings = KeeperSettings
    capabilities = Capabilities(launches="runs", elastic=True)

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [launch.token for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        waits = Observation(Phase.PENDING, detail=f"it waits for a TrialKeeper: {_HOW}")
        return dict.fromkeys(handles, waits)

    def cancel(self, handles: Sequence[Handle]) -> None:
        """One that took its run is told by the hub."""

    def find(self, token: str) -> Handle | None:
        """One whose handle was not written down was offered to nobody: another is made in its place."""
        return None

    def check(self) -> list[Finding]:
        return [Finding("ok", f"runs wait here for TrialKeepers: {_HOW}")]
