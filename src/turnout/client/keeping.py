"""What a client can do with what is kept: take it out in one file, bring it back, delete it, run it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from turnout.client.encoding import encode
from turnout.home import Home
from turnout.model.spec import JobSpec
from turnout.wire.http import Answer, Body

View = dict[str, Any]
Told = Callable[[int, int], None]
_LONG = 86400.0


def _nobody(_done: int, _total: int) -> None:
    pass


class Keeping(ABC):
    """A part of `Client`."""

    _home: Home

    @abstractmethod
    def _request(
        self, method: str, path: str, body: Body = None, *, headers: dict[str, str] | None = None, timeout: float = 60.0
    ) -> Answer: ...

    @abstractmethod
    def submit(self, spec: JobSpec, *, key: str | None = None) -> View: ...

    def export_workspace(
        self, workspace: str, file: str | Path, *, experiment: str | None = None, jobs: Sequence[str] = (),
        finished: bool = False, files: bool = True, told: Told | None = None,
    ) -> View:  # fmt: skip
        """Writes all of a workspace (or of an experiment, or of some jobs of it) into one new file, and checks it.

        Conflict when a run is not over; with `finished`, jobs that are not over are left out. `told` hears of bytes
        done and, about, in all.
        """
        from turnout.client import archive

        archive.check_target(Path(file))
        body = {"workspace": workspace, "experiment": experiment, "jobs": list(jobs), "finished": finished}
        answer = self._request("POST", "/api/export", encode({**body, "files": files}), timeout=600.0)
        return archive.receive(answer, Path(file), told or _nobody)

    def import_archive(
        self, file: str | Path, *, workspace: str | None = None, prefix: str = "", again: bool = False,
        told: Told | None = None,
    ) -> View:  # fmt: skip
        """Takes an archive in, all of it or nothing, under new names. Conflict when it is here already; with `again`
        that is no error, and ``imported`` is False."""
        from turnout.client import archive

        archive.inspect(Path(file), told or _nobody)
        headers = {"Content-Type": "application/x-tar"}
        path = archive.import_path(workspace, prefix, again=again)
        body = archive.Body(Path(file), told or _nobody)
        return _view(self._request("PUT", path, body, headers=headers, timeout=_LONG))

    def delete(
        self, *, runs: Sequence[str] = (), jobs: Sequence[str] = (), experiment: str | None = None,
        workspace: str | None = None, dry_run: bool = False,
    ) -> View:  # fmt: skip
        """Deletes runs (with their children), jobs, an experiment or a workspace for good; what went, or would go.

        Conflict, and nothing is deleted, when a run is not over, or is a child of one that stays.
        """
        what = {"runs": list(runs), "jobs": list(jobs), "experiment": experiment, "workspace": workspace}
        body = encode({**what, "dry_run": dry_run})
        return _view(self._request("POST", "/api/delete", body, timeout=3600.0))

    def gc(self, *, dry_run: bool = False) -> View:
        """Removes files that nothing refers to any more, and gives room back to the disk."""
        return _view(self._request("POST", f"/api/gc?dry_run={str(dry_run).lower()}", timeout=_LONG))

    def spec(self, run: str) -> View:
        """What was submitted, as this run alone would be submitted again: ``{"run", "spec", "env_names"}``."""
        return _view(self._request("GET", f"/api/runs/{quote(run, safe='')}/spec"))

    def restart(self, name: str) -> list[View]:
        """Ends what is on a node, or a run, as if the node had been taken away: it is tried again, with what it left
        in its output directory. NotFound, or Conflict when nothing of that name is on a node."""
        answer = self._request("POST", "/api/restart", encode({"name": name})).json()
        return list(answer) if isinstance(answer, list) else []

    def dismiss_agents(self, *, now: bool = False) -> int:
        """Has agents leave that hold nothing, instead of after a while without work; how many there are. With `now`, a
        prolog or epilog that they are at is broken off."""
        return int(_view(self._request("POST", f"/api/hub/dismiss?now={str(now).lower()}"))["agents"])


def _view(answer: Answer) -> View:
    told = answer.json()
    return dict(told) if isinstance(told, dict) else {}
