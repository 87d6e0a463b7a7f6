"""A run as a provider gets it that launches runs: files in a directory, and a command that reports from there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from turnout.blobs import Blobs
from turnout.engine.options import options_of
from turnout.home import write_private
from turnout.model.ids import job_name
from turnout.model.spec import JobSpec
from turnout.plugin.provider import Launch, Work
from turnout.snapshot.laying import lay_out
from turnout.store.agents import Agent
from turnout.store.jobs import Job, load_jobs, variables_of
from turnout.store.queue import Entry, live_runs, next_in
from turnout.store.store import Store
from turnout.wire.long_words import Shortened, shorten
from turnout.wire.script import filled

#: What is ours among the files: the agent's program, and what each run begins with.
_OURS = ".turnout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """`directory` has one directory for each job whose runs are launched, for as long as one of them is not over."""

    store: Store
    blobs: Blobs
    directory: Path

    def attach(self, agent: Agent, launch: Launch) -> Launch | None:
        """The launch with its run; None when that does not wait any more."""
        with self.store.read() as connection:
            entry = next_in(connection, agent.queue)
            if entry is None:
                return None
            job = load_jobs(connection, {entry.job})[entry.job]
            job = replace(job, spec=replace(job.spec, env=variables_of(connection, entry.job)))
        return _with_work(launch, entry, job, self._prepare(entry, job, launch))

    def clear(self) -> None:
        """Removes what belongs to jobs that are over."""
        for folder in self.directory.iterdir() if self.directory.is_dir() else ():
            with self.store.read() as connection:
                is_over = folder.name.isdecimal() and not live_runs(connection, job=int(folder.name))
            if is_over:
                shutil.rmtree(folder, ignore_errors=True)

    def _prepare(self, entry: Entry, job: Job, launch: Launch) -> Path:
        """The job's files with what is ours among them."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = self.directory / str(job.id) / "files"
        lay_out(self.blobs, job.spec.before, files)
        ours = files / _OURS
        ours.mkdir(mode=0o700, exist_ok=True)
        program = ours / os.path.basename(launch.program)
        if not program.exists():
            shutil.copyfile(launch.program, program.with_suffix(".new"))
            program.with_suffix(".new").replace(program)
        order = json.loads(launch.stdin)
        for name in ("directory", "cache"):
            order[name] = f"{_OURS}/{order[name]}"
        order |= {"working_dir": job.spec.working_dir, "run": entry.name, "lacks": _lacks(job.spec, order)}
        write_private(files / _order_path(entry), json.dumps(order))
        if job.spec.script is not None:
            write_private(files / _script_path(job.spec), filled(job.spec.script))
        shortened = _shortened(job.spec, entry)
        if shortened is not None:
            write_private(files / _text_path(entry), shortened.text)
        return files


def _with_work(launch: Launch, entry: Entry, job: Job, files: Path) -> Launch:
    spec, python = job.spec, launch.python or "python3"
    program = f"{_OURS}/{os.path.basename(launch.program)}"
    command, shortened = _command(spec, entry), _shortened(spec, entry)
    executed = command if shortened is None else shortened.argv
    work = Work(
        job=job_name(job.id), run=entry.name, attempt=entry.record.attempt + 1, workspace=spec.workspace,
        experiment=spec.experiment, argv=(python, program, "exec", _order_path(entry), "--", *executed),
        command=command, files=str(files), repeat=spec.repeat, env=dict(spec.env), options=options_of(spec),
        params=entry.params, search=spec.search is not None,
    )  # fmt: skip
    return Launch(**{**vars(launch), "work": work})


def _order_path(entry: Entry) -> str:
    """Each attempt has its own: one that its runner starts late must not come as a later one."""
    return f"{_OURS}/{entry.name}.{entry.record.attempt + 1}.json"


def _text_path(entry: Entry) -> str:
    return f"{_OURS}/{entry.name}.{entry.record.attempt + 1}.text"


def _shortened(spec: JobSpec, entry: Entry) -> Shortened | None:
    """Its command, if that has a text which is too long for an argument: then this lies among the files."""
    return shorten(list(_command(spec, entry)), os.path.relpath(_text_path(entry), spec.working_dir or "."))


def _command(spec: JobSpec, entry: Entry) -> tuple[str, ...]:
    """What is executed where the hub cannot be reached."""
    if spec.script is None:
        return tuple(entry.argv)
    return "bash", os.path.relpath(_script_path(spec), spec.working_dir or "."), *entry.argv


def _lacks(spec: JobSpec, order: Mapping[str, object]) -> str:
    """What has to be around a command that only an agent can bring, if whoever starts it does not; "" = nothing."""
    if spec.container is not None and not order.get("contained"):
        return f"its image {spec.container.image}"
    return f"its setup {spec.setup.name}" if spec.setup is not None else ""


def _script_path(spec: JobSpec) -> str:
    """Where the script lies among the files, with its lines in front and its place for arguments filled."""
    return spec.script_path or f"{_OURS}/run.sh"
