"""The other way round: any target of turnout, driven through XT's interface."""

from __future__ import annotations

import shlex
import time
from typing import Any

import turnout
from turnout.compat.xt import console
from turnout.compat.xt.backends.backend_interface import BackendInterface, Record
from turnout.errors import InvalidInput
from turnout.model.state import STAGES, TERMINAL

_JOB = "xt-job"
_PAUSE = 1.0


def backend_for(target: str, client: turnout.Client | None = None) -> BackendInterface:
    """That target, as a backend of XT. The hub is asked when a method is called."""
    return _TargetBackend(target, client)


class _TargetBackend(BackendInterface):
    """A job of XT is a job here; its name is a tag of the runs."""

    def __init__(self, target: str, client: turnout.Client | None) -> None:
        self._target = target
        self._client = client or turnout.Client()

    def adjust_run_commands(
        self, job_id: str, job_runs: list[Record], using_hp: bool, experiment: str, service_type: str,
        snapshot_dir: str, args: dict[str, Any],
    ) -> None:  # fmt: skip
        """Nothing has to be: agents bring what runs need."""

    def submit_job(
        self, job_id: str, job_runs: list[Record], workspace: str, compute_def: dict[str, Any],
        resume_name: str | None, repeat_count: int, using_hp: bool, runs_by_box: dict[str, list[Record]],
        experiment: str, snapshot_dir: str, args: dict[str, Any],
    ) -> tuple[str, str | None]:  # fmt: skip
        """Submits them as one job, each record a run; (its name here, None). InvalidInput where `env_vars` are not the
        same for all, or one of several is to be repeated: a job here cannot be that."""
        wishes = {
            "target": self._target, "workspace": workspace, "experiment": experiment,
            "env": _variables(job_id, job_runs), "tags": {_JOB: job_id},
        }  # fmt: skip
        repeat = _repeat(job_id, job_runs, repeat_count)
        commands = [_command(record) for record in job_runs]
        if len(commands) == 1:
            answer = self._client.submit_command(commands[0], cwd=snapshot_dir, repeat=repeat, **wishes)
        else:
            answer = self._client.submit_commands(commands, cwd=snapshot_dir, **wishes)
        return str(answer["job"]), None

    def view_status(
        self, run_name: str | None, workspace: str, job: str | None, monitor: bool, escape_secs: float | None,
        auto_start: bool, stage_flags: dict[str, bool], status: str | None, max_finished: int | None,
    ) -> None:  # fmt: skip
        """A line for each run; with `monitor` again and again, until nothing goes on or `escape_secs` went by."""
        deadline = None if escape_secs is None else time.monotonic() + escape_secs
        while True:
            views = self._views(run_name, workspace, job, stage_flags, status, max_finished)
            for view in views:
                command = " ".join(shlex.join(view["command"]).split())
                console.print(view["name"], view["state"], view["node"] or "", command, sep="\t")
            going = any(view["state"] not in TERMINAL for view in views)
            if not monitor or not going or (deadline is not None and time.monotonic() >= deadline):
                return
            time.sleep(_PAUSE)

    def provides_container_support(self) -> bool:
        """A command that runs a container is a command as any other here."""
        return False

    def cancel_runs_by_names(self, workspace: str, run_names: list[str], box_name: str) -> list[Record]:
        return _records(self._client.cancel(run_names)) if run_names else []

    def cancel_runs_by_job(self, job_id: str, runs_by_box: dict[str, list[Record]]) -> dict[str, list[Record]]:
        """`job_id` is the name it was submitted under, or that it has here."""
        submitted = self._client.jobs([f'tags.{_JOB} = "{job_id}"', self._here], limit=1000)
        jobs = [view["name"] for view in submitted] or [job_id]
        return {self._target: [record for job in jobs for record in _records(self._client.cancel(job=job))]}

    def cancel_runs_by_user(self, box_name: str) -> list[Record]:
        return _records(self._client.cancel(everything=True, place=self._target))

    @property
    def _here(self) -> str:
        return f'target = "{self._target}"'

    def _views(
        self, run: str | None, workspace: str, job: str | None, stages: dict[str, bool], status: str | None,
        max_finished: int | None,
    ) -> list[Record]:  # fmt: skip
        if run:
            return [self._client.run(run)]
        asked = [stage for stage in STAGES if stages and stages.get(stage)] or list(STAGES)
        filters = [self._here, f"state in ({', '.join(state for stage in asked for state in STAGES[stage])})"]
        filters += [f'workspace = "{workspace}"'] if workspace else []
        filters += [f'job = "{job}" or tags.{_JOB} = "{job}"'] if job else []
        filters += [f"state = {status}"] if status else []
        views = self._client.runs(filters, limit=1000)
        if max_finished is None:
            return views
        over = [view["name"] for view in views if view["state"] in TERMINAL][max_finished:]
        return [view for view in views if view["name"] not in over]


def _variables(job: str, records: list[Record]) -> dict[str, Any]:
    found = [dict(record.get("env_vars") or {}) for record in records]
    if any(each != found[0] for each in found):
        hint = "submit those with the same ones together, or set what differs in their commands"
        raise InvalidInput(f"the runs of {job} have different env_vars", hint=hint)
    return found[0] if found else {}


def _repeat(job: str, records: list[Record], of_job: int | None) -> int | None:
    """How often its one run is to be executed, where that is more than once."""
    of_runs = [int(record.get("repeat") or 1) for record in records]
    asked = {count for count in (of_job or 1, *of_runs) if count > 1}
    if not asked:
        return None
    if len(records) > 1:
        hint = "submit each that is to be repeated alone, or one record for each time"
        raise InvalidInput(f"{job} has {len(records)} runs: only a single one can be repeated", hint=hint)
    if len(asked) > 1:
        raise InvalidInput(f"{job} is repeated {of_job} times, its run {of_runs[0]} times", hint="give one of the two")
    return asked.pop()


def _command(record: Record) -> list[str]:
    """With its lines for the shell in front."""
    command = [str(word) for word in record["cmd_parts"]]
    lines = [str(line) for line in record.get("pre_cmds") or []]
    return ["bash", "-c", "\n".join([*lines, 'exec "$@"']), "bash", *command] if lines else command


def _records(ended: list[Record]) -> list[Record]:
    keys = ("workspace", "run_name", "exper_name", "killed", "status", "before_status")
    return [{key: each[key] for key in keys} for each in ended]
