"""A backend as it is written for XT. Its cloud is a directory beside this package, and its machines are this one."""

import json
import os
import shutil
import signal
import subprocess

from interface import implements
from xtlib import console
from xtlib.backends.backend_interface import BackendInterface

CLOUD = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".my-cloud")
STAGES = {"running": "active", "completed": "completed", "error": "completed", "cancelled": "completed"}
RUN = 'cd "$1" && shift && "$@"; echo $? > ../exit_code'


class MyCloudCompute(implements(BackendInterface)):
    def __init__(self, compute, compute_def, username):
        self.compute = compute
        self.compute_def = compute_def
        self.username = username

    def adjust_run_commands(self, job_id, job_runs, using_hp, experiment, service_type, snapshot_dir, args):
        with open(os.path.join(snapshot_dir, "cloud_setup.sh"), "w") as file:
            file.write(f"export CLOUD_ACCOUNT={self.compute_def['account']}\n")
        for run in job_runs:
            run["pre_cmds"].append(". ./cloud_setup.sh")
            run["pre_cmds"].append('echo "set up for $CLOUD_ACCOUNT"')
            run["env_vars"]["CLOUD_SKU"] = self.compute_def["sku"]

    def submit_job(
        self,
        job_id,
        job_runs,
        workspace,
        compute_def,
        resume_name,
        repeat_count,
        using_hp,
        runs_by_box,
        experiment,
        snapshot_dir,
        args,
    ):
        for box_name, runs in runs_by_box.items():
            for run in runs:
                folder = os.path.join(CLOUD, run["run_name"])
                shutil.copytree(snapshot_dir, os.path.join(folder, "code"))
                with open(os.path.join(folder, "output"), "wb") as output:
                    process = subprocess.Popen(
                        ["sh", "-c", RUN, "sh", "code", *run["cmd_parts"]],
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env=dict(os.environ, **run["env_vars"]),
                        start_new_session=True,
                    )
                self.write(
                    run["run_name"],
                    job=job_id,
                    box=box_name,
                    workspace=workspace,
                    experiment=experiment,
                    user=self.username,
                    pid=process.pid,
                    cancelled=False,
                )
        return "mcc-" + job_id, f"https://mycoudcompute.com/{compute_def['sku']}/mcc-{job_id}"

    def view_status(
        self, run_name, workspace, job, monitor, escape_secs, auto_start, stage_flags, status, max_finished
    ):
        shown = 0
        for name, record in self.records():
            state = self.state(name, record)
            wanted = [
                run_name in (None, name),
                job in (None, record["job"]),
                workspace in ("", record["workspace"]),
                status in (None, state),
                STAGES[state] in stage_flags,
            ]
            if all(wanted):
                console.print(f"{name:8} {record['job']:8} {state:10} {record['box']}")
                shown += 1
        console.print(f"{shown} runs in my cloud")

    def provides_container_support(self):
        return False

    def cancel_runs_by_names(self, workspace, run_names, box_name):
        return [self.cancel(name, record) for name, record in self.records() if name in run_names]

    def cancel_runs_by_job(self, job_id, runs_by_box):
        ours = [(name, record) for name, record in self.records() if record["job"] == job_id]
        return {
            box: [self.cancel(name, record) for name, record in ours if record["box"] == box] for box in runs_by_box
        }

    def cancel_runs_by_user(self, box_name):
        return [self.cancel(name, record) for name, record in self.records() if record["user"] == self.username]

    def cancel(self, name, record):
        before = self.state(name, record)
        killed = before == "running"
        if killed:
            os.killpg(record["pid"], signal.SIGTERM)
            self.write(name, **dict(record, cancelled=True))
        status = "cancelled" if killed else before
        return {
            "workspace": record["workspace"],
            "run_name": name,
            "exper_name": record["experiment"],
            "killed": killed,
            "status": status,
            "before_status": before,
        }

    def state(self, name, record):
        if record["cancelled"]:
            return "cancelled"
        try:
            with open(os.path.join(CLOUD, name, "exit_code")) as file:
                return "completed" if file.read().strip() == "0" else "error"
        except FileNotFoundError:
            return "running"

    def write(self, name, **record):
        with open(os.path.join(CLOUD, name, "record.json"), "w") as file:
            json.dump(record, file)

    def records(self):
        for name in sorted(os.listdir(CLOUD)) if os.path.isdir(CLOUD) else ():
            with open(os.path.join(CLOUD, name, "record.json")) as file:
                yield name, json.load(file)
