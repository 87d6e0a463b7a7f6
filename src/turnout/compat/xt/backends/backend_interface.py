"""What XT asks of a class that serves a kind of compute. Names and arguments are XT's; what they mean here is said at
each. A record of a run (in `job_runs` and `runs_by_box`) is a dict with the keys ``run_name, workspace, exper_name,
box_name, cmd_parts, pre_cmds, env_vars, repeat``; of a cancel, ``workspace, run_name, exper_name, killed, status,
before_status``.
"""

from __future__ import annotations

from typing import Any

from turnout.compat.xt.interface import Interface

Record = dict[str, Any]


class BackendInterface(Interface):
    def adjust_run_commands(
        self, job_id: str, job_runs: list[Record], using_hp: bool, experiment: str, service_type: str,
        snapshot_dir: str, args: dict[str, Any],
    ) -> None:  # fmt: skip
        """Before the job is stored: may edit the records in place (their command, the lines before it, variables) and
        change the files in `snapshot_dir`. `args` are the options of ``turnout run``."""
        raise NotImplementedError

    def submit_job(
        self, job_id: str, job_runs: list[Record], workspace: str, compute_def: dict[str, Any],
        resume_name: str | None, repeat_count: int, using_hp: bool, runs_by_box: dict[str, list[Record]],
        experiment: str, snapshot_dir: str, args: dict[str, Any],
    ) -> tuple[str, str | None]:  # fmt: skip
        """Starts the runs there and gives (service_job_id, monitor_url). `compute_def` is the target's entry in the
        settings with its service's keys; `cmd_parts` of a record is what has to be executed in a copy of
        `snapshot_dir`."""
        raise NotImplementedError

    def view_status(
        self, run_name: str | None, workspace: str, job: str | None, monitor: bool, escape_secs: float | None,
        auto_start: bool, stage_flags: dict[str, bool], status: str | None, max_finished: int | None,
    ) -> None:  # fmt: skip
        """Prints how the runs are."""
        raise NotImplementedError

    def provides_container_support(self) -> bool:
        """Whether it puts runs into containers itself."""
        raise NotImplementedError

    def cancel_runs_by_names(self, workspace: str, run_names: list[str], box_name: str) -> list[Record]:
        """Ends these runs."""
        raise NotImplementedError

    def cancel_runs_by_job(self, job_id: str, runs_by_box: dict[str, list[Record]]) -> dict[str, list[Record]]:
        """Ends the runs of a job; records of cancels by box."""
        raise NotImplementedError

    def cancel_runs_by_user(self, box_name: str) -> list[Record]:
        """Ends all that the user runs there."""
        raise NotImplementedError
