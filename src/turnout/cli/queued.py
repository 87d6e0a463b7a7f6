"""``turnout pipeline --queue``: a class of the user's own, as Metapipe's document has it, hears what becomes of a
pipeline's jobs, and decides what to do when none can proceed."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from turnout.cli.follow import complain_of
from turnout.client import Client
from turnout.client.lists import each_page
from turnout.compat import aliases
from turnout.compat.loading import place_of
from turnout.compat.metapipe import needs
from turnout.compat.metapipe.hooks import Hooks
from turnout.errors import InvalidInput, ProviderError
from turnout.home import current_directory
from turnout.model.ids import parse_run_name
from turnout.model.state import TERMINAL
from turnout.pipeline.plan import Plan

View = dict[str, Any]
_PAUSE = 0.5
#: So many restarts in a row may come to nothing.
_RESTARTS = 5
_WAITING = ("created", "queued")


@dataclass(slots=True, eq=False)
class QueuedJob:
    """A run, as callbacks see it. `id` is its name, `attempts` are how often it began, `why` is how it ended."""

    alias: str
    key: object
    depends_on: list[str]
    run: View = field(default_factory=dict)
    attempts: int = 0
    is_announced: bool = False
    waiting: bool = True

    def __repr__(self) -> str:
        return f"<Job: {self.alias}>"

    @property
    def id(self) -> str:
        return str(self.run["name"])

    @property
    def cmd(self) -> list[str]:
        return list(self.run["command"])

    @property
    def filename(self) -> str:
        return f"metapipe.{self.alias}.job"

    @property
    def why(self) -> str:
        return str(self.run["message"] or self.run["reason"] or "")

    @property
    def is_skipped(self) -> bool:
        """It was given up, for what it depends on did not complete."""
        return bool(self.run["state"] == "cancelled" and self.run["reason"] == "dependency")

    def is_running(self) -> bool:
        return self.run["state"] not in (*_WAITING, *TERMINAL)

    def is_queued(self) -> bool:
        return self.run["state"] in _WAITING

    def is_complete(self) -> bool:
        return bool(self.run["state"] == "completed")

    def is_error(self) -> bool:
        return self.run["state"] in TERMINAL and not self.is_complete() and not self.is_skipped

    is_fail = is_error


def load(path: str) -> Hooks:
    """An instance of the class of that path. InvalidInput when there is none. Nothing else has happened then."""
    module, _, name = path.rpartition(".")
    if not module:
        raise InvalidInput(f"--queue: {path!r} is no path of a class", hint="write package.module.Class")
    aliases.install()
    sys.path.insert(0, str(current_directory()))
    try:
        found = getattr(import_module(module), name)
        if not isinstance(found, type):
            raise InvalidInput(f"--queue: {path} is no class", hint="give the path of the class itself")
        return Hooks(found)
    except InvalidInput:
        raise
    except Exception as error:  # whatever its module does
        hint = f"look at {place_of(error)}" if place_of(error) else "it is looked for in this directory first"
        raise InvalidInput(f"--queue: {path} cannot be made: {type(error).__name__}: {error}", hint=hint) from error


def follow(client: Client, job: str, plan: Plan, hooks: Hooks, *, json: bool) -> View:
    """Until the pipeline, which is what became of the plan, is over, and is not restarted: the view of its job.
    ProviderError when a callback raises; then, as after Ctrl-C, the pipeline goes on. With `json`, what callbacks print
    goes to the standard error."""
    with contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext():
        follower = _Follower(client, job, plan, hooks)
        follower.tell("on_start")
        try:
            view = follower.drive()
        finally:
            follower.tell("on_end")
    if not json:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(view["counts"].items()))
        print(f"{job} {view['state']}: {counts}")
        if view["state"] != "completed":
            complain_of(client, view, "not all steps are done", f"`turnout why {job}` tells more")
    return view


class _Follower:
    def __init__(self, client: Client, job: str, plan: Plan, hooks: Hooks) -> None:
        self._client, self._job, self._hooks = client, job, hooks
        self._plans = {step.name: step for step in plan.steps}
        self._jobs = needs.jobs_of(plan)
        self._by_run: dict[str, QueuedJob] = {}
        self._numbers: Counter[str] = Counter()  # of jobs in each step
        self._restarted = (0, 0)  # runs up to this one there were when it was restarted
        self._seen: object = None

    def drive(self) -> View:
        restarts, complete = 0, 0
        while True:
            view = self._client.job_wait(self._job, seconds=_PAUSE)
            self._look(view)
            self.tell("on_tick")
            if view["state"] not in TERMINAL:
                continue
            restarts = restarts + 1 if len(self._hooks.complete) == complete else 1
            complete = len(self._hooks.complete)
            is_locked = view["state"] == "failed" and bool(self._hooks.waiting)
            if not is_locked or not self.tell("on_locked"):
                return view
            if restarts > _RESTARTS:
                print(f"restarted {_RESTARTS} times, and nothing more is complete: it ends", file=sys.stderr)
                return view
            self._restart()

    def tell(self, name: str, *given: Any) -> Any:
        try:
            return self._hooks.tell(name, *given)
        except Exception as error:  # the class's own affair; the pipeline is not
            where = f" ({place_of(error)})" if place_of(error) else ""
            what = f"{type(self._hooks.made).__name__}.{name} raised {type(error).__name__}: {error}{where}"
            raise ProviderError(what, hint=f"{self._job} goes on; `turnout attach {self._job}` waits for it") from error

    def _restart(self) -> None:
        """What failed, and what was given up for that, is done again."""
        self._restarted = max(map(_number, self._by_run), default=self._restarted)
        self._client.resume_pipeline(self._job)
        for job in list(self._hooks.failed):
            self._hooks.move(job, self._hooks.waiting)
        for job in self._hooks.waiting:
            job.attempts, job.waiting, job.is_announced = 0, True, False
        self._seen = None

    # --- its jobs ---------------------------------------------------------------------------------------------------

    def _look(self, view: View) -> None:
        """Tells what has changed. Nobody is asked about the runs while the counts of all steps are what they were."""
        if view["steps"] == self._seen:
            return
        for job, run in self._found(view["steps"]):
            job.run = run
            self._advance(job)
        self._seen = view["steps"]

    def _found(self, steps: list[View]) -> Iterator[tuple[QueuedJob, View]]:
        """Each job with its run: the newest, after a restart."""
        by_job = {step["job"]: step for step in steps}
        runs = sorted(each_page(self._client.runs, [f"job = {self._job}"]), key=lambda run: _number(run["name"]))
        newer: dict[str, View] = {}
        late: dict[str, list[str]] = {}
        for run in runs:
            job = self._by_run.get(run["name"]) or self._taken_over(run, newer)
            if job is None:
                step = by_job[run["job"]]
                job = self._new(run, step)
                self._hooks.waiting.append(job)
                if not self._plans[step["name"]].runs:
                    late.setdefault(step["name"], []).append(job.alias)
            self._by_run[run["name"]] = job
            newer[job.alias] = run
        for name, made in late.items():
            self._jobs[name] = [*self._jobs[name], *made]
            needs.make_known(name, made, self._hooks.jobs)
        for job in dict.fromkeys(self._by_run.values()):
            yield job, newer[job.alias]

    def _taken_over(self, run: View, newer: Mapping[str, View]) -> QueuedJob | None:
        """The job whose earlier run did not complete, and that this one is in the place of."""
        if self._restarted == (0, 0) or _number(run["name"]) <= self._restarted:
            return None
        for job in dict.fromkeys(self._by_run.values()):
            earlier = newer.get(job.alias)
            if job.key == _key(run) and earlier is not None and earlier["state"] in TERMINAL and not job.is_complete():
                return job
        return None

    def _new(self, run: View, step: View) -> QueuedJob:
        """As Metapipe would call it: by its step and its number there."""
        label = str(run["label"] or "")
        self._numbers[step["name"]] += 1
        alias = label if label.startswith(f"{step['name']}.") else f"{step['name']}.{self._numbers[step['name']]}"
        return QueuedJob(
            alias=alias, key=_key(run), depends_on=self._before(step, self._numbers[step["name"]]), run=run
        )

    def _before(self, step: View, number: int) -> list[str]:
        plan = self._plans[step["name"]]
        return needs.before(plan, number - 1, self._jobs) if plan.runs else needs.all_of(step["needs"], self._jobs)

    def _advance(self, job: QueuedJob) -> None:
        state, attempts = job.run["state"], job.run["attempts"]
        if not job.is_announced and (attempts or state == "queued"):
            job.is_announced = True
            self.tell("on_ready", job)
        while job.attempts < attempts:
            if job.attempts:
                self._back(job)
            job.attempts, job.waiting = job.attempts + 1, False
            self._hooks.move(job, self._hooks.running)
            self.tell("on_submit", job)
        if state in _WAITING and job in self._hooks.running:
            self._back(job)
        elif job.is_complete() and job not in self._hooks.complete:
            self._hooks.move(job, self._hooks.complete)
            self.tell("on_complete", job)
        elif job.is_error() and job not in self._hooks.failed:
            self._hooks.move(job, self._hooks.failed)
            self.tell("on_error", job)
            self.tell("on_fail", job)

    def _back(self, job: QueuedJob) -> None:
        """An attempt of it came to nothing, and another follows."""
        if job in self._hooks.running:
            job.waiting = True
            self._hooks.move(job, self._hooks.waiting)
            self.tell("on_error", job)


def _key(run: View) -> object:
    return run["job"], run["label"], run["params"]


def _number(name: str) -> tuple[int, int]:
    number, child = parse_run_name(name) or (0, None)
    return number, child or 0
