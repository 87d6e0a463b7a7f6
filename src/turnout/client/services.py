"""What the client asks of systems that have ways of their own of telling how their runs are."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from turnout.client.encoding import encode
from turnout.errors import HubUnreachable, NotFound, from_dict
from turnout.wire.http import Answer

View = dict[str, Any]
_PATIENCE = 60.0  # the hub says something every second


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWish:
    """What is asked: of a run, of a job, or of a `place` as `Client.define_target` gives it. `monitor`: again and
    again, for `seconds`, or without end. `stages` are some of queued, active, completed."""

    place: str | None = None
    run: str | None = None
    job: str | None = None
    workspace: str = ""
    monitor: bool = False
    seconds: float | None = None
    start: bool = False
    stages: Sequence[str] = ()
    state: str | None = None
    most_finished: int | None = None


class Services(ABC):
    """The part of the client that asks them."""

    def trial_token(self, run: str) -> View:
        """What a TrialKeeper needs to take this run: ``{"run", "job", "token", "ticket"}``. Conflict when it does not
        wait for one."""
        answer = self._request("POST", f"/api/runs/{quote(run, safe='')}/trial-token")
        return dict(json.loads(answer.read()))

    @abstractmethod
    def _request(
        self, method: str, path: str, body: bytes | None = None, *, headers: dict[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer: ...  # fmt: skip

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def job(self, name: str) -> View: ...

    @abstractmethod
    def run(self, name: str) -> View: ...

    def service_status(self, wish: StatusWish) -> Iterator[str] | None:
        """What the service there prints, piece by piece; None where turnout's own tables are all there is. The iterator
        raises ProviderError when it fails; closing it ends the question. Until then this client is busy with it."""
        lines = self._request("POST", "/api/service-status", encode(wish), timeout=_PATIENCE).stream
        first = json.loads(lines.readline())
        if not first["foreign"]:
            lines.read()
            return None
        return self._texts(lines)

    def monitor_url(self, name: str, *, is_job: bool) -> str:
        """Where the service that has it shows a run or a job. NotFound when it told no such place."""
        view = self.job(name) if is_job else self.run(name)
        if not view["monitor_url"]:
            hint = f"`turnout show {name}` tells what is known; only services with pages of their own have one"
            raise NotFound(f"{view['name']} has no page to open", hint=hint)
        return str(view["monitor_url"])

    def _texts(self, lines: Any) -> Iterator[str]:
        try:
            for line in lines:
                said = json.loads(line)
                if "error" in said:
                    raise from_dict(said)
                if said.get("done"):
                    return
                yield said["text"]
            raise HubUnreachable("the hub went away", hint="see `turnout hub logs`")
        except OSError as error:
            raise HubUnreachable(f"the hub went away: {error}", hint="see `turnout hub logs`") from error
        finally:
            self.close()
