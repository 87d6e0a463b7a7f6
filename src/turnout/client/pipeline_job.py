"""A pipeline that was handed over: how it is, and waiting for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from turnout.client.client import Client
from turnout.client.lists import each_page
from turnout.errors import TurnoutError
from turnout.model.state import TERMINAL

View = dict[str, Any]
_MOST_TOLD = 5
_MOST_READ = 200


class PipelineFailed(TurnoutError):
    """A pipeline that was waited for did not complete: some run failed, or it was cancelled. `job` is the pipeline."""

    code = "pipeline_failed"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", job: PipelineJob | None = None) -> None:
        super().__init__(message, hint=hint)
        self.job = job

    def __str__(self) -> str:
        """With the hint: a traceback shows nothing else."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class PipelineJob:
    """`name` is that of its job. It goes on whether or not this object or process does. All that it tells is asked for
    anew. Not for use by several threads at once."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"PipelineJob({self.name!r})"

    @property
    def state(self) -> str:
        """``queued``, ``running``, …; over are ``completed``, ``failed`` and ``cancelled``."""
        return str(self.view()["state"])

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL

    @property
    def steps(self) -> dict[str, View]:
        """Of each step its job, state and counts, by its name, as ``turnout show JOB --json`` has them."""
        return {step["name"]: step for step in self.view()["steps"]}

    def view(self) -> View:
        """All of it, as ``turnout show JOB --json`` has it."""
        return self._client.job(self.name)

    def runs(self, step: str | None = None) -> list[View]:
        """The runs of a step, or of all, in the order in which they were made; with their ``params`` and ``metrics``.
        Of a search, those that were tried. KeyError for a step that it does not have."""
        job = self.name if step is None else self.steps[step]["job"]
        runs = list(each_page(self._client.runs, [f"job = {job}"]))[::-1]
        parents = {run["parent"] for run in runs}
        return [run for run in runs if run["name"] not in parents]

    def cancel(self) -> None:
        """Ends all of it. Idempotent."""
        self._client.cancel(job=self.name)

    def wait(self, *, timeout: float | None = None, check: bool = True) -> str:
        """Its state once it is over. PipelineFailed unless it completed, if that is to be checked; TimeoutError after
        so many seconds. When it is interrupted, with Ctrl-C, the pipeline goes on."""
        try:
            view = self._client.wait(self.name, timeout=timeout)
        except KeyboardInterrupt:
            ways = f"`turnout attach {self.name}` waits for it, `turnout cancel job {self.name}` ends it"
            print(f"\n{self.name} goes on; {ways}", file=sys.stderr)
            raise
        if check and view["state"] != "completed":
            raise self._failure(view)
        return str(view["state"])

    def _failure(self, view: View) -> PipelineFailed:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(view["counts"].items()))
        if not view["failed"]:
            hint = f"`turnout why {self.name}` tells more"
            return PipelineFailed(f"{self.name} {view['state']}: {counts}", hint=hint, job=self)
        first = _first_failed(self._client, view)
        told = "".join(f"\n  {line}" for line in _told(first, view["failed"]))
        hint = (
            f"`turnout logs {first[0]['name']}` shows what it printed, `turnout why {self.name}` tells more, "
            f"`turnout resume {self.name}` tries again"
        )
        return PipelineFailed(f"{self.name} {view['state']}: {counts}{told}", hint=hint, job=self)


def first_failures(client: Client, view: View) -> list[str]:
    """For people, a line each: the first runs that failed of a job of which this is the view, and how; how many more
    there are."""
    return _told(_first_failed(client, view), view["failed"]) if view["failed"] else []


def _first_failed(client: Client, view: View) -> list[View]:
    """Those that others took the place of, when it was resumed, are listed as well: they are the oldest."""
    filters, count = [f"job = {view['name']}", "state = failed"], view["failed"]
    if count > _MOST_READ:
        return client.runs(filters, limit=_MOST_TOLD, from_end=True)[::-1]
    return client.runs(filters, limit=count)[::-1][:_MOST_TOLD]


def _told(failed: Sequence[View], count: int) -> list[str]:
    lines = [f"{_called(run)}: {run['message'] or run['reason']}" for run in failed]
    return [*lines, f"and {count - len(failed)} more"] if count > len(failed) else lines


def _called(run: View) -> str:
    values = ",".join(f"{name}={value}" for name, value in run["params"].items())
    called = f"{run['label'] or ''}{f'[{values}]' if values else ''}"
    return f"{called} ({run['name']})" if called else str(run["name"])
