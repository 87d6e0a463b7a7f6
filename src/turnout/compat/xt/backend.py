"""The other way round: any target of turnout, driven through XT's interface."""

from __future__ import annotations

import shlex
import time
from typing import Any

import turnout
from turnout.compat.xt import console
from turnout.compat.xt.backends.backend_interface import BackendInterface, Record
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
        """Submits them as one job, each record a run; (its name here, None). `env_vars` have to be the same for all."""
        env = dict(job_runs[0].get("env_vars") or {}) if job_runs else {}
        wishes = {
            "target": self._target, "workspace": workspace, "experiment": experiment, "env": env,
            "tags": {_JOB: job_id},
        }  # fmt: skip
        commands = [_command(record) for record in job_runs]
        if len(commands) == 1:
            repeat = repeat_count if repeat_count and repeat_count > 1 else None
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
        names = [view["name"] for view in self._client.runs([f'tags.{_JOB} = "{job_id}"', self._here])]
        ended = self._client.cancel(names) if names else self._client.cancel(job=job_id)
        return {self._target: _records(ended)}

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
        over = [view for view in views if view["state"] in TERMINAL][max_finished:] if max_finished else []
        return [view for view in views if view not in over]


def _command(record: Record) -> list[str]:
    """With its lines for the shell in front."""
    command = [str(word) for word in record["cmd_parts"]]
    lines = [str(line) for line in record.get("pre_cmds") or []]
    return ["bash", "-c", "\n".join([*lines, 'exec "$@"']), "bash", *command] if lines else command


def _records(ended: list[Record]) -> list[Record]:
    keys = ("workspace", "run_name", "exper_name", "killed", "status", "before_status")
    return [{key: each[key] for key in keys} for each in ended]
